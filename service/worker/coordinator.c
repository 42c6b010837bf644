#include "worker/coordinator.h"

#include <stdlib.h>

#include "failpoint.h"
#include "metrics.h"
#include "worker/adoption.h"
#include "worker/share.h"
#include "worker/worker_id.h"

#define CALL_TIMEOUT_MS 500 /* well within a lease */

struct coordinator {
  const struct redis_target *target;
  const struct clock *clock;
  struct partition_set *held;
  uint32_t partitions, first;
  char id[WORKER_ID_MAX];
  struct redis_conn *conn;
  struct pg_client *postgres;
  struct adoption adoption;
  struct redis_round leases;
  enum lease_wish *wishes; /* by partition */
  bool *mine;              /* likewise: as of the last answer */
  int64_t *expires_us;     /* likewise: monotonic time until which the lease is surely ours */
  int64_t workers;         /* live ones, as of the last round */
  bool redis_up;
  struct metric_series *up;
};

static enum status init(struct coordinator *self, const struct config *config) {
  uint32_t partitions = self->partitions;
  self->wishes = calloc(partitions, sizeof *self->wishes);
  self->mine = calloc(partitions, sizeof *self->mine);
  self->expires_us = calloc(partitions, sizeof *self->expires_us);
  if (self->wishes == NULL || self->mine == NULL || self->expires_us == NULL) return STATUS_NO_MEMORY;
  uint32_t number;
  enum status status = worker_id_make(self->id, &number);
  if (status != STATUS_OK) return status;
  self->first = number % self->partitions;
  status = redis_conn_new(self->target, self->clock, CALL_TIMEOUT_MS, &self->conn);
  if (status != STATUS_OK) return status;
  status = pg_client_new(config->postgres_url, "presence coordinator", self->clock, &self->postgres);
  if (status != STATUS_OK) return status;
  status = redis_round_init(&self->leases, partitions);
  if (status != STATUS_OK) return status;
  return adoption_init(&self->adoption, self->target, self->clock, config->outage_ms, self->conn, self->postgres);
}

enum status coordinator_new(const struct config *config, const struct redis_target *target, const struct clock *clock,
                            struct partition_set *held, struct coordinator **coordinator) {
  *coordinator = NULL;
  struct coordinator *self = calloc(1, sizeof *self);
  if (self == NULL) return STATUS_NO_MEMORY;
  self->target = target;
  self->clock = clock;
  self->held = held;
  self->partitions = redis_target_partitions(target);
  self->up = metrics_series(METRIC_REDIS_UP);
  enum status status = init(self, config);
  if (status != STATUS_OK) {
    coordinator_free(self);
    return status;
  }
  *coordinator = self;
  return STATUS_OK;
}

void coordinator_free(struct coordinator *coordinator) {
  if (coordinator == NULL) return;
  adoption_free(&coordinator->adoption);
  redis_round_free(&coordinator->leases);
  redis_conn_free(coordinator->conn);
  pg_client_free(coordinator->postgres);
  free(coordinator->wishes);
  free(coordinator->mine);
  free(coordinator->expires_us);
  free(coordinator);
}

void coordinator_interrupt(struct coordinator *coordinator) { pg_client_interrupt(coordinator->postgres); }

/* Sends each partition's wish. */
static enum status send_wishes(struct coordinator *coordinator) {
  redis_round_begin(&coordinator->leases);
  for (uint32_t partition = 0; partition < coordinator->partitions; partition++) {
    enum status status = store_lease_encode(redis_round_call(&coordinator->leases), coordinator->target, partition,
                                            str_from(coordinator->id), COORDINATOR_LEASE_MS, coordinator->wishes[partition]);
    if (status != STATUS_OK) return status;
    redis_round_add(&coordinator->leases, partition);
  }
  return redis_round_send(&coordinator->leases, coordinator->conn);
}

