/* event_batch.h: some rows of the outbox, encoded once for all who wait for them: as frames of a Server-Sent Events stream
 * (https://html.spec.whatwg.org/multipage/server-sent-events.html#event-stream-interpretation), of which the data is the
 * CloudEvent.
 *
 *   id: 4711\n
 *   data: {"specversion":"1.0",…}\n
 *   \n
 *
 * The events of a tenant lie side by side, by seq, so that what a client gets of a batch is one run of bytes. Immutable once
 * made, reference counted: any thread. */
#ifndef PRESENCE_EVENT_BATCH_H
#define PRESENCE_EVENT_BATCH_H

#include "cloud_event.h"
#include "shared_bytes.h"

struct event_entry {
  int64_t seq;
  struct str tenant;    /* in names */
  size_t frame, data;   /* where they begin in frames */
  size_t data_len, end; /* end: of the frame */
};

struct event_batch {
  atomic_size_t holders;
  int64_t after, last; /* it holds all rows (of the tenants it is about) with after < seq <= last */
  size_t count, capacity;
  struct event_entry *events; /* by tenant, then seq */
  struct buf names;
  struct shared_bytes *frames;
  struct buf text; /* while it is made: becomes frames */
};

/* An empty one with room for so many events. The caller holds it. */
enum status event_batch_new(size_t capacity, int64_t after, int64_t last, struct event_batch **batch) MUST_CHECK;
/* Events must come by tenant, then seq; no more than the capacity. */
enum status event_batch_add(struct event_batch *batch, const struct cloud_event *event) MUST_CHECK;
/* Nothing is added any more. */
enum status event_batch_finish(struct event_batch *batch) MUST_CHECK;

struct event_batch *event_batch_hold(struct event_batch *batch);
void event_batch_release(struct event_batch *batch); /* NULL is fine */

/* The tenant's events with a seq above `after`: *first and how many. */
size_t event_batch_find(const struct event_batch *batch, struct str tenant, int64_t after, size_t *first);

#endif
