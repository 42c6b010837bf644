#include "loop.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "timers.h"

enum { EVENTS_PER_PASS = 512, SLEEP_MAX_US = 60000000, TIMER_SLACK_NS = 1000 };

struct loop {
  const struct clock *clock;
  int64_t now_us;
  int epoll_fd;
  struct loop_watch mailbox_watch;   /* of an eventfd that wakes the loop */
  struct loop_task *_Atomic mailbox; /* a stack, the newest task first */
  atomic_bool stopping;
  struct timers timers;
  int64_t (*after_pass)(void *context);
  void *after_pass_context;
  struct epoll_event ready[EVENTS_PER_PASS];
  bool coarse;     /* epoll sleeps whole milliseconds */
  int ready_count; /* fetched in this pass; ready[i].data.ptr is NULL once its watch was removed */
};

static void wake(struct loop *loop) {
  uint64_t one = 1;
  /* Fails only when the counter is full, and then the loop is awake anyway. */
  while (write(loop->mailbox_watch.fd, &one, sizeof one) < 0 && errno == EINTR) {
  }
}

static void drain_wakeups(struct loop_watch *watch, uint32_t events) {
  (void)events;
  uint64_t count = 0;
  while (read(watch->fd, &count, sizeof count) < 0 && errno == EINTR) {
  }
}

enum status loop_new(const struct clock *clock, struct loop **out) {
  struct loop *loop = calloc(1, sizeof *loop);
  if (loop == NULL) return STATUS_NO_MEMORY;
  enum status status = STATUS_IO;
  loop->clock = clock;
  loop->now_us = clock_monotonic_us(clock);
  loop->mailbox_watch =
      (struct loop_watch){.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC), .events = EPOLLIN, .ready = drain_wakeups};
  loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
  if (loop->epoll_fd < 0 || loop->mailbox_watch.fd < 0) goto out;
  status = loop_watch_add(loop, &loop->mailbox_watch);
out:
  if (status != STATUS_OK) {
    loop_free(loop);
    loop = NULL;
  }
  *out = loop;
  return status;
}

static void run_mailbox(struct loop *loop) {
  struct loop_task *newest = atomic_exchange_explicit(&loop->mailbox, NULL, memory_order_acquire);
  struct loop_task *oldest = NULL;
  while (newest != NULL) {
    struct loop_task *task = newest;
    newest = task->next;
    task->next = oldest;
    oldest = task;
  }
  while (oldest != NULL) {
    struct loop_task *task = oldest;
    oldest = task->next; /* run() may free the task */
    task->run(task);
  }
}

void loop_free(struct loop *loop) {
  if (loop == NULL) return;
  int saved_errno = errno;
  while (atomic_load_explicit(&loop->mailbox, memory_order_relaxed) != NULL) run_mailbox(loop);
  if (loop->epoll_fd >= 0) close(loop->epoll_fd);
  if (loop->mailbox_watch.fd >= 0) close(loop->mailbox_watch.fd);
  free(loop);
  errno = saved_errno;
}

static enum status control(struct loop *loop, int operation, struct loop_watch *watch) {
  struct epoll_event event = {.events = watch->events, .data.ptr = watch};
  return epoll_ctl(loop->epoll_fd, operation, watch->fd, &event) == 0 ? STATUS_OK : STATUS_IO;
}

enum status loop_watch_add(struct loop *loop, struct loop_watch *watch) { return control(loop, EPOLL_CTL_ADD, watch); }

enum status loop_watch_change(struct loop *loop, struct loop_watch *watch, uint32_t events) {
  if (watch->events == events) return STATUS_OK;
  uint32_t before = watch->events;
  watch->events = events;
  enum status status = control(loop, EPOLL_CTL_MOD, watch);
  if (status != STATUS_OK) watch->events = before;
  return status;
}

void loop_watch_remove(struct loop *loop, struct loop_watch *watch) {
  (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, watch->fd, NULL); /* already gone where the descriptor is closed */
  for (int i = 0; i < loop->ready_count; i++)
    if (loop->ready[i].data.ptr == watch) loop->ready[i].data.ptr = NULL;
}