/* asked_us: before the wishes went out, so that the lease never seems to last longer than it does. */
static enum status take_answer(struct coordinator *coordinator, size_t index, int64_t asked_us, int64_t *workers) {
  uint32_t partition = coordinator->leases.partitions[index];
  struct lease_result result;
  enum status status = coordinator->leases.statuses[index];
  if (status == STATUS_OK) status = store_lease_decode(coordinator->leases.replies[index], &result);
  if (status == STATUS_OK) {
    coordinator->mine[partition] = result.mine;
    coordinator->expires_us[partition] = asked_us + COORDINATOR_LEASE_MS * 1000;
    if (result.workers > *workers) *workers = result.workers;
  } else if (asked_us > coordinator->expires_us[partition]) {
    coordinator->mine[partition] = false;
  }
  partition_set_put(coordinator->held, partition, coordinator->mine[partition]);
  return status;
}

/* Sends a wish for every partition and takes the answers. */
static enum status renew_leases(struct coordinator *coordinator, uint32_t share, int64_t *workers) {
  int64_t asked_us = clock_monotonic_us(coordinator->clock);
  share_plan(coordinator->mine, coordinator->partitions, share, coordinator->first, coordinator->wishes);
  enum status worst = send_wishes(coordinator);
  FAILPOINT(coordinator_leases_answered);
  for (size_t i = 0; i < coordinator->leases.count; i++) {
    enum status status = take_answer(coordinator, i, asked_us, workers);
    if (status != STATUS_OK) worst = status;
  }
  return worst;
}

static enum status share_out(struct coordinator *coordinator) {
  uint32_t share = share_fair(coordinator->partitions, coordinator->workers);
  int64_t workers = 1;
  enum status status = renew_leases(coordinator, share, &workers);
  /* It asks for all that may be free and may get more than its share: the rest goes back at once, for the next to take. */
  share = share_fair(coordinator->partitions, workers);
  if (status == STATUS_OK && partition_set_size(coordinator->held) > share) {
    status = renew_leases(coordinator, share, &workers);
  }
  coordinator->workers = workers;
  return status;
}

static void redis_was(struct coordinator *coordinator, enum status status) {
  bool up = status == STATUS_OK || status == STATUS_INITIALISING;
  metric_set(coordinator->up, up);
  if (up == coordinator->redis_up) return;
  coordinator->redis_up = up;
  if (up) {
    log_info("redis_up", LOG_STR("worker", coordinator->id));
  } else {
    log_warn("redis_down", LOG_STR("status", status_name(status)), LOG_STR("error", redis_conn_error(coordinator->conn)));
  }
}

enum status coordinator_tick(struct coordinator *coordinator, int64_t *sleep_us) {
  enum status adopted = adoption_round(&coordinator->adoption);
  enum status leased = share_out(coordinator);
  redis_was(coordinator, leased);
  bool goes_on = adopted == STATUS_INITIALISING && adoption_is_rebuilding(&coordinator->adoption);
  *sleep_us = goes_on ? 0 : COORDINATOR_ROUND_MS * 1000;
  return leased != STATUS_OK ? leased : adopted;
}

bool coordinator_some_serve(struct coordinator *coordinator) {
  const struct redis_round *checks = &coordinator->adoption.checks;
  bool several = false, any = false;
  for (uint32_t p = 1; p < coordinator->partitions && !several; p++) several = redis_conn_leads(coordinator->conn, p);
  for (size_t i = 0; i < checks->count; i++) any = any || checks->statuses[i] == STATUS_OK;
  return several && any;
}

void coordinator_finish(struct coordinator *coordinator) {
  for (uint32_t partition = 0; partition < coordinator->partitions; partition++) {
    coordinator->wishes[partition] = LEASE_GIVE_UP;
    partition_set_put(coordinator->held, partition, false);
  }
  enum status status = coordinator->redis_up ? send_wishes(coordinator) : STATUS_UNAVAILABLE;
  if (status != STATUS_OK) log_info("leases_left", LOG_STR("status", status_name(status)), LOG_STR("effect", "they run out"));
}
