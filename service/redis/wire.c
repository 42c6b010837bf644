#include "wire.h"

#include <fcntl.h>
#include <stdio.h>

#include "dial.h"
#include "dialect.h"
#include "reply.h"

const char *wire_error(const struct wire *wire) { return dial_error(wire->context); }

void wire_close(struct wire *wire) {
  if (wire->context) redisFree(wire->context);
  *wire = (struct wire){0};
}

static enum status select_database(struct wire *wire, const struct redis_target *target, struct buf *error) {
  if (target->database == 0) return STATUS_OK;
  redisReply *reply;
  char number[16];
  snprintf(number, sizeof number, "%d", target->database);
  enum status status = dial_ask(wire->context, 2, (const char *[]){"SELECT", number}, NULL, &reply, error);
  if (!status) freeReplyObject(reply);
  return status;
}

static enum status identify(struct wire *wire, struct buf *error) {
  redisReply *reply;
  enum status status = dial_ask(wire->context, 1, (const char *[]){"ROLE"}, NULL, &reply, error);
  if (status) return status;
  bool primary = reply_is_word(reply_at(reply, 0, REDIS_REPLY_STRING), "master");
  freeReplyObject(reply);
  if (!primary) {
    dial_say(error, "this server is a replica, a primary is needed", "");
    return STATUS_UNAVAILABLE;
  }
  status = dial_ask(wire->context, 2, (const char *[]){"INFO", "server"}, NULL, &reply, error);
  if (status) return status;
  const char *at = reply->type == REDIS_REPLY_STRING ? strstr(reply->str, "run_id:") : NULL;
  size_t len = at ? strspn(at + 7, "0123456789abcdef") : 0;
  if (len == REDIS_RUN_ID_LEN) memcpy(wire->run_id, at + 7, len);
  freeReplyObject(reply);
  if (len == REDIS_RUN_ID_LEN) return STATUS_OK;
  dial_say(error, "INFO server gives no run_id", "");
  return STATUS_REFUSED;
}

/* Tries on a key of that partition. */
static enum status try_dialect(struct wire *wire, const struct redis_target *target, uint32_t partition, redisReply **reply,
                               struct buf *error) {
  struct buf key = {0};
  struct str trial;
  enum status status = script_file("trial.lua", &trial);
  if (!status) status = keys_append_partition(&key, redis_target_env(target), PARTITION_TRIAL, partition);
  if (!status) {
    const char *argv[] = {"EVAL", trial.data, "1", key.data};
    const size_t lengths[] = {4, trial.len, 1, key.len};
    status = dial_ask(wire->context, 4, argv, lengths, reply, error);
  }
  buf_free(&key);
  return status;
}

/* Any partition of the server will do but one whose slot is on the move. */
static enum status find_dialect(struct wire *wire, const struct redis_target *target, const struct redis_map *map, size_t server,
                                struct buf *error) {
  redisReply *reply = NULL;
  enum status status = STATUS_UNAVAILABLE;
  for (uint32_t p = 0; p < map->partitions && status == STATUS_UNAVAILABLE && !wire->context->err; p++) {
    if (map->server_of[p] == (int)server) status = try_dialect(wire, target, p, &reply, error);
  }
  if (status) return status;
  status = dialect_choose(reply_str(reply), target->mode, &wire->dialect);
  if (status) {
    buf_clear(error);
    if (buf_printf(error, "redis-mode %s is asked for, but this server can only do %.*s", dialect_mode_name(target->mode),
                   STR_ARG(reply_str(reply)))) {
      buf_clear(error);
    }
  }
  freeReplyObject(reply);
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
      dial_say(error, "SCRIPT LOAD", wire_error(wire));
      return STATUS_UNAVAILABLE;
    }
    redisReply *reply = got;
    bool loaded = reply->type == REDIS_REPLY_STRING && reply->len == SCRIPT_SHA_LEN;
    if (loaded) {
      memcpy(wire->sha[script], reply->str, SCRIPT_SHA_LEN);
    } else {
      dial_say(error, script_name(script), reply->type == REDIS_REPLY_ERROR ? reply->str : "SCRIPT LOAD gives no sha");
    }
    enum status status = loaded ? STATUS_OK : reply_judge(reply) == REPLY_ERROR ? STATUS_REFUSED : STATUS_UNAVAILABLE;
    freeReplyObject(reply);
    if (status) return status;
  }
  return STATUS_OK;
}

enum status wire_open(struct wire *wire, const struct redis_target *target, const struct redis_map *map, size_t server,
                      int64_t timeout_ms, struct buf *error) {
  *wire = (struct wire){0};
  enum status status = dial(target, &map->servers[server], timeout_ms, &wire->context, error);
  if (!status) status = dial_authenticate(wire->context, target, error);
  if (!status) status = select_database(wire, target, error);
  if (!status) status = identify(wire, error);
  if (!status) status = find_dialect(wire, target, map, server, error);
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
