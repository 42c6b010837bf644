#include "node.h"

#include <stdlib.h>
#include <sys/epoll.h>

#include "reply.h"

enum {
  PENDING_MAX = 1024, /* calls on one connection without an answer */
  SENDS_MAX = 3,      /* of one call, NOSCRIPT in between */
  LOG_INTERVAL_US = 5000000,
};

const char *node_address(const struct node *node) { return node->map->servers[node->server].text; }
bool node_is_idle(const struct node *node) { return !node->wire.context && !node->connector && !node->retry.armed; }

/* ---- pending calls */

static struct pending *take_spare(struct redis_link *link) {
  struct pending *pending = link->spare;
  if (!pending) return calloc(1, sizeof *pending);
  link->spare = pending->next;
  return pending;
}

static void give_back(struct redis_link *link, struct pending *pending) {
  buf_clear(&pending->command);
  pending->next = link->spare;
  link->spare = pending;
}

static void enqueue(struct node *node, struct pending *pending) {
  pending->next = NULL;
  pending->sent_us = loop_now_us(node->link->loop);
  if (node->pending.tail) {
    node->pending.tail->next = pending;
  } else {
    node->pending.head = pending;
  }
  node->pending.tail = pending;
  node->pending_count++;
  node->unsent = true;
  if (!node->overdue.armed) loop_timer_set(node->link->loop, &node->overdue, node->link->call_timeout_us);
}

static struct pending *dequeue(struct node *node) {
  struct pending *pending = node->pending.head;
  if (!pending) return NULL;
  node->pending.head = pending->next;
  if (!node->pending.head) node->pending.tail = NULL;
  node->pending_count--;
  return pending;
}

/* The one place where a caller's call ends. */
static void answer(struct redis_link *link, struct pending *pending, enum status status, const redisReply *reply) {
  redis_reply_fn *fn = pending->fn;
  void *context = pending->context;
  if (fn) link->outstanding[pending->partition]--;
  give_back(link, pending);
  if (fn) fn(context, status, status ? NULL : reply);
}

/* ---- connecting */

static void on_ready(struct loop_watch *watch, uint32_t events);

static void retry_later(struct node *node, const char *why) {
  struct redis_link *link = node->link;
  int64_t suppressed;
  int64_t delay_ms = backoff_next_ms(&node->backoff);
  if (log_limit_pass(&link->connect_log, loop_now_us(link->loop), LOG_INTERVAL_US, &suppressed)) {
    log_warn("redis_connect_failed", LOG_STR("address", node_address(node)), LOG_STR("error", why), LOG_INT("retry_ms", delay_ms),
             LOG_INT("suppressed", suppressed));
  }
  loop_timer_set(link->loop, &node->retry, delay_ms * 1000);
  link_want_look(link, MAP_NOBODY);
}

static void on_connected(void *context, enum status status, const struct wire *wire, const char *error) {
  struct node *node = context;
  struct redis_link *link = node->link;
  node->connector = NULL;
  if (status) {
    retry_later(node, error);
    return;
  }
  node->wire = *wire;
  node->watch = (struct loop_watch){.fd = wire->context->fd, .events = EPOLLIN, .ready = on_ready, .context = node};
  status = loop_watch_add(link->loop, &node->watch);
  if (status) {
    wire_close(&node->wire);
    retry_later(node, "the connection cannot be watched");
    return;
  }
  backoff_reset(&node->backoff);
  log_info("redis_connected", LOG_STR("address", node_address(node)), LOG_STR("dialect", redis_dialect_name(wire->dialect)),
           LOG_STR("run_id", wire->run_id));
  link_changed(link);
}

void node_connect(struct node *node) {
  struct redis_link *link = node->link;
  enum status status = connector_start(link->target, node->map, node->server, link->loop, link->call_timeout_us / 1000,
                                       on_connected, node, &node->connector);
  if (status) retry_later(node, status_name(status));
}

static void on_retry(struct loop_timer *timer) { node_connect(timer->context); }

/* Everything pending is answered. Callbacks may send: the node is down by then, they are refused. */
static void shut_node(struct node *node) {
  struct redis_link *link = node->link;
  loop_watch_remove(link->loop, &node->watch);
  loop_timer_cancel(link->loop, &node->overdue);
  wire_close(&node->wire);
  node->unsent = false;
  for (struct pending *pending; (pending = dequeue(node));) answer(link, pending, STATUS_CLOSED, NULL);
}

static void close_node(struct node *node, const char *why) {
  struct redis_link *link = node->link;
  log_warn("redis_connection_lost", LOG_STR("address", node_address(node)), LOG_STR("error", why),
           LOG_INT("unanswered", node->pending_count));
  shut_node(node);
  loop_timer_set(link->loop, &node->retry, backoff_next_ms(&node->backoff) * 1000);
  link_want_look(link, MAP_NOBODY);
  link_changed(link);
}

/* ---- writing */

void node_write(struct node *node) {
  int done = 0;
  node->unsent = false;
  if (redisBufferWrite(node->wire.context, &done) != REDIS_OK) {
    close_node(node, wire_error(&node->wire));
    return;
  }
  uint32_t events = done ? EPOLLIN : EPOLLIN | EPOLLOUT;
  if (events != node->watch.events && loop_watch_change(node->link->loop, &node->watch, events)) {
    close_node(node, "the connection cannot be watched");
  }
}

