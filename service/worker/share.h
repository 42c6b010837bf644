/* share.h: how partitions are shared out among workers. Pure arithmetic; redis keeps the leases (store.h), each worker decides
 * for itself. Nothing but saved work depends on it. */
#ifndef PRESENCE_WORKER_SHARE_H
#define PRESENCE_WORKER_SHARE_H

#include "store.h"

/* The most partitions that one of `workers` live workers serves: all of them together then cover every partition. */
uint32_t share_fair(uint32_t partitions, int64_t workers);

/* What to wish for each partition: keeps up to `share` of those that are mine and gives the others up; below the share it asks
 * for all that may be free. The walk begins at `first`, which differs between workers, so that they collide less. */
void share_plan(const bool *mine, uint32_t partitions, uint32_t share, uint32_t first, enum lease_wish *wishes);

#endif
