#include "worker/maintenance.h"

#include <stdlib.h>

#include "failpoint.h"
#include "log.h"
#include "metrics.h"
#include "outbox.h"
#include "redis_round.h"
#include "store.h"
#include "worker/online_gauge.h"

#define CALL_TIMEOUT_MS 1000
#define TICK_US 1000000
#define COUNT_INTERVAL_US 2000000
#define OUTBOX_INTERVAL_US INT64_C(3600000000)
#define OUTBOX_RETRY_US 5000000
#define READERS_INTERVAL_US 5000000
#define READERS_WARN_AT 0.8 /* of the retention */
#define READERS_WARN_INTERVAL_US INT64_C(600000000)

struct maintenance {
  const struct config *config;
  const struct clock *clock;
  struct redis_conn *conn;
  struct pg_client *postgres;
  const struct redis_target *target;
  const struct partition_set *held;
  struct redis_round counts;
  struct online_gauge online;
  struct metric_series *retention_used;
  int64_t outbox_due_us, count_due_us, readers_due_us; /* monotonic; 0: at once */
  struct log_limit failed_limit, readers_limit;
};

enum status maintenance_new(const struct config *config, const struct redis_target *target, const struct clock *clock,
                            const struct partition_set *held, struct maintenance **maintenance) {
  *maintenance = NULL;
  struct maintenance *self = calloc(1, sizeof *self);
  if (self == NULL) return STATUS_NO_MEMORY;
  self->config = config;
  self->clock = clock;
  self->target = target;
  self->held = held;
  self->retention_used = metrics_series(METRIC_READER_RETENTION_USED);
  enum status status = redis_conn_new(target, clock, CALL_TIMEOUT_MS, &self->conn);
  if (status == STATUS_OK) status = pg_client_new(config->postgres_url, "presence maintenance", clock, &self->postgres);
  if (status == STATUS_OK) status = redis_round_init(&self->counts, held->partitions);
  if (status != STATUS_OK) {
    maintenance_free(self);
    return status;
  }
  *maintenance = self;
  return STATUS_OK;
}

void maintenance_free(struct maintenance *maintenance) {
  if (maintenance == NULL) return;
  online_gauge_free(&maintenance->online);
  redis_round_free(&maintenance->counts);
  pg_client_free(maintenance->postgres);
  redis_conn_free(maintenance->conn);
  free(maintenance);
}

void maintenance_interrupt(struct maintenance *maintenance) { pg_client_interrupt(maintenance->postgres); }

static enum status maintain_outbox(struct maintenance *maintenance, int64_t now_us) {
  const struct config *config = maintenance->config;
  enum status status = outbox_maintain(maintenance->postgres, config->retention_days, config->forget_days);
  if (status == STATUS_OK) FAILPOINT(maintenance_outbox_done);
  maintenance->outbox_due_us = now_us + (status == STATUS_OK ? OUTBOX_INTERVAL_US : OUTBOX_RETRY_US);
  int64_t suppressed;
  if (status != STATUS_OK && log_limit_pass(&maintenance->failed_limit, now_us, OUTBOX_INTERVAL_US / 60, &suppressed)) {
    log_warn("outbox_maintenance_failed", LOG_STR("status", status_name(status)),
             LOG_STR("error", pg_client_error(maintenance->postgres)), LOG_INT("suppressed", suppressed));
  }
  return status;
}

/* Who reads too slowly loses rows to the retention: that is said while there is time. */
static enum status show_readers(struct maintenance *maintenance, int64_t now_us) {
  struct outbox_reader slowest;
  enum status status = outbox_slowest_reader(maintenance->postgres, maintenance->config->retention_days, &slowest);
  if (status != STATUS_OK) return status;
  metric_set(maintenance->retention_used, slowest.retention_used);
  int64_t suppressed;
  if (slowest.retention_used >= READERS_WARN_AT &&
      log_limit_pass(&maintenance->readers_limit, now_us, READERS_WARN_INTERVAL_US, &suppressed)) {
    log_warn("reader_near_retention", LOG_STR("reader", slowest.name),
             LOG_INT("retention_used_percent", (int64_t)(100 * slowest.retention_used)), LOG_INT("suppressed", suppressed));
  }
  return STATUS_OK;
}

/* Where a partition does not answer the metric stays as it was. */
static enum status show_online(struct maintenance *maintenance) {
  struct redis_round *counts = &maintenance->counts;
  redis_round_begin(counts);
  for (uint32_t partition = 0; partition < maintenance->held->partitions; partition++) {
    if (!partition_set_has(maintenance->held, partition)) continue;
    enum status status = store_counts_encode(redis_round_call(counts), maintenance->target, partition);
    if (status != STATUS_OK) return status;
    redis_round_add(counts, partition);
  }
  enum status status = redis_round_send(counts, maintenance->conn);
  online_gauge_begin(&maintenance->online);
  for (size_t i = 0; status == STATUS_OK && i < counts->count; i++) {
    const redisReply *pairs;
    status = store_counts_decode(counts->replies[i], &pairs);
    if (status == STATUS_OK) status = online_gauge_add(&maintenance->online, pairs);
  }
  if (status == STATUS_OK) online_gauge_commit(&maintenance->online);
  return status;
}

enum status maintenance_tick(struct maintenance *maintenance, int64_t *sleep_us) {
  int64_t now_us = clock_monotonic_us(maintenance->clock);
  enum status worst = STATUS_OK;
  *sleep_us = TICK_US;
  if (now_us >= maintenance->count_due_us) {
    worst = show_online(maintenance);
    maintenance->count_due_us = now_us + COUNT_INTERVAL_US;
  }
  if (now_us >= maintenance->outbox_due_us) {
    enum status status = maintain_outbox(maintenance, now_us);
    if (status != STATUS_OK) worst = status;
  }
  if (now_us >= maintenance->readers_due_us) {
    enum status status = show_readers(maintenance, now_us);
    if (status != STATUS_OK) worst = status;
    maintenance->readers_due_us = now_us + READERS_INTERVAL_US;
  }
  return worst;
}