static enum status send_pending(struct node *node, struct pending *pending) {
  enum status status = wire_append(&node->wire, buf_str(&pending->command));
  if (status) return status;
  pending->sends++;
  enqueue(node, pending);
  return STATUS_OK;
}

enum status node_send(struct node *node, uint32_t partition, const struct redis_call *call, redis_reply_fn *fn, void *context) {
  struct redis_link *link = node->link;
  if (node->pending_count >= PENDING_MAX) return STATUS_FULL;
  struct pending *pending = take_spare(link);
  if (!pending) return STATUS_NO_MEMORY;
  pending->fn = fn;
  pending->context = context;
  pending->partition = partition;
  pending->script = call->script;
  pending->sends = 0;
  enum status status = buf_append_str(&pending->command, call_bytes(call));
  if (!status) {
    wire_patch(&node->wire, call, pending->command.data);
    status = send_pending(node, pending);
  }
  if (status) {
    give_back(link, pending);
    return status;
  }
  link->outstanding[partition]++;
  return STATUS_OK;
}

/* The server lost a script (SCRIPT FLUSH): loads it and sends the call once more, behind what is on its way. */
static enum status load_and_send_again(struct node *node, struct pending *pending) {
  struct pending *load = take_spare(node->link);
  if (!load) return STATUS_NO_MEMORY;
  enum status status = wire_append_load(&node->wire, node->link->target, pending->script);
  if (status) {
    give_back(node->link, load);
    return status;
  }
  load->fn = NULL;
  enqueue(node, load);
  return send_pending(node, pending);
}

/* ---- reading */

static void log_reply_error(struct redis_link *link, const struct pending *pending, const redisReply *reply) {
  bool moved = strncmp(reply->str, "MOVED ", strlen("MOVED ")) == 0; /* what a fail-over or a growing cluster looks like */
  int64_t suppressed;
  if (!log_limit_pass(&link->error_log, loop_now_us(link->loop), LOG_INTERVAL_US, &suppressed)) return;
  log_at(moved ? LOG_LEVEL_WARN : LOG_LEVEL_ERROR, "redis_call_failed", LOG_STR("script", script_name(pending->script)),
         LOG_INT("partition", pending->partition), LOG_TEXT("error", reply_str(reply)), LOG_INT("suppressed", suppressed));
}

/* False: the connection is closed now. */
static bool take_reply(struct node *node, const redisReply *reply) {
  struct redis_link *link = node->link;
  struct pending *pending = dequeue(node);
  if (!pending) {
    close_node(node, "a reply that nobody asked for");
    return false;
  }
  enum reply_verdict verdict = reply_judge(reply);
  if (verdict == REPLY_NOSCRIPT && pending->fn && pending->sends < SENDS_MAX) {
    if (!load_and_send_again(node, pending)) return true;
  }
  if (verdict != REPLY_FINE && verdict != REPLY_INITIALISING && verdict != REPLY_NOT_PRIMARY)
    log_reply_error(link, pending, reply);
  if (verdict == REPLY_ELSEWHERE) link_want_look(link, (int)node->server);
  answer(link, pending, reply_verdict_status(verdict), reply);
  if (!node->wire.context) return false;
  if (verdict != REPLY_NOT_PRIMARY) return true;
  close_node(node, reply->str);
  return false;
}

static void read_node(struct node *node) {
  if (redisBufferRead(node->wire.context) != REDIS_OK) {
    close_node(node, wire_error(&node->wire));
    return;
  }
  for (;;) {
    redisReply *reply;
    if (wire_next_reply(&node->wire, &reply)) {
      close_node(node, "what the server sends is not RESP");
      return;
    }
    if (!reply) return;
    bool open = take_reply(node, reply);
    freeReplyObject(reply);
    if (!open) return;
  }
}

static void on_ready(struct loop_watch *watch, uint32_t events) {
  struct node *node = watch->context;
  if (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) read_node(node);
  if (node->wire.context && (events & EPOLLOUT)) node_write(node);
}

static void on_overdue(struct loop_timer *timer) {
  struct node *node = timer->context;
  struct redis_link *link = node->link;
  if (!node->pending.head) return;
  int64_t left_us = node->pending.head->sent_us + link->call_timeout_us - loop_now_us(link->loop);
  if (left_us > 0) {
    loop_timer_set(link->loop, timer, left_us);
  } else {
    close_node(node, "no answer in time");
  }
}

/* ---- the node */

struct node *node_new(struct redis_link *link, const struct redis_map *map, size_t server) {
  struct node *node = calloc(1, sizeof *node);
  if (!node) return NULL;
  *node = (struct node){.link = link,
                        .map = map_retain(map),
                        .server = server,
                        .retry = {.fire = on_retry, .context = node},
                        .overdue = {.fire = on_overdue, .context = node}};
  return node;
}

void node_free(struct node *node) {
  if (!node) return;
  connector_abandon(node->connector);
  loop_timer_cancel(node->link->loop, &node->retry);
  if (node->wire.context) shut_node(node);
  map_free(node->map);
  free(node);
}

void node_move(struct node *node, const struct redis_map *map, size_t server) {
  struct redis_map *old = node->map;
  node->map = map_retain(map);
  node->server = server;
  map_free(old);
}
