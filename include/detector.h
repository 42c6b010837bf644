/* detector.h: finds devices whose deadline has passed and has their sessions closed.
 *
 *   next (head of the partition's buckets) -> expire_due for those whose bound lies below the cutoff -> stream entries
 *
 * Everything is decided inside the scripts, on the presence clock; the detector only chooses when and where to look. It does not
 * need PostgreSQL. One thread. Metrics: detection_lag, due_oldest_age, expire_batch, listeners. */
#ifndef PRESENCE_DETECTOR_H
#define PRESENCE_DETECTOR_H

#include "partition_set.h"
#include "redis.h"

struct detector;

struct detector_options {
  const struct redis_target *target;
  const struct clock *clock;
  const struct partition_set *held; /* the partitions to serve */
  int64_t outage_ms;
};

/* What the options point to must outlive the detector. */
enum status detector_new(const struct detector_options *options, struct detector **detector) MUST_CHECK;
void detector_free(struct detector *detector);

/* One round over the partitions held, with at most one expire_due each. *sleep_us: how long nothing will be due (0: more is due
 * now), at most DETECTOR_SLEEP_MAX_MS. Another status than STATUS_OK: some partition could not be served. */
#define DETECTOR_SLEEP_MAX_MS 100
enum status detector_tick(struct detector *detector, int64_t *sleep_us) MUST_CHECK;

#endif
