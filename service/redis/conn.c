#include "conn.h"

#include <stdlib.h>

#include "backoff.h"
#include "log.h"
#include "reply.h"

/* One server stands behind all partitions; a cluster would have a node per primary and a map from partition to node. */
struct node {
  struct wire wire;
  struct backoff backoff;
  int64_t next_try_us;
  enum status last_failure;
};

struct redis_conn {
  struct redis_target *target;
  const struct clock *clock;
  int64_t call_timeout_ms;
  struct node node;
  struct buf error; /* one line, with its NUL */
};

enum { RESENDS_MAX = 3 };

enum status redis_conn_new(const struct redis_target *target, const struct clock *clock, int64_t call_timeout_ms,
                           struct redis_conn **conn) {
  *conn = calloc(1, sizeof **conn);
  if (!*conn) return STATUS_NO_MEMORY;
  (*conn)->target = target_retain(target);
  (*conn)->clock = clock;
  (*conn)->call_timeout_ms = call_timeout_ms;
  return STATUS_OK;
}

void redis_conn_free(struct redis_conn *conn) {
  if (!conn) return;
  wire_close(&conn->node.wire);
  redis_target_free(conn->target);
  buf_free(&conn->error);
  free(conn);
}

static struct node *node_of(struct redis_conn *conn, uint32_t partition) {
  (void)partition;
  return &conn->node;
}

const char *redis_conn_error(const struct redis_conn *conn) { return conn->error.len > 0 ? conn->error.data : ""; }
enum redis_dialect redis_conn_dialect(const struct redis_conn *conn) { return conn->node.wire.dialect; }

static void keep_error(struct redis_conn *conn, const char *text) {
  buf_clear(&conn->error);
  if (buf_printf(&conn->error, "%s", text) || buf_append(&conn->error, "", 1)) buf_clear(&conn->error);
}

static enum status drop(struct redis_conn *conn, struct node *node, const char *why) {
  keep_error(conn, why);
  log_warn("redis_connection_lost", LOG_STR("address", conn->target->address), LOG_STR("error", why));
  wire_close(&node->wire);
  return STATUS_CLOSED;
}

static enum status connect_node(struct redis_conn *conn, struct node *node) {
  if (node->wire.context) return STATUS_OK;
  if (clock_monotonic_us(conn->clock) < node->next_try_us) return STATUS_UNAVAILABLE;
  enum status status = wire_open(&node->wire, conn->target, conn->call_timeout_ms, &conn->error);
  if (status) {
    if (buf_append(&conn->error, "", 1)) buf_clear(&conn->error);
    node->next_try_us = clock_monotonic_us(conn->clock) + backoff_next_ms(&node->backoff) * 1000;
    node->last_failure = status;
    return STATUS_UNAVAILABLE;
  }
  buf_clear(&conn->error);
  backoff_reset(&node->backoff);
  return STATUS_OK;
}

enum status conn_wire(struct redis_conn *conn, uint32_t partition, struct wire **wire) {
  struct node *node = node_of(conn, partition);
  *wire = &node->wire;
  return connect_node(conn, node);
}

enum status redis_conn_run_id(struct redis_conn *conn, uint32_t partition, char run_id[REDIS_RUN_ID_LEN + 1]) {
  struct wire *wire;
  enum status status = conn_wire(conn, partition, &wire);
  if (!status) memcpy(run_id, wire->run_id, REDIS_RUN_ID_LEN + 1);
  return status;
}

static enum status append_call(struct wire *wire, const struct redis_call *call) {
  struct buf command = {0};
  enum status status = buf_append_str(&command, call_bytes(call));
  if (!status) {
    wire_patch(wire, call, command.data);
    status = wire_append(wire, buf_str(&command));
  }
  buf_free(&command);
  return status;
}

/* Waits for one reply. */
static enum status receive(struct redis_conn *conn, struct node *node, redisReply **reply) {
  void *got = NULL;
  if (redisGetReply(node->wire.context, &got) != REDIS_OK || !got) return drop(conn, node, wire_error(&node->wire));
  *reply = got;
  return STATUS_OK;
}

