#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "dialect.h"
#include "reply.h"
#include "tls.h"

static struct timeval to_timeval(int64_t ms) { return (struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000}; }

static void say(struct buf *error, const char *what, const char *detail) {
  buf_clear(error);
  if (buf_printf(error, "%s%s%s", what, *detail ? ": " : "", detail)) buf_clear(error);
}

const char *wire_error(const struct wire *wire) {
  if (wire->context && wire->context->err == REDIS_ERR_IO && errno == EAGAIN) return "no answer in time";
  return wire->context && wire->context->err ? wire->context->errstr : "the server closed the connection";
}

void wire_close(struct wire *wire) {
  if (wire->context) redisFree(wire->context);
  *wire = (struct wire){0};
}

static enum status open_socket(struct wire *wire, const struct redis_target *target, int64_t timeout_ms, struct buf *error) {
  struct timeval timeout = to_timeval(timeout_ms);
  wire->context = target->path ? redisConnectUnixWithTimeout(target->path, timeout)
                               : redisConnectWithTimeout(target->host, target->port, timeout);
  if (!wire->context) return STATUS_NO_MEMORY;
  if (wire->context->err || redisSetTimeout(wire->context, timeout) != REDIS_OK) {
    say(error, "cannot connect", wire->context->errstr);
    return STATUS_UNAVAILABLE;
  }
  if (!target->path && redisEnableKeepAlive(wire->context) != REDIS_OK) {
    say(error, "cannot set keep-alive", wire->context->errstr);
    return STATUS_UNAVAILABLE;
  }
  if (target->tls && tls_start(wire->context, target)) {
    say(error, "TLS failed", wire->context->errstr);
    return STATUS_REFUSED;
  }
  return STATUS_OK;
}

/* One command, its reply in *reply. An error reply is a failure here. */
static enum status ask(struct wire *wire, int argc, const char **argv, const size_t *lengths, redisReply **reply,
                       struct buf *error) {
  *reply = redisCommandArgv(wire->context, argc, argv, lengths);
  if (!*reply) {
    say(error, argv[0], wire_error(wire));
    return STATUS_UNAVAILABLE;
  }
  if ((*reply)->type != REDIS_REPLY_ERROR) return STATUS_OK;
  enum reply_verdict verdict = reply_judge(*reply);
  say(error, argv[0], (*reply)->str);
  freeReplyObject(*reply);
  *reply = NULL;
  return verdict == REPLY_ERROR ? STATUS_REFUSED : STATUS_UNAVAILABLE;
}

static enum status authenticate(struct wire *wire, const struct redis_target *target, struct buf *error) {
  redisReply *reply;
  if (target->password) {
    const char *argv[] = {"AUTH", target->user ? target->user : target->password, target->password};
    enum status status = ask(wire, target->user ? 3 : 2, argv, NULL, &reply, error);
    if (status) return status;
    freeReplyObject(reply);
  }
  if (target->database == 0) return STATUS_OK;
  char number[16];
  snprintf(number, sizeof number, "%d", target->database);
  enum status status = ask(wire, 2, (const char *[]){"SELECT", number}, NULL, &reply, error);
  if (!status) freeReplyObject(reply);
  return status;
}

static enum status identify(struct wire *wire, struct buf *error) {
  redisReply *reply;
  enum status status = ask(wire, 1, (const char *[]){"ROLE"}, NULL, &reply, error);
  if (status) return status;
  bool primary = reply_is_word(reply_at(reply, 0, REDIS_REPLY_STRING), "master");
  freeReplyObject(reply);
  if (!primary) {
    say(error, "this server is a replica, a primary is needed", "");
    return STATUS_UNAVAILABLE;
  }
  status = ask(wire, 2, (const char *[]){"INFO", "server"}, NULL, &reply, error);
  if (status) return status;
  const char *at = reply->type == REDIS_REPLY_STRING ? strstr(reply->str, "run_id:") : NULL;
  size_t len = at ? strspn(at + 7, "0123456789abcdef") : 0;
  if (len == REDIS_RUN_ID_LEN) memcpy(wire->run_id, at + 7, len);
  freeReplyObject(reply);
  if (len == REDIS_RUN_ID_LEN) return STATUS_OK;
  say(error, "INFO server gives no run_id", "");
  return STATUS_REFUSED;
}

