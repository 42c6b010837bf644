/* map.h: which server has which partition. Private to service/redis.
 *
 *   redis://           one server, known from the URL
 *   redis+sentinel://  one server: the primary as a Sentinel names it
 *   redis+cluster://   partition -> slot -> primary, as a node of the cluster tells
 *
 * A map never changes; a better one replaces it. Each road (a loop's link, a thread's conn) has one of its own, keeps a
 * connection to each server in it, and looks for a new one when a server is lost or says that a slot is elsewhere. What is
 * learned about a server by connecting (run_id, dialect) belongs to the connection. The only difference between the three kinds
 * is map_find. */
#ifndef PRESENCE_REDIS_MAP_H
#define PRESENCE_REDIS_MAP_H

#include "target.h"

#define MAP_SERVERS_MAX 1024 /* that have a partition: there are at most as many partitions */
#define MAP_NOBODY (-1)

struct redis_map {
  size_t count;
  struct address *servers; /* each has a partition at least */
  uint32_t partitions;
  int *server_of; /* by partition: in servers; MAP_NOBODY: no server has its slot now */
  _Atomic unsigned references;
};

enum status map_new(uint32_t partitions, struct redis_map **map) MUST_CHECK; /* nobody has anything */
struct redis_map *map_retain(const struct redis_map *map);
void map_free(struct redis_map *map); /* gives a reference back; NULL is fine */

/* Says that a partition is on a server, which is added where it is not there yet. */
enum status map_put(struct redis_map *map, uint32_t partition, struct str host, int64_t port) MUST_CHECK;
/* The map of TARGET_SERVER, without asking anybody. */
enum status map_alone(const struct redis_target *target, struct redis_map **map) MUST_CHECK;

/* What a road tells of its looks. */
struct map_look {
  const struct redis_map *known; /* the last one; NULL: none yet */
  int first;                     /* whom of it to ask first: who said that a slot is elsewhere; MAP_NOBODY: any */
  unsigned number;               /* of the look: each begins with another address, so that no stale one is asked for ever */
};
/* Blocks, at most timeout_ms for each step with each address. STATUS_UNAVAILABLE: nobody knows; *error (cleared first): why, one
 * line without secrets. */
enum status map_find(const struct redis_target *target, const struct map_look *look, int64_t timeout_ms, struct redis_map **map,
                     struct buf *error) MUST_CHECK;

#endif
