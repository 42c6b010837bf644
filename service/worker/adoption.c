#include "worker/adoption.h"

#include "failpoint.h"
#include "metrics.h"
#include "outbox.h"
#include "store.h"

#define WARN_INTERVAL_US 10000000

enum status adoption_init(struct adoption *adoption, const struct redis_target *target, const struct clock *clock,
                          int64_t outage_ms, struct redis_conn *conn, struct pg_client *postgres) {
  *adoption = (struct adoption){.target = target, .clock = clock, .conn = conn, .postgres = postgres};
  enum status status = redis_round_init(&adoption->checks, redis_target_partitions(target));
  if (status == STATUS_OK) status = redis_call_new(&adoption->call);
  return status == STATUS_OK ? rebuild_init(&adoption->rebuild, target, clock, outage_ms, conn, postgres) : status;
}

void adoption_free(struct adoption *adoption) {
  rebuild_free(&adoption->rebuild);
  redis_round_free(&adoption->checks);
  redis_call_free(adoption->call);
  adoption->call = NULL;
}

static void log_waiting(struct adoption *adoption, enum status status) {
  int64_t suppressed;
  if (log_limit_pass(&adoption->wait_limit, clock_monotonic_us(adoption->clock), WARN_INTERVAL_US, &suppressed)) {
    log_warn("adoption_waits", LOG_STR("status", status_name(status)), LOG_STR("error", pg_client_error(adoption->postgres)),
             LOG_STR("effect", "heartbeats are answered 503 until PostgreSQL tells the last session"),
             LOG_INT("suppressed", suppressed));
  }
}

static void log_adopted(uint32_t partition, struct session_id floor, enum adopt_outcome outcome) {
  char text[SESSION_ID_TEXT_MAX];
  session_id_format(floor, text);
  if (outcome == ADOPT_DONE) log_info("redis_adopted", LOG_INT("partition", partition), LOG_STR("floor", text));
  if (outcome == ADOPT_REBUILD) log_info("redis_empty", LOG_INT("partition", partition), LOG_STR("floor", text));
}

/* *adopted: this call did it; false where another worker was faster, or where a rebuild comes first. */
static enum status adopt(struct adoption *adoption, uint32_t partition, bool *adopted) {
  char run_id[REDIS_RUN_ID_LEN + 1];
  struct session_id floor;
  enum adopt_outcome outcome = ADOPT_ALREADY;
  redisReply *reply = NULL;
  enum status status = redis_conn_run_id(adoption->conn, partition, run_id);
  if (status != STATUS_OK) return status;
  status = outbox_last_session(adoption->postgres, partition, &floor);
  if (status != STATUS_OK) {
    log_waiting(adoption, status);
    return status;
  }
  FAILPOINT(coordinator_floor_read);
  status = store_adopt_encode(adoption->call, adoption->target, partition, run_id, floor, adoption->rebuild.token);
  if (status == STATUS_OK) status = redis_conn_call(adoption->conn, partition, adoption->call, &reply);
  if (status != STATUS_OK) return status;
  FAILPOINT(coordinator_adopted);
  status = store_adopt_decode(reply, &outcome);
  freeReplyObject(reply);
  if (status != STATUS_OK) return status;
  *adopted = outcome == ADOPT_DONE;
  log_adopted(partition, floor, outcome);
  if (outcome == ADOPT_REBUILD) rebuild_add(&adoption->rebuild, partition, run_id);
  return outcome == ADOPT_REBUILD || outcome == ADOPT_BUSY ? STATUS_INITIALISING : STATUS_OK;
}

/* Asks every partition whether its server is adopted. */
static enum status check(struct adoption *adoption) {
  uint32_t partitions = redis_target_partitions(adoption->target);
  redis_round_begin(&adoption->checks);
  for (uint32_t partition = 0; partition < partitions; partition++) {
    enum status status = store_adopted_encode(redis_round_call(&adoption->checks), adoption->target, partition);
    if (status != STATUS_OK) return status;
    redis_round_add(&adoption->checks, partition);
  }
  return redis_round_send(&adoption->checks, adoption->conn);
}

static enum status go_on_rebuilding(struct adoption *adoption) {
  enum status status = rebuild_step(&adoption->rebuild);
  if (status != STATUS_OK) log_waiting(adoption, status);
  return status == STATUS_OK ? STATUS_INITIALISING : status;
}

enum status adoption_round(struct adoption *adoption) {
  if (adoption->rebuild.under_way) return go_on_rebuilding(adoption);
  if (check(adoption) == STATUS_OK) return STATUS_OK;
  const struct redis_round *checks = &adoption->checks;
  enum status worst = STATUS_OK;
  bool any = false;
  for (size_t i = 0; i < checks->count; i++) {
    bool adopted = false;
    enum status status = checks->statuses[i];
    if (status == STATUS_INITIALISING) status = adopt(adoption, checks->partitions[i], &adopted);
    if (status != STATUS_OK) worst = status;
    any = any || adopted;
  }
  if (any) metric_add(metrics_series(METRIC_ADOPTIONS), 1);
  return worst;
}
