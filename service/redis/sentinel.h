/* sentinel.h: asks a Sentinel for the primary (https://redis.io/docs/latest/develop/reference/sentinel-clients/). Private to
 * service/redis. */
#ifndef PRESENCE_REDIS_SENTINEL_H
#define PRESENCE_REDIS_SENTINEL_H

#include "map.h"
#include "redis.h"

/* All partitions on the primary that the Sentinel at the other end names. Whether it is one, is found by connecting to it. The
 * target's password is told to a Sentinel only that asks for one. *error as wire_open's. */
enum status sentinel_ask(const struct redis_target *target, redisContext *context, struct redis_map **map,
                         struct buf *error) MUST_CHECK;

/* Reads the answer to SENTINEL GET-MASTER-ADDR-BY-NAME. STATUS_UNAVAILABLE: it knows no such primary. STATUS_PROTOCOL. */
enum status sentinel_read(const redisReply *reply, uint32_t partitions, struct redis_map **map) MUST_CHECK;

#endif
