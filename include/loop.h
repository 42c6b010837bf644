/* loop.h: an epoll event loop: descriptors, timers, and a mailbox through which other threads hand it work.
 * All calls from the loop's own thread, except where "any thread" is said. */
#ifndef PRESENCE_LOOP_H
#define PRESENCE_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "clock.h"
#include "status.h"

struct loop;

/* Embedded in its owner. The owner keeps it alive until loop_watch_remove; removing it inside any callback is safe,
 * an event already fetched for it is dropped. */
struct loop_watch {
  int fd;
  uint32_t events; /* EPOLLIN | EPOLLOUT, level triggered */
  void (*ready)(struct loop_watch *watch, uint32_t events);
  void *context;
};

/* Embedded in its owner, who zeroes it and sets fire and context; one shot; re-arm inside the callback to repeat. An armed timer
 * must be cancelled before its memory goes. */
struct loop_timer {
  int64_t due_us; /* on the clock's monotonic time; meaningful while armed */
  void (*fire)(struct loop_timer *timer);
  void *context;
  bool armed;
  struct loop_timer *child, *next, *previous; /* the heap's, see service/common/timers.h */
};

/* Work posted from another thread; embedded in its owner, which the posting thread hands over. run() is called once, on the
 * loop's thread; it may free the owner. */
struct loop_task {
  void (*run)(struct loop_task *task);
  void *context;
  struct loop_task *next;
};

enum status loop_new(const struct clock *clock, struct loop **loop) MUST_CHECK;
void loop_free(struct loop *loop); /* runs what is left in the mailbox first */

enum status loop_watch_add(struct loop *loop, struct loop_watch *watch) MUST_CHECK;
enum status loop_watch_change(struct loop *loop, struct loop_watch *watch, uint32_t events) MUST_CHECK;
void loop_watch_remove(struct loop *loop, struct loop_watch *watch);

/* Counts from loop_now_us(); re-arms if armed. A timer never fires in the pass that set it; it is
 * late by up to a millisecond where the kernel can't sleep for less (before Linux 5.11). */
void loop_timer_set(struct loop *loop, struct loop_timer *timer, int64_t delay_us);
void loop_timer_cancel(struct loop *loop, struct loop_timer *timer); /* also when not armed */

/* Any thread; never fails, never blocks, takes no lock. Tasks of one thread run in the order posted; what a task posts runs in
 * the next pass. */
void loop_post(struct loop *loop, struct loop_task *task);

/* Called once after each pass over the ready descriptors, before sleeping: the place where batches are sent. The hook may
 * return the longest time to sleep in us (-1: no limit of its own). */
void loop_set_after_pass(struct loop *loop, int64_t (*hook)(void *context), void *context);

/* A pass: wait, ready descriptors (at most 512), mailbox, due timers, hook. Returns after loop_stop, when the pass at hand is
 * over; a stop asked for before loop_run ends it after one pass that does not wait. May be called again. */
enum status loop_run(struct loop *loop) MUST_CHECK;
void loop_stop(struct loop *loop); /* any thread */

const struct clock *loop_clock(const struct loop *loop);
int64_t loop_now_us(const struct loop *loop); /* monotonic, read once per pass */
void loop_read_clock(struct loop *loop);      /* once more, where the pass has taken its time */

#endif
