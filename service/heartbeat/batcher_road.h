/* batcher_road.h: what the batcher needs of the world. batcher_new() gives it a redis_link and the scripts (batcher_road.c);
 * tests give it an imitation. */
#ifndef PRESENCE_HEARTBEAT_BATCHER_ROAD_H
#define PRESENCE_HEARTBEAT_BATCHER_ROAD_H

#include "batcher.h"

struct batcher_call;

/* The three calls return STATUS_OK when batcher_answer() will be called for `call`, once and later (never from inside); any other
 * status: nothing was sent. Of record, for `first` and each that batcher_call_next() gives, in the sections' order; renew: by
 * renew_heartbeats. */
struct batcher_road {
  void *context;
  uint32_t partitions;
  int64_t (*now_us)(void *context); /* monotonic, the loop's */
  bool (*ready)(void *context, uint32_t partition);
  uint32_t (*server)(void *context, uint32_t partition); /* which one has it, a number below partitions; any where none has */
  bool joins;                                            /* all are on one server, and a script call may have several sections */
  bool at_once;                                          /* a call costs nothing: heartbeats do not gather for it */
  enum status (*record)(void *context, bool renew, const struct record_section *sections, size_t count,
                        struct batcher_call *first);
  enum status (*probe)(void *context, uint32_t partition, struct batcher_call *call);
  enum status (*unlisten)(void *context, uint32_t partition, struct batcher_call *call);
  void (*flush)(void *context);
  void (*free)(void *context);
};

/* Takes the road: frees it with the batcher, and at once on failure. */
enum status batcher_new_on(const struct batcher_road *road, const struct batcher_options *options,
                           struct batcher **batcher) MUST_CHECK;
/* The answer to a call. head and outcomes (one per item) only with STATUS_OK, and only of record. */
void batcher_answer(struct batcher_call *call, enum status status, const struct record_reply *head,
                    const struct record_outcome *outcomes);
/* How many items the call carries, the call of the next section of its script call, and the road it went by. All of this before
 * the answer. */
size_t batcher_call_items(const struct batcher_call *call);
struct batcher_call *batcher_call_next(const struct batcher_call *call);
void *batcher_call_context(const struct batcher_call *call);

#endif
