#include "counts.h"
#include "log.h"
#include "metrics.h"

static const struct {
  const char *kind, *meaning;
} findings[FINDING_KIND_COUNT] = {
#define FINDING(id, kind, meaning) [FINDING_##id] = {kind, meaning},
#include "findings.def"
#undef FINDING
};

const char *finding_kind(enum finding finding) { return findings[finding].kind; }
const char *finding_meaning(enum finding finding) { return findings[finding].meaning; }

/* A partition where the tenant has no bucket has nothing to walk, but may have a count. */
static void enter_partition(struct recalibration *work, uint32_t partition) {
  uint32_t bucket;
  work->partition = partition;
  work->end = partition >= work->partitions_end;
  work->cursor = (struct compare_cursor){.end = !store_first_bucket(work->target, &work->tenant, partition, &bucket)};
}

void recalibration_begin(struct recalibration *work, const struct redis_target *target, const struct store_tenant *tenant,
                         uint32_t first_partition, uint32_t partitions_end, int64_t outage_ms, enum drift_action action) {
  *work = (struct recalibration){
      .action = action, .target = target, .tenant = *tenant, .partitions_end = partitions_end, .outage_ms = outage_ms};
  enter_partition(work, first_partition);
}

/* The walk first: facts that come back are then in the count. */
enum status recalibration_encode(const struct recalibration *work, struct redis_call *call) {
  if (work->cursor.end) return store_recount_encode(call, work->target, work->partition, &work->tenant, work->action);
  return store_compare_encode(call, work->target, work->partition, work->outage_ms, &work->tenant, &work->cursor, work->action);
}

static enum status take_comparison(struct recalibration *work, const redisReply *reply) {
  struct compare_found found = {0};
  enum status status = store_compare_decode(reply, work->target, work->partition, &work->tenant, &work->cursor, &found);
  if (status != STATUS_OK) return status;
  work->found[FINDING_FACTS_LOST] += found.facts_lost;
  work->found[FINDING_ORPHAN] += found.orphans;
  work->found[FINDING_DUE_LOST] += found.due_lost;
  work->found[FINDING_NEXT_LATE] += found.next_late;
  return STATUS_OK;
}

enum status recalibration_take(struct recalibration *work, const redisReply *reply) {
  if (!work->cursor.end) return take_comparison(work, reply);
  struct recount_result result;
  enum status status = store_recount_decode(reply, &result);
  if (status != STATUS_OK) return status;
  int64_t drift = result.count - result.open_sessions;
  work->before += result.count;
  work->after += result.open_sessions;
  work->found[FINDING_COUNT] += drift < 0 ? -drift : drift;
  enter_partition(work, work->partition + 1);
  return STATUS_OK;
}

void recalibration_report(const struct recalibration *work) {
  bool any = false;
  for (enum finding f = 0; f < FINDING_KIND_COUNT; f++) {
    if (work->found[f] == 0) continue;
    any = true;
    /* Each partition with a wrong count is one finding; how wrong it was is presence_count_drift. */
    metric_add(metrics_series(METRIC_AUDIT_FINDINGS, finding_kind(f)), f == FINDING_COUNT ? 1 : work->found[f]);
  }
  if (!any) return;
  log_warn("drift_found", LOG_TEXT("tenant", work->tenant.id), LOG_INT("before", work->before), LOG_INT("after", work->after),
           LOG_INT("facts_lost", work->found[FINDING_FACTS_LOST]), LOG_INT("orphans", work->found[FINDING_ORPHAN]),
           LOG_INT("due_lost", work->found[FINDING_DUE_LOST]), LOG_INT("next_late", work->found[FINDING_NEXT_LATE]),
           LOG_STR("repaired", work->action == DRIFT_REPAIR ? "yes" : "no"));
}
