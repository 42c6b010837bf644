/* coordinator.h: decides which partitions this worker serves, and adopts new Redis servers first. A thread of its own. */
#ifndef PRESENCE_WORKER_COORDINATOR_H
#define PRESENCE_WORKER_COORDINATOR_H

#include "config.h"
#include "partition_set.h"
#include "redis.h"

struct coordinator;

/* A lease outlives its worker by at most LEASE_MS, and is looked for every ROUND_MS: partitions of a killed worker are served
 * again within two seconds. */
#define COORDINATOR_LEASE_MS INT64_C(1200)
#define COORDINATOR_ROUND_MS INT64_C(200)

/* held is what it writes; the other arguments must outlive it, too. */
enum status coordinator_new(const struct config *config, const struct redis_target *target, const struct clock *clock,
                            struct partition_set *held, struct coordinator **coordinator) MUST_CHECK;
void coordinator_free(struct coordinator *coordinator);

/* One round: adoption, then leases. STATUS_OK: Redis answered for every partition. */
enum status coordinator_tick(struct coordinator *coordinator, int64_t *sleep_us) MUST_CHECK;
/* There are several servers, and at least one that is adopted answered in the last round. The thread of coordinator_tick. */
bool coordinator_some_serve(struct coordinator *coordinator);
/* Gives all leases up, so that another worker need not wait until they run out. */
void coordinator_finish(struct coordinator *coordinator);
/* Ends a statement under way, for a quick stop. Any thread. */
void coordinator_interrupt(struct coordinator *coordinator);

#endif
