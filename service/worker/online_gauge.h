/* online_gauge.h: presence_online{tenant}: open sessions of each tenant in the partitions this worker holds. The sum over all
 * workers is the tenant's figure; a tenant that is gone counts 0. One thread. No I/O.
 *
 *   online_gauge_begin(gauge); for each partition: online_gauge_add(gauge, pairs); online_gauge_commit(gauge);
 */
#ifndef PRESENCE_WORKER_ONLINE_GAUGE_H
#define PRESENCE_WORKER_ONLINE_GAUGE_H

#include <hiredis/hiredis.h>

#include "status.h"

struct figure;

/* Zero-initialised is empty and valid. */
struct online_gauge {
  struct figure *figures; /* sorted by tenant */
  size_t count, capacity;
};

void online_gauge_free(struct online_gauge *gauge);

void online_gauge_begin(struct online_gauge *gauge);
/* One partition's pairs of store_counts_decode (array: tenant, count, …). After a failure begin again: nothing was shown yet. */
enum status online_gauge_add(struct online_gauge *gauge, const redisReply *reply) MUST_CHECK;
/* Shows the sums. */
void online_gauge_commit(struct online_gauge *gauge);

#endif