void loop_timer_set(struct loop *loop, struct loop_timer *timer, int64_t delay_us) {
  loop_timer_cancel(loop, timer);
  if (__builtin_add_overflow(loop->now_us, delay_us > 0 ? delay_us : 1, &timer->due_us)) timer->due_us = INT64_MAX;
  timers_insert(&loop->timers, timer);
}

void loop_timer_cancel(struct loop *loop, struct loop_timer *timer) {
  if (timer->armed) timers_remove(&loop->timers, timer);
}

void loop_post(struct loop *loop, struct loop_task *task) {
  struct loop_task *newest = atomic_load_explicit(&loop->mailbox, memory_order_relaxed);
  do {
    task->next = newest;
  } while (!atomic_compare_exchange_weak_explicit(&loop->mailbox, &newest, task, memory_order_release, memory_order_relaxed));
  if (newest == NULL) /* otherwise whoever posted into the empty mailbox has woken the loop */
    wake(loop);
}

void loop_set_after_pass(struct loop *loop, int64_t (*hook)(void *context), void *context) {
  loop->after_pass = hook;
  loop->after_pass_context = context;
}

void loop_stop(struct loop *loop) {
  atomic_store_explicit(&loop->stopping, true, memory_order_relaxed);
  wake(loop);
}

static void run_ready(struct loop *loop) {
  for (int i = 0; i < loop->ready_count; i++) {
    struct loop_watch *watch = loop->ready[i].data.ptr;
    if (watch != NULL) watch->ready(watch, loop->ready[i].events);
  }
  loop->ready_count = 0;
}

static void run_timers(struct loop *loop) {
  struct loop_timer *timer = loop->timers.root;
  while (timer != NULL && timer->due_us <= loop->now_us) {
    timers_remove(&loop->timers, timer);
    timer->fire(timer);
    timer = loop->timers.root;
  }
}

/* How long epoll may sleep; < 0: until something happens. */
static int64_t sleep_us(struct loop *loop, int64_t limit_us) {
  int64_t wait_us = limit_us;
  if (loop->timers.root != NULL) {
    int64_t until_us = loop->timers.root->due_us - clock_monotonic_us(loop->clock);
    if (until_us < 0) until_us = 0;
    if (wait_us < 0 || until_us < wait_us) wait_us = until_us;
  }
  return wait_us < SLEEP_MAX_US ? wait_us : SLEEP_MAX_US;
}

/* To the microsecond where the kernel can (Linux 5.11) and no sandbox forbids it; else rounded up to milliseconds, so that a
 * timer is due when it returns. */
static int wait_for_events(struct loop *loop, int64_t wait_us) {
  if (wait_us > 0 && !loop->coarse) {
    struct timespec time = {.tv_sec = wait_us / 1000000, .tv_nsec = wait_us % 1000000 * 1000};
    int count = epoll_pwait2(loop->epoll_fd, loop->ready, EVENTS_PER_PASS, &time, NULL);
    if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return count;
    loop->coarse = true;
  }
  return epoll_wait(loop->epoll_fd, loop->ready, EVENTS_PER_PASS, wait_us < 0 ? -1 : (int)((wait_us + 999) / 1000));
}

enum status loop_run(struct loop *loop) {
  (void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK_NS); /* else each sleep is 50 us longer */
  int64_t wait_us = 0;                            /* the first pass does not sleep: the hook has not been asked yet */
  bool stop = false;
  do {
    int count = wait_for_events(loop, wait_us);
    if (count < 0 && errno != EINTR) return STATUS_IO;
    loop->ready_count = count > 0 ? count : 0;
    loop->now_us = clock_monotonic_us(loop->clock);
    run_ready(loop);
    run_mailbox(loop);
    run_timers(loop);
    int64_t limit_us = loop->after_pass != NULL ? loop->after_pass(loop->after_pass_context) : -1;
    wait_us = sleep_us(loop, limit_us);
    stop = atomic_exchange_explicit(&loop->stopping, false, memory_order_relaxed);
  } while (!stop);
  return STATUS_OK;
}

const struct clock *loop_clock(const struct loop *loop) { return loop->clock; }
void loop_read_clock(struct loop *loop) { loop->now_us = clock_monotonic_us(loop->clock); }

int64_t loop_now_us(const struct loop *loop) { return loop->now_us; }
