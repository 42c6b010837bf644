/* cluster.h: asks a node of a cluster who has the slots (https://redis.io/docs/latest/commands/cluster-slots/). Private to
 * service/redis. */
#ifndef PRESENCE_REDIS_CLUSTER_H
#define PRESENCE_REDIS_CLUSTER_H

#include "map.h"
#include "redis.h"

/* asked: the node at the other end. *error as wire_open's. */
enum status cluster_ask(const struct redis_target *target, const struct address *asked, redisContext *context,
                        struct redis_map **map, struct buf *error) MUST_CHECK;

/* Reads the answer to CLUSTER SLOTS. slots: of each partition. Partitions whose slots nobody has stay with MAP_NOBODY.
 * STATUS_PROTOCOL. */
enum status cluster_read(const redisReply *reply, struct str asked_host, const uint16_t *slots, uint32_t partitions,
                         struct redis_map **map) MUST_CHECK;

#endif
