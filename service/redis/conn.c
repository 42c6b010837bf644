#include "conn.h"

#include <stdlib.h>

#include "backoff.h"
#include "log.h"
#include "reply.h"

/* One server of the map. */
struct node {
  struct wire wire;
  struct backoff backoff;
  int64_t next_try_us;
};

struct redis_conn {
  struct redis_target *target;
  const struct clock *clock;
  int64_t call_timeout_ms;
  struct redis_map *map; /* NULL: not known yet, there are no nodes */
  struct node *nodes;    /* by server of the map */
  bool map_is_old;       /* a server is lost, or says that a slot is elsewhere */
  int look_first;        /* of the map: who knows better */
  unsigned looks;
  struct backoff look_backoff;
  int64_t looked_us, next_look_us;
  struct buf error; /* one line, with its NUL */
};

enum {
  RESENDS_MAX = 3,
  LOOK_MAX_MS = 500,     /* at most so long between two looks for a map, while one is wanted */
  MAP_GOOD_US = 5000000, /* a map that was good for so long: the next look is made at once */
  SLOW_FACTOR = 4,       /* a try that took long is followed by a pause of so many times that */
};

enum status redis_conn_new(const struct redis_target *target, const struct clock *clock, int64_t call_timeout_ms,
                           struct redis_conn **conn) {
  *conn = calloc(1, sizeof **conn);
  if (!*conn) return STATUS_NO_MEMORY;
  (*conn)->target = target_retain(target);
  (*conn)->clock = clock;
  (*conn)->call_timeout_ms = call_timeout_ms;
  (*conn)->map_is_old = true;
  (*conn)->look_first = MAP_NOBODY;
  return STATUS_OK;
}

static size_t node_count(const struct redis_conn *conn) { return conn->map ? conn->map->count : 0; }

void redis_conn_free(struct redis_conn *conn) {
  if (!conn) return;
  for (size_t i = 0; i < node_count(conn); i++) wire_close(&conn->nodes[i].wire);
  free(conn->nodes);
  map_free(conn->map);
  redis_target_free(conn->target);
  buf_free(&conn->error);
  free(conn);
}

const char *redis_conn_error(const struct redis_conn *conn) { return conn->error.len > 0 ? conn->error.data : ""; }

enum redis_dialect redis_conn_dialect(const struct redis_conn *conn) {
  for (size_t i = 0; i < node_count(conn); i++) {
    if (conn->nodes[i].wire.context) return conn->nodes[i].wire.dialect;
  }
  return REDIS_NATIVE;
}

static void keep_error(struct redis_conn *conn, const char *text) {
  buf_clear(&conn->error);
  if (buf_printf(&conn->error, "%s", text) || buf_append(&conn->error, "", 1)) buf_clear(&conn->error);
}

/* Where there are other servers, they are waiting as long as a try takes. */
static int64_t pause_after_us(const struct redis_conn *conn, int64_t began_us) {
  return node_count(conn) > 1 ? (clock_monotonic_us(conn->clock) - began_us) * SLOW_FACTOR : 0;
}

/* After a try that failed: when to try again. */
static int64_t next_try_us(const struct redis_conn *conn, struct backoff *backoff, int64_t began_us) {
  int64_t delay_us = backoff_next_ms(backoff) * 1000, slow_us = pause_after_us(conn, began_us);
  return clock_monotonic_us(conn->clock) + (slow_us > delay_us ? slow_us : delay_us);
}

/* ---- the map */

/* Takes the map over, in any case. A server that is in both maps keeps its connection. */
static enum status take_map(struct redis_conn *conn, struct redis_map *map) {
  struct node *nodes = calloc(map->count, sizeof *nodes);
  if (!nodes) {
    map_free(map);
    return STATUS_NO_MEMORY;
  }
  for (size_t old = 0; old < node_count(conn); old++) {
    size_t i = 0;
    while (i < map->count && !address_equal(&map->servers[i], &conn->map->servers[old])) i++;
    if (i < map->count) {
      nodes[i] = conn->nodes[old];
    } else {
      wire_close(&conn->nodes[old].wire);
    }
  }
  free(conn->nodes);
  map_free(conn->map);
  conn->nodes = nodes;
  conn->map = map;
  return STATUS_OK;
}

static void doubt_map(struct redis_conn *conn, int first) {
  if (conn->target->kind == TARGET_SERVER || conn->map_is_old) return;
  int64_t now_us = clock_monotonic_us(conn->clock);
  bool was_good = now_us - conn->looked_us > MAP_GOOD_US;
  if (was_good) backoff_reset(&conn->look_backoff);
  int64_t delay_ms = was_good ? 0 : backoff_next_ms(&conn->look_backoff);
  int64_t next_us = now_us + (delay_ms < LOOK_MAX_MS ? delay_ms : LOOK_MAX_MS) * 1000;
  if (next_us > conn->next_look_us) conn->next_look_us = next_us;
  conn->map_is_old = true;
  conn->look_first = first;
}

