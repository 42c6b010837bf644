/* redis_round.h: one call to each of several partitions, sent in one go; what a worker's thread repeats all day.
 *
 *   redis_round_begin(&round);
 *   for each partition: status = store_x_encode(redis_round_call(&round), target, partition, ...);
 *                       if (status == STATUS_OK) redis_round_add(&round, partition);
 *   redis_round_send(&round, conn);
 *   for i < round.count: round.partitions[i], round.statuses[i], round.replies[i]
 */
#ifndef PRESENCE_REDIS_ROUND_H
#define PRESENCE_REDIS_ROUND_H

#include "redis.h"

struct redis_round {
  size_t capacity;
  size_t count;
  uint32_t *partitions;
  struct redis_call **calls;
  enum status *statuses;
  redisReply **replies; /* NULL unless the status is STATUS_OK; the round's, until the next begin or free */
};

/* Room for a call to each of `capacity` partitions. Zero-initialised, or after a failed init, the struct may be freed. */
enum status redis_round_init(struct redis_round *round, size_t capacity) MUST_CHECK;
void redis_round_free(struct redis_round *round);

void redis_round_begin(struct redis_round *round);
/* The call to encode next; there is one as long as count < capacity. */
struct redis_call *redis_round_call(const struct redis_round *round);
void redis_round_add(struct redis_round *round, uint32_t partition);
/* Fills statuses and replies. Returns the first status that is not STATUS_OK. An empty round is STATUS_OK. */
enum status redis_round_send(struct redis_round *round, struct redis_conn *conn) MUST_CHECK;

#endif
