/* dial.h: a plain connection to any server of a target: a Redis, or a Sentinel. Private to service/redis. */
#ifndef PRESENCE_REDIS_DIAL_H
#define PRESENCE_REDIS_DIAL_H

#include "redis.h"
#include "target.h"

/* Connects, blocking, each step at most timeout_ms, with TLS where the target has it; not authenticated. *error as wire_open's.
 * *context: the caller's to free, NULL on failure. STATUS_UNAVAILABLE, STATUS_REFUSED (TLS), STATUS_NO_MEMORY. */
enum status dial(const struct redis_target *target, const struct address *address, int64_t timeout_ms, redisContext **context,
                 struct buf *error) MUST_CHECK;
/* AUTH, where the target has a password. */
enum status dial_authenticate(redisContext *context, const struct redis_target *target, struct buf *error) MUST_CHECK;
/* One command, its reply in *reply. An error reply is a failure here: STATUS_UNAVAILABLE where it may go away by itself, else
 * STATUS_REFUSED. */
enum status dial_ask(redisContext *context, int argc, const char **argv, const size_t *lengths, redisReply **reply,
                     struct buf *error) MUST_CHECK;

/* error becomes "what: detail", or "what" where detail is empty. */
void dial_say(struct buf *error, const char *what, const char *detail);
/* hiredis's last error. */
const char *dial_error(const redisContext *context);

#endif
