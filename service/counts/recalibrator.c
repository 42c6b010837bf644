/* recalibrator.c: passes over the tenants of one partition after the other, a script call at a time. */
#include <stdio.h>
#include <stdlib.h>

#include "counts.h"
#include "log.h"
#include "metrics.h"
#include "tenant_list.h"

#define CALL_TIMEOUT_MS 2000
#define IDLE_MAX_US 200000 /* a partition that is newly held is noticed within */
#define RETRY_US 500000    /* after a server did not answer */
#define PAUSE_FACTOR 3     /* of the time a call took */
#define PAUSE_MAX_US 50000

struct lane {
  int64_t due_us; /* monotonic: of the next pass; meaningful while held */
  bool held;
  struct metric_series *drift, *mismatch;
};

struct recalibrator {
  struct recalibrator_options options;
  struct redis_conn *conn;
  struct redis_call *call;
  struct pg_client *postgres;
  struct lane *lanes; /* by partition */
  struct tenant_list tenants;
  /* The pass under way. */
  bool passing;
  uint32_t partition;
  size_t next_tenant;        /* in tenants */
  struct recalibration work; /* end: the next tenant's is to begin */
  int64_t drift, mismatch;
};

enum status recalibrator_new(const struct recalibrator_options *options, struct recalibrator **recalibrator) {
  *recalibrator = NULL;
  struct recalibrator *self = calloc(1, sizeof *self);
  if (self == NULL) return STATUS_NO_MEMORY;
  self->options = *options;
  self->lanes = calloc(options->held->partitions, sizeof *self->lanes);
  enum status status = self->lanes == NULL ? STATUS_NO_MEMORY : STATUS_OK;
  for (uint32_t p = 0; p < options->held->partitions && status == STATUS_OK; p++) {
    char label[12];
    snprintf(label, sizeof label, "%u", (unsigned)p);
    self->lanes[p].drift = metrics_series(METRIC_COUNT_DRIFT, label);
    self->lanes[p].mismatch = metrics_series(METRIC_FACTS_DUE_MISMATCH, label);
  }
  for (enum finding f = 0; f < FINDING_KIND_COUNT; f++) (void)metrics_series(METRIC_AUDIT_FINDINGS, finding_kind(f));
  if (status == STATUS_OK) status = redis_conn_new(options->target, options->clock, CALL_TIMEOUT_MS, &self->conn);
  if (status == STATUS_OK) status = redis_call_new(&self->call);
  if (status == STATUS_OK)
    status = pg_client_new(options->postgres_url, "presence recalibrator", options->clock, &self->postgres);
  if (status != STATUS_OK) {
    recalibrator_free(self);
    return status;
  }
  *recalibrator = self;
  return STATUS_OK;
}

void recalibrator_free(struct recalibrator *recalibrator) {
  if (recalibrator == NULL) return;
  tenant_list_free(&recalibrator->tenants);
  pg_client_free(recalibrator->postgres);
  redis_call_free(recalibrator->call);
  redis_conn_free(recalibrator->conn);
  free(recalibrator->lanes);
  free(recalibrator);
}

void recalibrator_interrupt(struct recalibrator *recalibrator) { pg_client_interrupt(recalibrator->postgres); }

/* Partitions take turns within the interval. What is no longer held says nothing any more: its new worker does. */
static void follow_held(struct recalibrator *recalibrator, int64_t now_us) {
  const struct partition_set *held = recalibrator->options.held;
  int64_t interval_us = recalibrator->options.interval_ms * 1000;
  for (uint32_t p = 0; p < held->partitions; p++) {
    struct lane *lane = &recalibrator->lanes[p];
    bool is_held = partition_set_has(held, p);
    if (is_held && !lane->held) lane->due_us = now_us + interval_us / held->partitions * (p + 1);
    if (!is_held && lane->held) {
      metric_set(lane->drift, 0);
      metric_set(lane->mismatch, 0);
    }
    lane->held = is_held;
  }
}

/* The partition whose pass is due first, and until when that is. */
static bool earliest(const struct recalibrator *recalibrator, uint32_t *partition, int64_t *due_us) {
  bool any = false;
  for (uint32_t p = 0; p < recalibrator->options.held->partitions; p++) {
    const struct lane *lane = &recalibrator->lanes[p];
    if (!lane->held || (any && lane->due_us >= *due_us)) continue;
    *partition = p;
    *due_us = lane->due_us;
    any = true;
  }
  return any;
}

