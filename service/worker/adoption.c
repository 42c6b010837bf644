#include "worker/adoption.h"

#include "failpoint.h"
#include "metrics.h"
#include "outbox.h"
#include "store.h"

#define WARN_INTERVAL_US 10000000

enum status adoption_init(struct adoption *adoption, const struct redis_target *target, const struct clock *clock,
                          struct redis_conn *conn, struct pg_client *postgres) {
  *adoption = (struct adoption){.target = target, .clock = clock, .conn = conn, .postgres = postgres};
  enum status status = redis_round_init(&adoption->checks, redis_target_partitions(target));
  return status == STATUS_OK ? redis_call_new(&adoption->call) : status;
}

void adoption_free(struct adoption *adoption) {
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

static void log_adopted(uint32_t partition, struct session_id floor, const struct adopt_result *result) {
  char text[SESSION_ID_TEXT_MAX];
  session_id_format(floor, text);
  log_info("redis_adopted", LOG_INT("partition", partition), LOG_STR("floor", text), LOG_INT("was_empty", result->was_empty));
  if (result->was_empty && session_id_compare(floor, SESSION_ID_NONE) > 0) {
    log_warn("redis_lost_sessions", LOG_INT("partition", partition),
             LOG_STR("effect",
                     "Redis was empty: an open session ends as state_lost at its device's next heartbeat; a device that "
                     "stays silent keeps its last state in PostgreSQL"));
  }
}

/* *adopted: this call did it; false where another worker was faster. */
static enum status adopt(struct adoption *adoption, uint32_t partition, bool *adopted) {
  char run_id[REDIS_RUN_ID_LEN + 1];
  struct session_id floor;
  struct adopt_result result;
  redisReply *reply = NULL;
  enum status status = redis_conn_run_id(adoption->conn, partition, run_id);
  if (status != STATUS_OK) return status;
  status = outbox_last_session(adoption->postgres, partition, &floor);
  if (status != STATUS_OK) {
    log_waiting(adoption, status);
    return status;
  }
  FAILPOINT(coordinator_floor_read);
  status = store_adopt_encode(adoption->call, adoption->target, partition, run_id, floor);
  if (status == STATUS_OK) status = redis_conn_call(adoption->conn, partition, adoption->call, &reply);
  if (status != STATUS_OK) return status;
  FAILPOINT(coordinator_adopted);
  status = store_adopt_decode(reply, &result);
  freeReplyObject(reply);
  *adopted = status == STATUS_OK && result.adopted;
  if (*adopted) log_adopted(partition, floor, &result);
  return status;
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

enum status adoption_round(struct adoption *adoption) {
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
