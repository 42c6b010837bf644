/* tailer.h: what feeds see of the tailer. */
#ifndef PRESENCE_EVENTS_TAILER_H
#define PRESENCE_EVENTS_TAILER_H

#include "event_batch.h"
#include "events.h"

/* A loop's end of the tailer. Each batch comes once; where memory is short or the loop is far behind, one is left out: its
 * successor's `after` tells. */
struct tail_end {
  void (*batch)(struct tail_end *end, struct event_batch *batch); /* on the loop's thread; holds it to keep it */
  struct loop *loop;
  atomic_uint under_way; /* the tailer's: batches posted and not yet run */
};
enum status tailer_attach(struct event_tailer *tailer, struct tail_end *end) MUST_CHECK; /* before the start */

/* How many of a loop's clients wait: the tailer rests while nobody does. Any thread. */
void tailer_interest(struct event_tailer *tailer, int change);

/* Asks for a read that begins after this call. done() runs once on the loop's thread, after the batches of that read: what was
 * committed before the call has come then. ok = false: PostgreSQL could not be asked. Embedded in its owner. */
struct tail_waiter {
  void (*done)(struct tail_waiter *waiter, bool ok);
  struct loop *loop;
  struct loop_task task; /* the tailer's */
  bool ok;               /* the tailer's */
  struct tail_waiter *next;
};
void tailer_sync(struct event_tailer *tailer, struct tail_waiter *waiter);

#endif
