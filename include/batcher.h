/* batcher.h: group commit of heartbeats. One per API loop, the loop's thread only.
 *
 *   handlers --batcher_add--> a list per partition --after a pass, one script call for all touched partitions--> Redis
 *                                                  (in a cluster one for each)      reply --> each waiting heartbeat's done()
 * Plain heartbeats go by renew_heartbeats; a partition's with others among them, and what that script leaves, by
 * record_heartbeats. While calls to a server are outstanding the lists grow, so batches grow by themselves under load. The
 * batcher also keeps the marks: design: a loop that recorded nothing marks each partition every 25 ms with an empty call, after
 * the waiting heartbeats, only where its last call succeeded and none is outstanding; after a start or a deaf interval not before
 * the first real heartbeat or settle_ms. */
#ifndef PRESENCE_BATCHER_H
#define PRESENCE_BATCHER_H

#include "store.h"

struct batcher;

/* Heartbeats a call at most, so that Redis is back for others within 5 ms. One that opens a session takes it 20 to 35 us, a
 * renewal 5 to 8. */
#define BATCHER_CALL_MAX 200
#define BATCHER_OPENING_MAX 100 /* of record_heartbeats */

struct batcher_options {
  int64_t outage_ms, settle_ms, backlog_cap;
  struct str listener; /* unique name of this loop's marks; copied */
  size_t queue_max;    /* waiting heartbeats of the loop, over it STATUS_FULL */
  int64_t wait_max_ms; /* waited longer for its turn: dropped with STATUS_TIMEOUT (1000) */
};

/* One waiting heartbeat; embedded in its owner, which keeps item's strings alive until done() has run, once. The owner sets item
 * and done. */
struct batcher_entry {
  struct record_item item; /* when done() runs, its ttl_ms is the one in force */
  /* outcome and now_ms only with STATUS_OK. Of several entries for one device in a batch the last one's values are written; all
   * get the same outcome. */
  void (*done)(struct batcher_entry *entry, enum status status, const struct record_outcome *outcome, int64_t now_ms);
  int64_t added_us;           /* the batcher's */
  uint32_t slot;              /* the batcher's */
  bool left;                  /* the batcher's */
  struct batcher_entry *next; /* the batcher's */
};

enum status batcher_new(const struct redis_target *target, struct redis_link *link, struct loop *loop,
                        const struct batcher_options *options, struct batcher **batcher) MUST_CHECK;
/* Answers what waits or is outstanding with STATUS_CLOSED. Before or after its redis_link is freed, as the owner likes. */
void batcher_free(struct batcher *batcher);
/* STATUS_FULL, STATUS_UNAVAILABLE: not taken, done() is not called. */
enum status batcher_add(struct batcher *batcher, uint32_t partition, struct batcher_entry *entry) MUST_CHECK;
/* Whether clients are connected that have no request under way. Where there are none a gathering wave has nothing to wait for. */
void batcher_expect(struct batcher *batcher, bool more_may_come);
/* For the loop's after-pass hook: sends, marks, flushes the link; returns the longest sleep in us. */
int64_t batcher_after_pass(struct batcher *batcher);
/* Heartbeats come densely, and none that comes now can leave before Redis has answered: for so long nobody need look at them. 0:
 * they are looked at when they come. */
int64_t batcher_rest_us(const struct batcher *batcher);
/* Takes this loop's marks away and stops marking (an orderly stop); done() when Redis has answered or can't. */
void batcher_unlisten(struct batcher *batcher, void (*done)(void *context), void *context);
/* True while the partition's last call succeeded: its heartbeats can be taken. */
bool batcher_hears(const struct batcher *batcher, uint32_t partition);

#endif