/* Looks for a better map where the one at hand may be old. STATUS_OK: there is one. */
static enum status have_map(struct redis_conn *conn) {
  if (!conn->map_is_old) return STATUS_OK;
  int64_t began_us = clock_monotonic_us(conn->clock);
  if (began_us < conn->next_look_us) return conn->map ? STATUS_OK : STATUS_UNAVAILABLE;
  struct map_look look = {.known = conn->map, .first = conn->look_first, .number = conn->looks++};
  struct redis_map *map;
  enum status status = map_find(conn->target, &look, conn->call_timeout_ms, &map, &conn->error);
  if (!status) status = take_map(conn, map);
  conn->looked_us = clock_monotonic_us(conn->clock);
  if (status) {
    if (buf_append(&conn->error, "", 1)) buf_clear(&conn->error);
    conn->next_look_us = next_try_us(conn, &conn->look_backoff, began_us);
    return conn->map ? STATUS_OK : STATUS_UNAVAILABLE;
  }
  conn->map_is_old = false;
  conn->next_look_us = conn->looked_us + pause_after_us(conn, began_us);
  return STATUS_OK;
}

/* ---- connections */

static struct node *node_of(struct redis_conn *conn, uint32_t partition) {
  int server = conn->map->server_of[partition];
  return server == MAP_NOBODY ? NULL : &conn->nodes[server];
}

static const char *address_of(const struct redis_conn *conn, const struct node *node) {
  return conn->map->servers[node - conn->nodes].text;
}

static enum status drop(struct redis_conn *conn, struct node *node, const char *why) {
  keep_error(conn, why);
  log_warn("redis_connection_lost", LOG_STR("address", address_of(conn, node)), LOG_STR("error", why));
  wire_close(&node->wire);
  doubt_map(conn, MAP_NOBODY);
  return STATUS_CLOSED;
}

static enum status connect_node(struct redis_conn *conn, struct node *node) {
  if (node->wire.context) return STATUS_OK;
  int64_t began_us = clock_monotonic_us(conn->clock);
  if (began_us < node->next_try_us) return STATUS_UNAVAILABLE;
  enum status status =
      wire_open(&node->wire, conn->target, conn->map, (size_t)(node - conn->nodes), conn->call_timeout_ms, &conn->error);
  if (status) {
    if (buf_append(&conn->error, "", 1)) buf_clear(&conn->error);
    node->next_try_us = next_try_us(conn, &node->backoff, began_us);
    doubt_map(conn, MAP_NOBODY);
    return STATUS_UNAVAILABLE;
  }
  buf_clear(&conn->error);
  backoff_reset(&node->backoff);
  return STATUS_OK;
}

/* The open connection to a partition's server, by the map at hand. */
static enum status locate(struct redis_conn *conn, uint32_t partition, struct node **node) {
  *node = node_of(conn, partition);
  if (*node) return connect_node(conn, *node);
  keep_error(conn, "no node of the cluster has the partition's slot");
  doubt_map(conn, MAP_NOBODY);
  return STATUS_UNAVAILABLE;
}

/* The same, by a better map if there is one. */
static enum status reach(struct redis_conn *conn, uint32_t partition, struct node **node) {
  enum status status = have_map(conn);
  return status ? status : locate(conn, partition, node);
}

const struct redis_target *conn_target(const struct redis_conn *conn) { return conn->target; }

enum status conn_wire(struct redis_conn *conn, uint32_t partition, struct wire **wire, const char **address) {
  struct node *node;
  enum status status = reach(conn, partition, &node);
  if (status) return status;
  *wire = &node->wire;
  *address = address_of(conn, node);
  return STATUS_OK;
}

enum status redis_conn_run_id(struct redis_conn *conn, uint32_t partition, char run_id[REDIS_RUN_ID_LEN + 1]) {
  struct node *node;
  enum status status = reach(conn, partition, &node);
  if (!status) memcpy(run_id, node->wire.run_id, REDIS_RUN_ID_LEN + 1);
  return status;
}

const char *redis_conn_server(struct redis_conn *conn, uint32_t partition) {
  struct node *node = have_map(conn) ? NULL : node_of(conn, partition);
  return node ? address_of(conn, node) : NULL;
}

bool redis_conn_is_open(const struct redis_conn *conn, uint32_t partition) {
  int server = conn->map ? conn->map->server_of[partition] : MAP_NOBODY;
  return server != MAP_NOBODY && conn->nodes[server].wire.context;
}

size_t redis_conn_reach_all(struct redis_conn *conn) {
  size_t away = 0;
  for (uint32_t p = 0; p < conn->target->partitions; p++) {
    struct node *node;
    if (reach(conn, p, &node)) away++;
  }
  return away;
}

bool redis_conn_same_server(struct redis_conn *conn, uint32_t a, uint32_t b) {
  return have_map(conn) || conn->map->server_of[a] == conn->map->server_of[b];
}

bool redis_conn_leads(struct redis_conn *conn, uint32_t partition) {
  for (uint32_t p = 0; p < partition; p++) {
    if (redis_conn_same_server(conn, p, partition)) return false;
  }
  return true;
}

