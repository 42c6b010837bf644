/* events.h: the live feed of the outbox, for clients that wait for events over HTTP.
 *
 *                 reads new rows once                one task per loop            each client its tenant's part
 *   PostgreSQL ---------------------> event_tailer ----------------> event_feed -------------------------------> long polls, SSE
 *                                     (one thread)   shared batches  (one per loop: the newest batches, who waits)
 *
 * A client that is behind the newest batches catches up by pages, read on the pool, and is then joined to the batches: by seq, so
 * that it neither misses a row nor gets one twice. So a thousand clients cost one query. */
#ifndef PRESENCE_EVENTS_H
#define PRESENCE_EVENTS_H

#include "pg_pool.h"

struct event_tailer;
struct event_feed;

enum status event_tailer_new(const char *postgres_url, const struct clock *clock, struct event_tailer **tailer) MUST_CHECK;
enum status event_tailer_start(struct event_tailer *tailer) MUST_CHECK;
/* Ends the thread; what loops still ask of it fails at once. The loops must still run, or never run again. */
void event_tailer_stop(struct event_tailer *tailer);
void event_tailer_free(struct event_tailer *tailer); /* after its feeds */

/* Before event_tailer_start. */
enum status event_feed_new(struct event_tailer *tailer, struct pg_pool *pool, struct loop *loop,
                           struct event_feed **feed) MUST_CHECK;
/* An orderly stop: long polls are answered with what there is, streams are ended, nobody waits any more. The loop's thread. */
void event_feed_drain(struct event_feed *feed);
bool event_feed_is_draining(const struct event_feed *feed);
/* Nothing of it is under way on other threads. The loop's thread. */
bool event_feed_is_idle(const struct event_feed *feed);
void event_feed_free(struct event_feed *feed); /* after its loop is freed, which runs what the tailer has posted last */

#endif
