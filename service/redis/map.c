#include "map.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "cluster.h"
#include "dial.h"
#include "sentinel.h"

enum { REPLY_ELEMENTS_MAX = 16384 }; /* of one array: a cluster has no more slots */

enum status map_new(uint32_t partitions, struct redis_map **map) {
  struct redis_map *made = calloc(1, sizeof *made);
  *map = NULL;
  if (!made) return STATUS_NO_MEMORY;
  atomic_init(&made->references, 1);
  made->partitions = partitions;
  made->server_of = calloc(partitions, sizeof *made->server_of);
  if (!made->server_of) {
    map_free(made);
    return STATUS_NO_MEMORY;
  }
  for (uint32_t p = 0; p < partitions; p++) made->server_of[p] = MAP_NOBODY;
  *map = made;
  return STATUS_OK;
}

struct redis_map *map_retain(const struct redis_map *map) {
  struct redis_map *counted = (struct redis_map *)map; /* the count is no part of what must not change */
  if (counted) atomic_fetch_add_explicit(&counted->references, 1, memory_order_relaxed);
  return counted;
}

void map_free(struct redis_map *map) {
  if (!map || atomic_fetch_sub_explicit(&map->references, 1, memory_order_acq_rel) > 1) return;
  for (size_t i = 0; i < map->count; i++) address_clear(&map->servers[i]);
  free(map->servers);
  free(map->server_of);
  free(map);
}

/* Takes the address over, in any case. */
static enum status put(struct redis_map *map, uint32_t partition, struct address *address) {
  size_t server = 0;
  while (server < map->count && !address_equal(&map->servers[server], address)) server++;
  if (server < map->count) {
    address_clear(address);
  } else {
    struct address *more = map->count < MAP_SERVERS_MAX ? realloc(map->servers, (map->count + 1) * sizeof *map->servers) : NULL;
    if (!more) {
      address_clear(address);
      return STATUS_NO_MEMORY;
    }
    map->servers = more;
    map->servers[map->count++] = *address;
  }
  map->server_of[partition] = (int)server;
  return STATUS_OK;
}

enum status map_put(struct redis_map *map, uint32_t partition, struct str host, int64_t port) {
  struct address address;
  enum status status = address_set(&address, host, port);
  return status ? status : put(map, partition, &address);
}

enum status map_alone(const struct redis_target *target, struct redis_map **map) {
  enum status status = map_new(target->partitions, map);
  for (uint32_t p = 0; !status && p < target->partitions; p++) {
    struct address address;
    status = address_copy(&address, &target->addresses[0]);
    if (!status) status = put(*map, p, &address);
  }
  if (status) {
    map_free(*map);
    *map = NULL;
  }
  return status;
}

/* Asks one address. */
static enum status ask(const struct redis_target *target, const struct address *address, int64_t timeout_ms,
                       struct redis_map **map, struct buf *error) {
  redisContext *context = NULL;
  enum status status = dial(target, address, timeout_ms, &context, error);
#if HIREDIS_MAJOR >= 1
  if (!status) context->reader->maxelements = REPLY_ELEMENTS_MAX; /* else hiredis takes memory for what is only announced */
#endif
  if (!status && target->kind == TARGET_SENTINEL) status = sentinel_ask(target, context, map, error);
  if (!status && target->kind == TARGET_CLUSTER) status = cluster_ask(target, address, context, map, error);
  if (context) redisFree(context);
  return status;
}

/* Who may be asked: in a cluster the nodes known, then what the URL names; Sentinels are known from the URL alone. */
static const struct address *candidate(const struct redis_target *target, const struct map_look *look, size_t known, size_t i) {
  size_t all = known + target->address_count;
  size_t at = (i + look->number) % all;
  return at < known ? &look->known->servers[at] : &target->addresses[at - known];
}

/* "ADDRESS: what was wrong" */
static void name_address(struct buf *error, const struct address *address) {
  struct buf named = {0};
  if (!buf_printf(&named, "%s: %.*s", address->text, STR_ARG(buf_str(error)))) {
    struct buf old = *error;
    *error = named;
    named = old;
  }
  buf_free(&named);
}

enum status map_find(const struct redis_target *target, const struct map_look *look, int64_t timeout_ms, struct redis_map **map,
                     struct buf *error) {
  *map = NULL;
  buf_clear(error);
  if (target->kind == TARGET_SERVER) return map_alone(target, map);
  size_t known = target->kind == TARGET_CLUSTER && look->known ? look->known->count : 0;
  enum status status = STATUS_UNAVAILABLE;
  if (known > 0 && look->first != MAP_NOBODY) {
    status = ask(target, &look->known->servers[look->first], timeout_ms, map, error);
  }
  for (size_t i = 0; status && i < known + target->address_count; i++) {
    const struct address *address = candidate(target, look, known, i);
    status = ask(target, address, timeout_ms, map, error);
    if (status) name_address(error, address);
  }
  return status;
}
