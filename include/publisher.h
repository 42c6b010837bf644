/* publisher.h: carries transitions from the partitions' streams into the outbox.
 *
 *   stream (from the head, up to the first audit marker) -> outbox_append, COMMIT -> trim (entries, and `closed` of the same
 * sessions)
 *   markers at the head -> the devices' rows -> repair -> trim (audit.h)
 *
 * A crash anywhere repeats the step; the guard in PostgreSQL makes the repeat harmless, so no position is kept.
 *
 * Lanes: a worker has several publishers, each with a thread, connections and partitions of its own. The append itself goes one
 * after the other (a lock in PostgreSQL); what one lane reads, encodes and trims falls into the time of another's append.
 * Metrics: transitions, publish_backlog, publish_lag, outbox_repeats, rejected, audit_findings. */
#ifndef PRESENCE_PUBLISHER_H
#define PRESENCE_PUBLISHER_H

#include <stdatomic.h>

#include "partition_set.h"
#include "redis.h"

struct publisher;

/* Two keep PostgreSQL busy. */
#define PUBLISHER_LANES 2
/* What the lanes of a worker have in common. */
struct publisher_lags {
  _Atomic int64_t ms[PUBLISHER_LANES];
};

struct publisher_options {
  const struct redis_target *target;
  const struct clock *clock;
  const struct partition_set *held; /* the partitions to serve */
  const char *postgres_url;
  int64_t outage_ms;
  uint32_t lane, lanes; /* it serves each partition with partition % lanes == lane */
  struct publisher_lags *lags;
};

/* What the options point to must outlive the publisher. */
enum status publisher_new(const struct publisher_options *options, struct publisher **publisher) MUST_CHECK;
void publisher_free(struct publisher *publisher);

/* One thread. One round over the partitions held, with at most one batch each. *sleep_us: when to call again (0: there is more).
 * Another status than STATUS_OK: some partition could not be served. */
enum status publisher_tick(struct publisher *publisher, int64_t *sleep_us) MUST_CHECK;
/* Ends a statement under way, for a quick stop. Any thread. */
void publisher_interrupt(struct publisher *publisher);

#endif
