/* link.c: an event loop's road to Redis. Never blocks.
 *
 *   redis_link_send --partition -> node (by the map)--> copy, fill in sha and run_id
 *                   --> the node's pending (queue, in the order sent) and hiredis's output buffer
 *   redis_link_flush --one write a node--> Redis --replies, in the same order--> the queue's head --> its callback, once
 *
 * Nodes do not wait for each other. Where one is lost, or says that a slot is elsewhere, a new map is looked for besides. */
#include <stdlib.h>

#include "node.h"

enum {
  LOG_INTERVAL_US = 5000000,
  LOOK_MAX_MS = 500,     /* at most so long until the next look for a map, while one is wanted */
  MAP_GOOD_US = 5000000, /* a map that was good for so long: the next look is made at once */
};

static size_t node_count(const struct redis_link *link) { return link->map ? link->map->count : 0; }

/* ---- the map */

void link_changed(struct redis_link *link) {
  bool up = link->map != NULL; /* all servers of the map */
  for (size_t i = 0; i < node_count(link); i++) up = up && link->nodes[i]->wire.context;
  metric_set(link->up, up);
  if (link->changed) link->changed(link->changed_context);
}

void link_want_look(struct redis_link *link, int first) {
  if (link->target->kind == TARGET_SERVER || link->look || link->look_again.armed) return;
  bool was_good = link->looked_us == 0 || loop_now_us(link->loop) - link->looked_us > MAP_GOOD_US;
  if (was_good) backoff_reset(&link->look_backoff);
  int64_t delay_ms = was_good ? 0 : backoff_next_ms(&link->look_backoff);
  link->look_first = first;
  loop_timer_set(link->loop, &link->look_again, (delay_ms < LOOK_MAX_MS ? delay_ms : LOOK_MAX_MS) * 1000);
}

/* ---- looking for the map */

/* Takes the node of this address out of old[0..count). */
static struct node *take_node(struct node **old, size_t count, const struct address *address) {
  for (size_t i = 0; i < count; i++) {
    struct node *node = old[i];
    if (!node || !address_equal(&node->map->servers[node->server], address)) continue;
    old[i] = NULL;
    return node;
  }
  return NULL;
}

/* Takes the map over, in any case. A server that is in both maps keeps its node, connection and all. */
static enum status take_map(struct redis_link *link, struct redis_map *map) {
  size_t old_count = node_count(link);
  struct node **old = link->nodes, **nodes = calloc(map->count, sizeof *nodes);
  enum status status = nodes ? STATUS_OK : STATUS_NO_MEMORY;
  for (size_t i = 0; !status && i < map->count; i++) { /* new ones for all, so that nothing can fail below */
    nodes[i] = node_new(link, map, i);
    if (!nodes[i]) status = STATUS_NO_MEMORY;
  }
  if (status) {
    for (size_t i = 0; nodes && i < map->count; i++) node_free(nodes[i]);
    free(nodes);
    map_free(map);
    return status;
  }
  for (size_t i = 0; i < map->count; i++) {
    struct node *kept = take_node(old, old_count, &map->servers[i]);
    if (!kept) continue;
    node_free(nodes[i]);
    nodes[i] = kept;
    node_move(kept, map, i);
  }
  struct redis_map *old_map = link->map;
  link->map = map;
  link->nodes = nodes;
  for (uint32_t p = 0; p < map->partitions; p++) link->node_of[p] = map->server_of[p] < 0 ? NULL : nodes[map->server_of[p]];
  for (size_t i = 0; i < old_count; i++) node_free(old[i]); /* what was sent to them is answered */
  free(old);
  map_free(old_map);
  for (size_t i = 0; i < map->count; i++) {
    if (node_is_idle(nodes[i])) node_connect(nodes[i]);
  }
  link_changed(link);
  return STATUS_OK;
}

static bool misses_something(const struct redis_link *link) {
  for (uint32_t p = 0; link->map && p < link->map->partitions; p++) {
    if (!link->node_of[p] || link->node_of[p]->retry.armed) return true;
  }
  return link->map == NULL;
}

