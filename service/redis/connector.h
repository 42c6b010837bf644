/* connector.h: connects, or looks for the map, on a thread of its own, since name resolution, connecting, TLS and the first
 * questions to a server block, and an event loop must not. Private to service/redis. */
#ifndef PRESENCE_REDIS_CONNECTOR_H
#define PRESENCE_REDIS_CONNECTOR_H

#include "loop.h"
#include "wire.h"

struct connector;

/* Runs on the loop's thread, once, unless the attempt is abandoned. error: one line, valid during the call.
 * The wire is the callee's then (closed when status says so); so is the map (NULL when status says so). */
typedef void connector_done_fn(void *context, enum status status, const struct wire *wire, const char *error);
typedef void connector_found_fn(void *context, enum status status, struct redis_map *map, const char *error);

/* Opens a wire to a server of the map. */
enum status connector_start(const struct redis_target *target, const struct redis_map *map, size_t server, struct loop *loop,
                            int64_t timeout_ms, connector_done_fn *done, void *context, struct connector **connector) MUST_CHECK;
enum status connector_look(const struct redis_target *target, const struct map_look *look, struct loop *loop, int64_t timeout_ms,
                           connector_found_fn *found, void *context, struct connector **connector) MUST_CHECK;
/* The callback will not run. The loop's thread; not inside the callback and not after it. NULL is fine. */
void connector_abandon(struct connector *connector);

#endif
