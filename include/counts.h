/* counts.h: recalibration: a tenant's count, facts and deadlines in Redis are compared with each other and made to agree.
 *
 * Counts change only inside the scripts that open and close sessions; this finds what a fault, a human hand or a bug has changed
 * besides. Each step is one script call of about a millisecond (the last of a partition, which compares the count, up to 4 ms),
 * so it may run at any time, also twice at once. */
#ifndef PRESENCE_COUNTS_H
#define PRESENCE_COUNTS_H

#include "partition_set.h"
#include "store.h"

/* service/counts/findings.def */
enum finding {
#define FINDING(id, kind, meaning) FINDING_##id,
#include "../service/counts/findings.def"
#undef FINDING
  FINDING_KIND_COUNT
};
const char *finding_kind(enum finding finding);    /* "orphan": for labels and people */
const char *finding_meaning(enum finding finding); /* a sentence: what it is, what is done about it */

/* A tenant in one partition, or in all of them one after the other. No I/O: the caller carries the calls.
 *
 *   recalibration_begin(&work, target, &tenant, 0, partitions, outage_ms, DRIFT_REPAIR);
 *   while (!work.end) {
 *     recalibration_encode(&work, call);  -> send call to work.partition ->  recalibration_take(&work, reply);
 *   }
 *   recalibration_report(&work);
 *
 * A call whose effect is unknown may be encoded and sent again. */
struct recalibration {
  uint32_t partition; /* where the next call goes */
  bool end;
  int64_t before, after;             /* the count as it was, and open sessions; sums over the partitions done */
  int64_t found[FINDING_KIND_COUNT]; /* COUNT: by how much counts were off, whatever the sign; else how many */
  enum drift_action action;
  /* private */
  const struct redis_target *target;
  struct store_tenant tenant; /* its id is borrowed */
  uint32_t partitions_end;
  int64_t outage_ms;
  struct compare_cursor cursor;
};

void recalibration_begin(struct recalibration *work, const struct redis_target *target, const struct store_tenant *tenant,
                         uint32_t first_partition, uint32_t partitions_end, int64_t outage_ms, enum drift_action action);
enum status recalibration_encode(const struct recalibration *work, struct redis_call *call) MUST_CHECK;
/* STATUS_STALE: the tenant's settings are older than what Redis has seen: begin again with newer ones. */
enum status recalibration_take(struct recalibration *work, const redisReply *reply) MUST_CHECK;
/* Counts what was found in presence_audit_findings_total and logs it, if anything was. Any thread. */
void recalibration_report(const struct recalibration *work);

/* ---- the worker's part: all tenants of the partitions held, each partition every interval_ms, spread over it. One thread.
 * Metrics: count_drift, facts_due_mismatch, audit_findings. */
struct recalibrator;

struct recalibrator_options {
  const struct redis_target *target;
  const struct clock *clock;
  const struct partition_set *held; /* the partitions to serve */
  const char *postgres_url;         /* where the tenants are; while it is away those last seen are compared */
  int64_t outage_ms;
  int64_t interval_ms;
};

/* What the options point to must outlive it. */
enum status recalibrator_new(const struct recalibrator_options *options, struct recalibrator **recalibrator) MUST_CHECK;
void recalibrator_free(struct recalibrator *recalibrator);

/* At most one script call. *sleep_us: until the next; after a call as long as it took and more, so that Redis serves others most
 * of the time. Another status than STATUS_OK: a server did not answer. */
enum status recalibrator_tick(struct recalibrator *recalibrator, int64_t *sleep_us) MUST_CHECK;
/* Ends a statement under way, for a quick stop. Any thread. */
void recalibrator_interrupt(struct recalibrator *recalibrator);

#endif
