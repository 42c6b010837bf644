#include "dial.h"

#include <errno.h>

#include "reply.h"
#include "tls.h"

static struct timeval to_timeval(int64_t ms) { return (struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000}; }

void dial_say(struct buf *error, const char *what, const char *detail) {
  buf_clear(error);
  if (buf_printf(error, "%s%s%s", what, *detail ? ": " : "", detail)) buf_clear(error);
}

const char *dial_error(const redisContext *context) {
  if (context && context->err == REDIS_ERR_IO && errno == EAGAIN) return "no answer in time";
  return context && context->err ? context->errstr : "the server closed the connection";
}

static enum status open_socket(const struct redis_target *target, const struct address *address, int64_t timeout_ms,
                               redisContext **context, struct buf *error) {
  struct timeval timeout = to_timeval(timeout_ms);
  *context = address->path ? redisConnectUnixWithTimeout(address->path, timeout)
                           : redisConnectWithTimeout(address->host, address->port, timeout);
  if (!*context) return STATUS_NO_MEMORY;
  if ((*context)->err || redisSetTimeout(*context, timeout) != REDIS_OK) {
    dial_say(error, "cannot connect", (*context)->errstr);
    return STATUS_UNAVAILABLE;
  }
  if (!address->path && redisEnableKeepAlive(*context) != REDIS_OK) {
    dial_say(error, "cannot set keep-alive", (*context)->errstr);
    return STATUS_UNAVAILABLE;
  }
  if (target->tls && tls_start(*context, target, address->host)) {
    dial_say(error, "TLS failed", (*context)->errstr);
    return STATUS_REFUSED;
  }
  return STATUS_OK;
}

enum status dial(const struct redis_target *target, const struct address *address, int64_t timeout_ms, redisContext **context,
                 struct buf *error) {
  buf_clear(error);
  enum status status = open_socket(target, address, timeout_ms, context, error);
  if (status && *context) {
    redisFree(*context);
    *context = NULL;
  }
  return status;
}

enum status dial_ask(redisContext *context, int argc, const char **argv, const size_t *lengths, redisReply **reply,
                     struct buf *error) {
  *reply = redisCommandArgv(context, argc, argv, lengths);
  if (!*reply) {
    dial_say(error, argv[0], dial_error(context));
    return STATUS_UNAVAILABLE;
  }
  if ((*reply)->type != REDIS_REPLY_ERROR) return STATUS_OK;
  enum reply_verdict verdict = reply_judge(*reply);
  dial_say(error, argv[0], (*reply)->str);
  freeReplyObject(*reply);
  *reply = NULL;
  return verdict == REPLY_ERROR ? STATUS_REFUSED : STATUS_UNAVAILABLE;
}

enum status dial_authenticate(redisContext *context, const struct redis_target *target, struct buf *error) {
  if (!target->password) return STATUS_OK;
  redisReply *reply;
  const char *argv[] = {"AUTH", target->user ? target->user : target->password, target->password};
  enum status status = dial_ask(context, target->user ? 3 : 2, argv, NULL, &reply, error);
  if (!status) freeReplyObject(reply);
  return status;
}