static void on_found(void *context, enum status status, struct redis_map *map, const char *error) {
  struct redis_link *link = context;
  int64_t suppressed;
  link->look = NULL;
  link->looked_us = loop_now_us(link->loop);
  if (map) {
    status = take_map(link, map);
  } else if (log_limit_pass(&link->look_log, link->looked_us, LOG_INTERVAL_US, &suppressed)) {
    log_warn("redis_not_found", LOG_STR("error", error), LOG_INT("suppressed", suppressed));
  }
  if (status || misses_something(link)) link_want_look(link, MAP_NOBODY);
}

static void on_look(struct loop_timer *timer) {
  struct redis_link *link = timer->context;
  struct map_look look = {.known = link->map, .first = link->look_first, .number = link->looks++};
  enum status status = connector_look(link->target, &look, link->loop, link->call_timeout_us / 1000, on_found, link, &link->look);
  if (status) on_found(link, status, NULL, status_name(status));
}

/* ---- the link */

enum status redis_link_new(const struct redis_target *target, struct loop *loop, int64_t call_timeout_ms,
                           struct redis_link **link) {
  *link = NULL;
  struct redis_link *made = calloc(1, sizeof *made);
  if (!made) return STATUS_NO_MEMORY;
  made->target = target_retain(target);
  made->loop = loop;
  made->call_timeout_us = call_timeout_ms * 1000;
  made->up = metrics_series(METRIC_REDIS_UP);
  made->look_again = (struct loop_timer){.fire = on_look, .context = made};
  made->outstanding = calloc(target->partitions, sizeof *made->outstanding);
  made->node_of = calloc(target->partitions, sizeof *made->node_of);
  enum status status = made->outstanding && made->node_of ? STATUS_OK : STATUS_NO_MEMORY;
  if (!status && target->kind == TARGET_SERVER) {
    struct redis_map *map;
    status = map_alone(target, &map);
    if (!status) status = take_map(made, map);
  } else if (!status) {
    link_want_look(made, MAP_NOBODY);
  }
  if (status) {
    redis_link_free(made);
  } else {
    *link = made;
  }
  return status;
}

void redis_link_free(struct redis_link *link) {
  if (!link) return;
  struct redis_map *map = link->map;
  struct node **nodes = link->nodes;
  size_t count = node_count(link);
  link->changed = NULL;
  link->map = NULL;
  link->nodes = NULL;
  for (uint32_t p = 0; link->node_of && p < link->target->partitions; p++) link->node_of[p] = NULL; /* callbacks can't send */
  connector_abandon(link->look);
  loop_timer_cancel(link->loop, &link->look_again);
  for (size_t i = 0; i < count; i++) node_free(nodes[i]);
  free(nodes);
  map_free(map);
  while (link->spare) {
    struct pending *pending = link->spare;
    link->spare = pending->next;
    buf_free(&pending->command);
    free(pending);
  }
  redis_target_free(link->target);
  free(link->node_of);
  free(link->outstanding);
  free(link);
}

enum status redis_link_send(struct redis_link *link, uint32_t partition, const struct redis_call *call, redis_reply_fn *fn,
                            void *context) {
  struct node *node = link->node_of[partition];
  return node && node->wire.context ? node_send(node, partition, call, fn, context) : STATUS_UNAVAILABLE;
}

void redis_link_flush(struct redis_link *link) {
  for (size_t i = 0; i < node_count(link); i++) {
    if (link->nodes[i]->unsent && link->nodes[i]->wire.context) node_write(link->nodes[i]);
  }
}

bool redis_link_ready(const struct redis_link *link, uint32_t partition) {
  const struct node *node = link->node_of[partition];
  return node && node->wire.context;
}
size_t redis_link_outstanding(const struct redis_link *link, uint32_t partition) { return link->outstanding[partition]; }
const char *redis_link_server(const struct redis_link *link, uint32_t partition) {
  const struct node *node = link->node_of[partition];
  return node ? node_address(node) : NULL;
}
uint32_t redis_link_server_number(const struct redis_link *link, uint32_t partition) {
  const struct node *node = link->node_of[partition];
  return node ? (uint32_t)node->server : 0;
}

void redis_link_on_change(struct redis_link *link, void (*changed)(void *context), void *context) {
  link->changed = changed;
  link->changed_context = context;
}