static enum status find_dialect(struct wire *wire, const struct redis_target *target, struct buf *error) {
  struct buf key = {0};
  struct str trial;
  redisReply *reply = NULL;
  enum status status = script_file("trial.lua", &trial);
  if (!status) status = keys_append_partition(&key, redis_target_env(target), PARTITION_TRIAL, 0);
  if (status) goto out;
  const char *argv[] = {"EVAL", trial.data, "1", key.data};
  const size_t lengths[] = {4, trial.len, 1, key.len};
  status = ask(wire, 4, argv, lengths, &reply, error);
  if (status) goto out;
  status = dialect_choose(reply_str(reply), target->mode, &wire->dialect);
  if (status) {
    buf_clear(error);
    if (buf_printf(error, "redis-mode %s is asked for, but this server can only do %.*s", dialect_mode_name(target->mode),
                   STR_ARG(reply_str(reply)))) {
      buf_clear(error);
    }
  }
out:
  if (reply) freeReplyObject(reply);
  buf_free(&key);
  return status;
}

enum status wire_append(struct wire *wire, struct str bytes) {
  return redisAppendFormattedCommand(wire->context, bytes.data, bytes.len) == REDIS_OK ? STATUS_OK : STATUS_NO_MEMORY;
}

enum status wire_append_load(struct wire *wire, const struct redis_target *target, enum script script) {
  struct str text = buf_str(&target->scripts.texts[wire->dialect][script]);
  const char *argv[] = {"SCRIPT", "LOAD", text.data};
  const size_t lengths[] = {6, 4, text.len};
  return redisAppendCommandArgv(wire->context, 3, argv, lengths) == REDIS_OK ? STATUS_OK : STATUS_NO_MEMORY;
}

static enum status load_scripts(struct wire *wire, const struct redis_target *target, struct buf *error) {
  for (enum script script = 0; script < SCRIPT_COUNT; script++) {
    enum status status = wire_append_load(wire, target, script);
    if (status) return status;
  }
  for (enum script script = 0; script < SCRIPT_COUNT; script++) {
    void *got = NULL;
    if (redisGetReply(wire->context, &got) != REDIS_OK || !got) {
      say(error, "SCRIPT LOAD", wire_error(wire));
      return STATUS_UNAVAILABLE;
    }
    redisReply *reply = got;
    bool loaded = reply->type == REDIS_REPLY_STRING && reply->len == SCRIPT_SHA_LEN;
    if (loaded) {
      memcpy(wire->sha[script], reply->str, SCRIPT_SHA_LEN);
    } else {
      say(error, script_name(script), reply->type == REDIS_REPLY_ERROR ? reply->str : "SCRIPT LOAD gives no sha");
    }
    enum status status = loaded ? STATUS_OK : reply_judge(reply) == REPLY_ERROR ? STATUS_REFUSED : STATUS_UNAVAILABLE;
    freeReplyObject(reply);
    if (status) return status;
  }
  return STATUS_OK;
}

enum status wire_open(struct wire *wire, const struct redis_target *target, int64_t timeout_ms, struct buf *error) {
  *wire = (struct wire){0};
  buf_clear(error);
  enum status status = open_socket(wire, target, timeout_ms, error);
  if (!status) status = authenticate(wire, target, error);
  if (!status) status = identify(wire, error);
  if (!status) status = find_dialect(wire, target, error);
  if (!status) status = load_scripts(wire, target, error);
  if (status) wire_close(wire);
  return status;
}

enum status wire_set_nonblocking(struct wire *wire) {
  int flags = fcntl(wire->context->fd, F_GETFL);
  if (flags < 0 || fcntl(wire->context->fd, F_SETFL, flags | O_NONBLOCK) < 0) return STATUS_IO;
  wire->context->flags &= ~REDIS_BLOCK;
  return STATUS_OK;
}

void wire_patch(const struct wire *wire, const struct redis_call *call, char *command) {
  if (call->sha_at > 0) memcpy(command + call->sha_at - call->start, wire->sha[call->script], SCRIPT_SHA_LEN);
  if (call->run_id_at > 0) memcpy(command + call->run_id_at - call->start, wire->run_id, REDIS_RUN_ID_LEN);
}

enum status wire_next_reply(struct wire *wire, redisReply **reply) {
  void *got = NULL;
  if (redisReaderGetReply(wire->context->reader, &got) != REDIS_OK) return STATUS_PROTOCOL;
  *reply = got;
  return STATUS_OK;
}