/* Hands a reply to the caller, or takes it away and says what it means. */
static enum status settle(struct redis_conn *conn, struct node *node, const struct redis_call *call, redisReply **reply,
                          bool *not_loaded) {
  enum reply_verdict verdict = reply_judge(*reply);
  *not_loaded = verdict == REPLY_NOSCRIPT;
  if (verdict == REPLY_FINE) return STATUS_OK;
  if (verdict == REPLY_ERROR || verdict == REPLY_BUSY) {
    keep_error(conn, (*reply)->str);
    log_warn("redis_call_failed", LOG_STR("script", script_name(call->script)), LOG_STR("error", (*reply)->str));
  }
  if (verdict == REPLY_NOT_PRIMARY) (void)drop(conn, node, (*reply)->str);
  freeReplyObject(*reply);
  *reply = NULL;
  return reply_verdict_status(verdict);
}

/* A call whose script the server does not know (any more): loads it and sends the call again. */
static enum status send_again(struct redis_conn *conn, struct node *node, const struct redis_call *call, redisReply **reply) {
  for (int i = 0; i < RESENDS_MAX; i++) {
    enum status status = wire_append_load(&node->wire, conn->target, call->script);
    if (!status) status = append_call(&node->wire, call);
    if (status) return drop(conn, node, "out of memory");
    redisReply *loaded = NULL;
    status = receive(conn, node, &loaded);
    if (status) return status;
    freeReplyObject(loaded);
    status = receive(conn, node, reply);
    if (status) return status;
    bool not_loaded;
    status = settle(conn, node, call, reply, &not_loaded);
    if (!not_loaded || !node->wire.context) return status;
  }
  return STATUS_PROTOCOL;
}

enum status redis_conn_call(struct redis_conn *conn, uint32_t partition, const struct redis_call *call, redisReply **reply) {
  enum status status;
  struct redis_call *calls[] = {(struct redis_call *)call};
  enum status sent = redis_conn_pipeline(conn, &partition, calls, 1, &status, reply);
  return sent ? sent : status;
}

/* What a pipeline's calls are told that were not answered. */
static void fail_from(size_t from, size_t count, enum status status, enum status *statuses) {
  for (size_t i = from; i < count; i++) statuses[i] = status;
}

enum status redis_conn_pipeline(struct redis_conn *conn, const uint32_t *partitions, struct redis_call *const *calls,
                                size_t count, enum status *statuses, redisReply **replies) {
  for (size_t i = 0; i < count; i++) replies[i] = NULL;
  if (count == 0) return STATUS_OK;
  struct node *node = node_of(conn, partitions[0]);
  enum status status = connect_node(conn, node);
  fail_from(0, count, status, statuses);
  if (status) return status;
  for (size_t i = 0; i < count; i++) {
    status = append_call(&node->wire, calls[i]);
    if (status) { /* half of it may stand in the buffer: it cannot be taken back, but nothing was sent */
      (void)drop(conn, node, "out of memory");
      fail_from(0, count, status, statuses);
      return status;
    }
  }
  bool again = false;
  for (size_t i = 0; i < count; i++) {
    bool not_loaded = false;
    status = receive(conn, node, &replies[i]);
    if (!status) status = settle(conn, node, calls[i], &replies[i], &not_loaded);
    statuses[i] = not_loaded ? STATUS_NOT_FOUND : status;
    again = again || not_loaded;
    if (!node->wire.context) {
      fail_from(i + 1, count, STATUS_CLOSED, statuses);
      break;
    }
  }
  for (size_t i = 0; again && i < count; i++) {
    if (statuses[i] != STATUS_NOT_FOUND) continue;
    statuses[i] = node->wire.context ? send_again(conn, node, calls[i], &replies[i]) : STATUS_CLOSED;
  }
  return STATUS_OK;
}
