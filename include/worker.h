/* worker.h: the background half: leases, adoption, detector, publisher, maintenance. Threads of its own; blocking calls are fine
 * there. Detection does not need PostgreSQL: detector and publisher are different threads. */
#ifndef PRESENCE_WORKER_H
#define PRESENCE_WORKER_H

#include "config.h"
#include "redis.h"

struct worker;

enum status worker_new(const struct config *config, const struct redis_target *target, const struct clock *clock,
                       struct worker **worker) MUST_CHECK;
enum status worker_start(struct worker *worker) MUST_CHECK;
/* Gives leases up and stops after the step at hand. STATUS_TIMEOUT: a thread was still waiting for a server after limit_ms; it
 * may use the worker, the target and the config as long as the process lives, so none of them may be freed. */
enum status worker_stop(struct worker *worker, int64_t limit_ms) MUST_CHECK;
void worker_free(struct worker *worker);

/* For readyz: monotonic times of the last completed round (0: none yet). Any thread. */
struct worker_health {
  int64_t detector_us, publisher_us;
  unsigned partitions_held;
  bool redis_up;
};
void worker_health(const struct worker *worker, struct worker_health *health);

#endif
