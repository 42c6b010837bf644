#include "cluster.h"

#include <stdlib.h>

#include "dial.h"
#include "keys.h"
#include "reply.h"
#include "slot.h"

enum { RANGE_FIELDS_MIN = 3, NODE_FIELDS_MIN = 2 }; /* first, last, primary, …; host, port, … */

/* The node's preferred endpoint: NULL or nothing says "where you have asked me"; "?" that it has no name it may be called by. */
static bool read_node(const redisReply *node, struct str asked_host, struct str *host, int64_t *port) {
  if (!node || node->type != REDIS_REPLY_ARRAY || node->elements < NODE_FIELDS_MIN) return false;
  const redisReply *name = node->element[0], *number = node->element[1];
  if (name->type != REDIS_REPLY_NIL && name->type != REDIS_REPLY_STRING) return false;
  if (number->type != REDIS_REPLY_INTEGER) return false;
  *host = name->type == REDIS_REPLY_NIL || name->len == 0 ? asked_host : reply_str(name);
  *port = number->integer;
  return true;
}

static enum status read_range(const redisReply *range, struct str asked_host, const uint16_t *slots, struct redis_map *map) {
  const redisReply *first = reply_at(range, 0, REDIS_REPLY_INTEGER), *last = reply_at(range, 1, REDIS_REPLY_INTEGER);
  if (!first || !last || range->elements < RANGE_FIELDS_MIN) return STATUS_PROTOCOL;
  if (first->integer < 0 || last->integer >= SLOT_COUNT || first->integer > last->integer) return STATUS_PROTOCOL;
  struct str host;
  int64_t port;
  if (!read_node(range->element[2], asked_host, &host, &port)) return STATUS_PROTOCOL;
  if (str_equal(host, STR_LIT("?"))) return STATUS_OK;
  for (uint32_t p = 0; p < map->partitions; p++) {
    if (slots[p] < first->integer || slots[p] > last->integer) continue;
    enum status status = map_put(map, p, host, port);
    if (status) return status == STATUS_INVALID ? STATUS_PROTOCOL : status;
  }
  return STATUS_OK;
}

enum status cluster_read(const redisReply *reply, struct str asked_host, const uint16_t *slots, uint32_t partitions,
                         struct redis_map **map) {
  *map = NULL;
  if (reply->type != REDIS_REPLY_ARRAY || reply->elements > SLOT_COUNT) return STATUS_PROTOCOL;
  enum status status = map_new(partitions, map);
  for (size_t i = 0; !status && i < reply->elements; i++) status = read_range(reply->element[i], asked_host, slots, *map);
  if (status) {
    map_free(*map);
    *map = NULL;
  }
  return status;
}

/* The slot of each partition: of any of its keys, since they share a hash tag. */
static enum status find_slots(const struct redis_target *target, uint16_t *slots) {
  struct buf key = {0};
  enum status status = STATUS_OK;
  for (uint32_t p = 0; !status && p < target->partitions; p++) {
    buf_clear(&key);
    status = keys_append_partition(&key, redis_target_env(target), PARTITION_CLOCK, p);
    if (!status) slots[p] = slot_of(buf_str(&key));
  }
  buf_free(&key);
  return status;
}

static bool has_any(const struct redis_map *map) { return map->count > 0; }

enum status cluster_ask(const struct redis_target *target, const struct address *asked, redisContext *context,
                        struct redis_map **map, struct buf *error) {
  redisReply *reply = NULL;
  uint16_t *slots = calloc(target->partitions, sizeof *slots);
  enum status status = slots ? find_slots(target, slots) : STATUS_NO_MEMORY;
  if (!status) status = dial_authenticate(context, target, error);
  if (!status) status = dial_ask(context, 2, (const char *[]){"CLUSTER", "SLOTS"}, NULL, &reply, error);
  if (!status) {
    status = cluster_read(reply, str_from(asked->host), slots, target->partitions, map);
    if (status == STATUS_PROTOCOL) dial_say(error, "CLUSTER SLOTS", "no such answer is known");
  }
  if (!status && !has_any(*map)) {
    dial_say(error, "this node knows of nobody who has the partitions' slots", "");
    map_free(*map);
    *map = NULL;
    status = STATUS_UNAVAILABLE;
  }
  if (reply) freeReplyObject(reply);
  free(slots);
  return status;
}