/* ---- calls */

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
  int64_t began_us = clock_monotonic_us(conn->clock);
  if (redisGetReply(node->wire.context, &got) == REDIS_OK && got) {
    *reply = got;
    return STATUS_OK;
  }
  enum status status = drop(conn, node, wire_error(&node->wire));
  node->next_try_us = clock_monotonic_us(conn->clock) + pause_after_us(conn, began_us);
  return status;
}

/* Hands a reply to the caller, or takes it away and says what it means. *again: nothing was done, since the server does not know
 * the script or another one has the slot. */
static enum status settle(struct redis_conn *conn, struct node *node, const struct redis_call *call, redisReply **reply,
                          bool *again) {
  enum reply_verdict verdict = reply_judge(*reply);
  *again = verdict == REPLY_NOSCRIPT || (verdict == REPLY_ELSEWHERE && conn->target->kind != TARGET_SERVER);
  if (verdict == REPLY_FINE) return STATUS_OK;
  if (verdict == REPLY_ERROR || verdict == REPLY_BUSY) {
    log_warn("redis_call_failed", LOG_STR("script", script_name(call->script)), LOG_STR("error", (*reply)->str));
  }
  if (verdict != REPLY_INITIALISING) keep_error(conn, (*reply)->str);
  if (verdict == REPLY_NOT_PRIMARY) (void)drop(conn, node, (*reply)->str);
  if (verdict == REPLY_ELSEWHERE) doubt_map(conn, (int)(node - conn->nodes));
  freeReplyObject(*reply);
  *reply = NULL;
  return reply_verdict_status(verdict);
}

/* Loads the script, wherever the partition is by now, and sends the call again. */
static enum status send_again(struct redis_conn *conn, uint32_t partition, const struct redis_call *call, redisReply **reply) {
  enum status status = STATUS_PROTOCOL;
  bool again = true;
  for (int i = 0; again && i < RESENDS_MAX; i++) {
    struct node *node;
    redisReply *loaded = NULL;
    status = reach(conn, partition, &node);
    if (status) return status;
    status = wire_append_load(&node->wire, conn->target, call->script);
    if (!status) status = append_call(&node->wire, call);
    if (status) return drop(conn, node, "out of memory");
    status = receive(conn, node, &loaded);
    if (status) return status;
    freeReplyObject(loaded);
    status = receive(conn, node, reply);
    if (status) return status;
    status = settle(conn, node, call, reply, &again);
  }
  return status;
}

enum status redis_conn_call(struct redis_conn *conn, uint32_t partition, const struct redis_call *call, redisReply **reply) {
  enum status status;
  struct redis_call *calls[] = {(struct redis_call *)call};
  redis_conn_pipeline(conn, &partition, calls, 1, &status, reply);
  return status;
}

/* Puts the calls into their servers' buffers. A call whose server can't be reached gets its status. */
static void append_all(struct redis_conn *conn, const uint32_t *partitions, struct redis_call *const *calls, size_t count,
                       enum status *statuses) {
  enum status stopped = have_map(conn);
  for (size_t i = 0; i < count; i++) {
    struct node *node;
    statuses[i] = stopped ? stopped : locate(conn, partitions[i], &node);
    if (statuses[i]) continue;
    statuses[i] = stopped = append_call(&node->wire, calls[i]);
    /* Half of it may stand in the buffer: it cannot be taken back. Nothing more is sent, so that answers fit to calls. */
    if (stopped) (void)drop(conn, node, "out of memory");
  }
}

/* So that all servers work at the same time. */
static void write_all(struct redis_conn *conn) {
  for (size_t i = 0; i < node_count(conn) && node_count(conn) > 1; i++) {
    struct node *node = &conn->nodes[i];
    int done = node->wire.context == NULL;
    while (!done) {
      if (redisBufferWrite(node->wire.context, &done) == REDIS_OK) continue;
      (void)drop(conn, node, wire_error(&node->wire));
      done = 1;
    }
  }
}

void redis_conn_pipeline(struct redis_conn *conn, const uint32_t *partitions, struct redis_call *const *calls, size_t count,
                         enum status *statuses, redisReply **replies) {
  for (size_t i = 0; i < count; i++) replies[i] = NULL;
  append_all(conn, partitions, calls, count, statuses);
  write_all(conn);
  for (size_t i = 0; i < count; i++) { /* the map stays as it is here */
    bool again = false;
    if (statuses[i]) continue;
    struct node *node = node_of(conn, partitions[i]);
    statuses[i] = node->wire.context ? receive(conn, node, &replies[i]) : STATUS_CLOSED;
    if (!statuses[i]) statuses[i] = settle(conn, node, calls[i], &replies[i], &again);
    if (again) statuses[i] = STATUS_NOT_FOUND; /* a mark for below */
  }
  for (size_t i = 0; i < count; i++) {
    if (statuses[i] == STATUS_NOT_FOUND) statuses[i] = send_again(conn, partitions[i], calls[i], &replies[i]);
  }
}
