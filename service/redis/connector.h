/* connector.h: connects on a thread of its own, since name resolution, connecting, TLS and the first questions to a server block,
 * and an event loop must not. Private to service/redis. */
#ifndef PRESENCE_REDIS_CONNECTOR_H
#define PRESENCE_REDIS_CONNECTOR_H

#include "loop.h"
#include "wire.h"

struct connector;

/* done runs on the loop's thread, once, unless the attempt is abandoned; the wire is the callee's then (closed when status says
 * so). error: one line, valid during the call. */
typedef void connector_done_fn(void *context, enum status status, const struct wire *wire, const char *error);

enum status connector_start(const struct redis_target *target, struct loop *loop, int64_t timeout_ms, connector_done_fn *done,
                            void *context, struct connector **connector) MUST_CHECK;
/* done will not run. The loop's thread; not inside done and not after it. */
void connector_abandon(struct connector *connector);

#endif
