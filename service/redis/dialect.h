/* dialect.h: which dialect to speak to a server. Private to service/redis. */
#ifndef PRESENCE_REDIS_DIALECT_H
#define PRESENCE_REDIS_DIALECT_H

#include "redis.h"

/* able: trial.lua's answer. A server that can do a dialect can also do all that come after it. STATUS_REFUSED: mode forces one
 * that the server cannot do. STATUS_PROTOCOL: no such answer. */
enum status dialect_choose(struct str able, enum config_redis_mode mode, enum redis_dialect *dialect) MUST_CHECK;
const char *dialect_mode_name(enum config_redis_mode mode);

#endif
