/* window.h: the events of one endpoint that are read and not all delivered yet, in the order of seq.
 *
 *   … delivered | head: first undelivered … delivered … undelivered … :tail | not read yet
 *               ^ cursor                                                    ^ read_seq
 *
 * Of one device only the oldest undelivered event may be sent; other devices go on meanwhile. What lies between the cursor and
 * the tail and is delivered is the set that is saved beside the cursor. Pure logic, one thread. */
#ifndef PRESENCE_WEBHOOK_WINDOW_H
#define PRESENCE_WEBHOOK_WINDOW_H

#include "str.h"

enum { WINDOW_MAX = 256 };

enum window_state { WINDOW_WAITING, WINDOW_SENDING, WINDOW_DELIVERED };

/* The caller changes none of it. */
struct window_entry {
  int64_t seq;
  enum window_state state;
  bool blocked;      /* an earlier event of its device is not delivered */
  uint64_t next;     /* position of the next event of its device; 0: none so far */
  int64_t due_us;    /* monotonic: not sent before */
  unsigned attempts; /* that failed */
  uint64_t device_hash;
  struct buf text; /* id, device and body, one after the other; freed once it is delivered */
  size_t id_len, device_len;
};

struct window {
  struct window_entry *entries; /* a ring: position p is entries[p % WINDOW_MAX] */
  uint64_t head, tail;          /* positions, from 1 on; head == tail: empty */
  int64_t read_seq;             /* all events up to it are in here, delivered or not wanted */
};

/* Everything up to cursor is delivered. */
enum status window_init(struct window *window, int64_t cursor) MUST_CHECK;
void window_free(struct window *window); /* also of a zeroed one */

static inline size_t window_count(const struct window *window) { return (size_t)(window->tail - window->head); }
static inline size_t window_room(const struct window *window) { return WINDOW_MAX - window_count(window); }

/* The next event, which is copied. Its seq is above read_seq. STATUS_FULL: no room. */
enum status window_add(struct window *window, int64_t seq, struct str id, struct str device, struct str body) MUST_CHECK;
/* The same for one that was delivered before. */
enum status window_add_delivered(struct window *window, int64_t seq) MUST_CHECK;
/* There is nothing (more) to deliver up to seq. */
void window_read_up_to(struct window *window, int64_t seq);

/* The oldest event that may be sent now; NULL: none. */
struct window_entry *window_next(const struct window *window, int64_t now_us);
/* When the next one may be sent, as far as the window is concerned; INT64_MAX: not before something is delivered or added. */
int64_t window_next_due_us(const struct window *window);
void window_sending(struct window_entry *entry);
void window_delivered(struct window *window, struct window_entry *entry);
void window_failed(struct window_entry *entry, int64_t due_us); /* it may be sent again from then on */

struct str window_entry_id(const struct window_entry *entry);
struct str window_entry_body(const struct window_entry *entry);

/* Everything up to it is delivered. */
int64_t window_cursor(const struct window *window);
/* The delivered ones above the cursor, ascending, at most WINDOW_MAX: how many. */
size_t window_delivered_above(const struct window *window, int64_t seqs[WINDOW_MAX]);

#endif
