/* feed.h: what the handlers of one loop see of the feed: a subscriber is told each event of its tenant behind its seq, in order,
 * each once. The loop's thread only.
 *
 *   state     its events come from                          goes on when
 *   SYNCING   nowhere yet: which is the newest seq?          the tailer has read
 *   BEHIND    a page from PostgreSQL, when it is its turn    the page is there
 *   RETRYING  nowhere: PostgreSQL could not be asked         the next tick
 *   PAUSED    nowhere: it has enough for now                 event_feed_continue
 *   LIVE      the next batch of the tailer                   it comes
 *
 * BEHIND is left, and PAUSED and SYNCING too, through the newest batches that the feed keeps, where they reach back far enough.
 */
#ifndef PRESENCE_EVENTS_FEED_H
#define PRESENCE_EVENTS_FEED_H

#include "event_batch.h"
#include "events.h"
#include "str.h"

struct event_subscriber;

struct event_subscriber_calls {
  /* Once, before any event: the first answer of PostgreSQL is there. False: it has left, or will be closed. */
  bool (*joined)(struct event_subscriber *subscriber);
  /* Some events. False: it has left, or has enough until event_feed_continue. */
  bool (*events)(struct event_subscriber *subscriber, const struct event_batch *batch, size_t first, size_t count);
  /* Its events cannot be read. STATUS_NOT_FOUND: they have been dropped, message tells more. Who has not left is tried again with
   * the next tick. */
  void (*failed)(struct event_subscriber *subscriber, enum status status, struct str message);
  bool (*tick)(struct event_subscriber *subscriber, int64_t now_us); /* each FEED_TICK_US. False: it has left */
  void (*drain)(struct event_subscriber *subscriber);                /* the service stops: must leave, now or soon */
};

enum { FEED_TICK_US = 1000000 };
#define FEED_FROM_NOW INT64_C(-1)

enum event_subscriber_state { SUBSCRIBER_SYNCING, SUBSCRIBER_BEHIND, SUBSCRIBER_RETRYING, SUBSCRIBER_PAUSED, SUBSCRIBER_LIVE };

/* Embedded in its owner, who zeroes it and sets calls, tenant and page_rows. */
struct event_subscriber {
  const struct event_subscriber_calls *calls;
  struct str tenant;
  int64_t page_rows; /* of a page from PostgreSQL */
  int64_t seq;       /* everything up to it has been handed over */
  /* private */
  enum event_subscriber_state state;
  bool has_joined;
  bool queued;            /* for a page */
  struct feed_call *call; /* under way for it */
  struct event_subscriber *next, *previous;
  struct event_subscriber *next_queued, *previous_queued;
};

/* after: a seq, or FEED_FROM_NOW: what is committed after this call. */
void event_feed_join(struct event_feed *feed, struct event_subscriber *subscriber, int64_t after);
void event_feed_continue(struct event_feed *feed, struct event_subscriber *subscriber); /* nothing where it is not paused */
/* Nothing is called any more. Also within its own calls, and where it is not in. */
void event_feed_leave(struct event_feed *feed, struct event_subscriber *subscriber);
/* All rows up to it have come by. */
int64_t event_feed_position(const struct event_feed *feed);

#endif
