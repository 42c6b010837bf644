/* maintenance.h: what is done now and then: the outbox's days made and dropped, open sessions counted for the metric, readers
 * that fall behind noticed. A thread of its own, so that a slow statement delays nobody. */
#ifndef PRESENCE_WORKER_MAINTENANCE_H
#define PRESENCE_WORKER_MAINTENANCE_H

#include "config.h"
#include "partition_set.h"
#include "redis.h"

struct maintenance;

/* What it is given must outlive it. */
enum status maintenance_new(const struct config *config, const struct redis_target *target, const struct clock *clock,
                            const struct partition_set *held, struct maintenance **maintenance) MUST_CHECK;
void maintenance_free(struct maintenance *maintenance);

enum status maintenance_tick(struct maintenance *maintenance, int64_t *sleep_us) MUST_CHECK;
/* Ends a statement under way, for a quick stop. Any thread. */
void maintenance_interrupt(struct maintenance *maintenance);

#endif