static enum status begin_pass(struct recalibrator *recalibrator, uint32_t partition, int64_t now_us) {
  struct lane *lane = &recalibrator->lanes[partition];
  enum status status = tenant_list_load(&recalibrator->tenants, recalibrator->postgres);
  if (status != STATUS_OK && !recalibrator->tenants.loaded) return status;
  lane->due_us += recalibrator->options.interval_ms * 1000;
  if (lane->due_us < now_us) lane->due_us = now_us; /* passes take longer than the interval: one after the other */
  recalibrator->passing = true;
  recalibrator->partition = partition;
  recalibrator->next_tenant = 0;
  recalibrator->work.end = true;
  recalibrator->drift = recalibrator->mismatch = 0;
  return STATUS_OK;
}

static void end_pass(struct recalibrator *recalibrator) {
  struct lane *lane = &recalibrator->lanes[recalibrator->partition];
  metric_set(lane->drift, (double)recalibrator->drift);
  metric_set(lane->mismatch, (double)recalibrator->mismatch);
  recalibrator->passing = false;
}

static void end_tenant(struct recalibrator *recalibrator) {
  const struct recalibration *work = &recalibrator->work;
  recalibration_report(work);
  recalibrator->drift += work->found[FINDING_COUNT];
  recalibrator->mismatch += work->found[FINDING_FACTS_LOST] + work->found[FINDING_ORPHAN] + work->found[FINDING_DUE_LOST];
}

/* One call for the tenant at hand. A tenant that cannot be compared now is left to the next pass. */
static enum status step(struct recalibrator *recalibrator) {
  struct recalibration *work = &recalibrator->work;
  redisReply *reply = NULL;
  enum status status = recalibration_encode(work, recalibrator->call);
  if (status == STATUS_OK) status = redis_conn_call(recalibrator->conn, work->partition, recalibrator->call, &reply);
  if (status == STATUS_OK) status = recalibration_take(work, reply);
  freeReplyObject(reply);
  if (status == STATUS_STALE || status == STATUS_TOO_LARGE || status == STATUS_PROTOCOL) {
    log_warn("recalibration_skipped", LOG_TEXT("tenant", work->tenant.id), LOG_INT("partition", work->partition),
             LOG_STR("status", status_name(status)));
    work->end = true;
    return STATUS_OK;
  }
  if (status == STATUS_OK && work->end) end_tenant(recalibrator);
  return status;
}

static enum status pass_on(struct recalibrator *recalibrator, int64_t *sleep_us) {
  if (!recalibrator->lanes[recalibrator->partition].held) {
    recalibrator->passing = false;
    return STATUS_OK;
  }
  if (recalibrator->work.end) {
    if (recalibrator->next_tenant == recalibrator->tenants.count) {
      end_pass(recalibrator);
      return STATUS_OK;
    }
    struct store_tenant tenant = tenant_list_at(&recalibrator->tenants, recalibrator->next_tenant++);
    recalibration_begin(&recalibrator->work, recalibrator->options.target, &tenant, recalibrator->partition,
                        recalibrator->partition + 1, recalibrator->options.outage_ms, DRIFT_REPAIR);
  }
  int64_t began_us = clock_monotonic_us(recalibrator->options.clock);
  enum status status = step(recalibrator);
  /* A server that is away is left to the next pass: the others' partitions are waiting. */
  if (status != STATUS_OK && !redis_conn_is_open(recalibrator->conn, recalibrator->partition)) recalibrator->passing = false;
  int64_t pause_us = PAUSE_FACTOR * (clock_monotonic_us(recalibrator->options.clock) - began_us);
  *sleep_us = status != STATUS_OK ? RETRY_US : pause_us < PAUSE_MAX_US ? pause_us : PAUSE_MAX_US;
  return status;
}

enum status recalibrator_tick(struct recalibrator *recalibrator, int64_t *sleep_us) {
  int64_t now_us = clock_monotonic_us(recalibrator->options.clock), due_us = INT64_MAX;
  uint32_t partition = 0;
  *sleep_us = 0;
  follow_held(recalibrator, now_us);
  if (recalibrator->passing) return pass_on(recalibrator, sleep_us);
  if (earliest(recalibrator, &partition, &due_us) && due_us <= now_us) {
    enum status status = begin_pass(recalibrator, partition, now_us);
    if (status != STATUS_OK) *sleep_us = RETRY_US;
    return status;
  }
  *sleep_us = due_us - now_us < IDLE_MAX_US ? due_us - now_us : IDLE_MAX_US;
  return STATUS_OK;
}
