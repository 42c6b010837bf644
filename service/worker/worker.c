/* worker.c: the duties of a worker, each a thread that repeats one step and sleeps as long as the step says.
 *
 *   coordinator   adoption, leases -> `held`
 *   detector      partitions held: next -> expire_due
 *   publisher     partitions held: stream -> outbox -> trim; a thread for each of its lanes
 *   maintenance   the outbox's days, presence_online
 *   recalibrator  partitions held: counts, facts and deadlines compared with each other
 *   auditor       partitions held: device rows compared with facts
 *   webhooks      endpoints held: outbox -> receivers
 */
#include "worker.h"

#include <pthread.h>
#include <stdlib.h>

#include "audit.h"
#include "counts.h"
#include "detector.h"
#include "log.h"
#include "partition_set.h"
#include "publisher.h"
#include "webhooks.h"
#include "worker/coordinator.h"
#include "worker/maintenance.h"
#include "worker/stopper.h"

#define INTERRUPT_INTERVAL_US 100000

enum {
  COORDINATOR,
  DETECTOR,
  MAINTENANCE,
  RECALIBRATOR,
  AUDITOR,
  WEBHOOKS,
  PUBLISHER, /* the first lane's; the others' follow */
  DUTY_COUNT = PUBLISHER + PUBLISHER_LANES
};

struct duty;
struct duty_kind {
  const char *name;
  enum status (*tick)(struct duty *duty, int64_t *sleep_us);
  void (*finish)(struct worker *worker); /* on the duty's thread, at the end; may be NULL */
};

struct duty {
  const struct duty_kind *kind;
  struct worker *worker;
  pthread_t thread;
  bool running;                /* has a thread to join */
  atomic_bool ended;           /* it has nothing more to do but to return */
  _Atomic int64_t complete_us; /* monotonic time of the last round that was STATUS_OK */
};

struct worker {
  const struct clock *clock;
  struct stopper stopper;
  bool stopper_made;
  struct partition_set held;
  struct coordinator *coordinator;
  struct detector *detector;
  struct publisher *publishers[PUBLISHER_LANES];
  struct publisher_lags publisher_lags;
  struct maintenance *maintenance;
  struct recalibrator *recalibrator;
  struct auditor *auditor;
  struct webhooks *webhooks;
  struct duty duties[DUTY_COUNT];
  _Atomic bool redis_up;
};

static enum status tick_coordinator(struct duty *duty, int64_t *sleep_us) {
  enum status status = coordinator_tick(duty->worker->coordinator, sleep_us);
  atomic_store(&duty->worker->redis_up, status == STATUS_OK || coordinator_some_serve(duty->worker->coordinator));
  return status;
}
static enum status tick_detector(struct duty *duty, int64_t *sleep_us) { return detector_tick(duty->worker->detector, sleep_us); }
static enum status tick_publisher(struct duty *duty, int64_t *sleep_us) {
  return publisher_tick(duty->worker->publishers[duty - &duty->worker->duties[PUBLISHER]], sleep_us);
}
static enum status tick_maintenance(struct duty *duty, int64_t *sleep_us) {
  return maintenance_tick(duty->worker->maintenance, sleep_us);
}
static enum status tick_recalibrator(struct duty *duty, int64_t *sleep_us) {
  return recalibrator_tick(duty->worker->recalibrator, sleep_us);
}
static enum status tick_auditor(struct duty *duty, int64_t *sleep_us) { return auditor_tick(duty->worker->auditor, sleep_us); }
static enum status tick_webhooks(struct duty *duty, int64_t *sleep_us) { return webhooks_tick(duty->worker->webhooks, sleep_us); }
static void finish_coordinator(struct worker *worker) { coordinator_finish(worker->coordinator); }
static void finish_webhooks(struct worker *worker) { webhooks_finish(worker->webhooks); }

static const struct duty_kind duty_kinds[PUBLISHER + 1] = {
    [COORDINATOR] = {.name = "coordinator", .tick = tick_coordinator, .finish = finish_coordinator},
    [DETECTOR] = {.name = "detector", .tick = tick_detector},
    [MAINTENANCE] = {.name = "maintenance", .tick = tick_maintenance},
    [RECALIBRATOR] = {.name = "recalibrator", .tick = tick_recalibrator},
    [AUDITOR] = {.name = "auditor", .tick = tick_auditor},
    [WEBHOOKS] = {.name = "webhooks", .tick = tick_webhooks, .finish = finish_webhooks},
    [PUBLISHER] = {.name = "publisher", .tick = tick_publisher},
};

static enum status make_parts(struct worker *worker, const struct config *config, const struct redis_target *target) {
  enum status status = stopper_init(&worker->stopper);
  if (status != STATUS_OK) return status;
  worker->stopper_made = true;
  status = partition_set_init(&worker->held, redis_target_partitions(target));
  if (status != STATUS_OK) return status;
  status = coordinator_new(config, target, worker->clock, &worker->held, &worker->coordinator);
  if (status != STATUS_OK) return status;
  status = detector_new(
      &(struct detector_options){.target = target, .clock = worker->clock, .held = &worker->held, .outage_ms = config->outage_ms},
      &worker->detector);
  if (status != STATUS_OK) return status;
  for (uint32_t lane = 0; lane < PUBLISHER_LANES; lane++) {
    status = publisher_new(&(struct publisher_options){.target = target,
                                                       .clock = worker->clock,
                                                       .held = &worker->held,
                                                       .postgres_url = config->postgres_url,
                                                       .outage_ms = config->outage_ms,
                                                       .lane = lane,
                                                       .lanes = PUBLISHER_LANES,
                                                       .lags = &worker->publisher_lags},
                           &worker->publishers[lane]);
    if (status != STATUS_OK) return status;
  }
  status = maintenance_new(config, target, worker->clock, &worker->held, &worker->maintenance);
  if (status != STATUS_OK) return status;
  status = webhooks_new(config, worker->clock, &worker->webhooks);
  if (status != STATUS_OK) return status;
  status = auditor_new(&(struct auditor_options){.target = target,
                                                 .clock = worker->clock,
                                                 .held = &worker->held,
                                                 .postgres_url = config->postgres_url,
                                                 .outage_ms = config->outage_ms,
                                                 .interval_ms = config->audit_ms},
                       &worker->auditor);
  if (status != STATUS_OK) return status;
  return recalibrator_new(&(struct recalibrator_options){.target = target,
                                                         .clock = worker->clock,
                                                         .held = &worker->held,
                                                         .postgres_url = config->postgres_url,
                                                         .outage_ms = config->outage_ms,
                                                         .interval_ms = config->recalibrate_ms},
                          &worker->recalibrator);
}

enum status worker_new(const struct config *config, const struct redis_target *target, const struct clock *clock,
                       struct worker **worker) {
  *worker = NULL;
  struct worker *self = calloc(1, sizeof *self);
  if (self == NULL) return STATUS_NO_MEMORY;
  self->clock = clock;
  for (size_t i = 0; i < DUTY_COUNT; i++) {
    self->duties[i].kind = &duty_kinds[i < PUBLISHER ? i : PUBLISHER];
    self->duties[i].worker = self;
  }
  enum status status = make_parts(self, config, target);
  if (status != STATUS_OK) {
    worker_free(self);
    return status;
  }
  *worker = self;
  return STATUS_OK;
}

void worker_free(struct worker *worker) {
  if (worker == NULL) return;
  recalibrator_free(worker->recalibrator);
  auditor_free(worker->auditor);
  webhooks_free(worker->webhooks);
  maintenance_free(worker->maintenance);
  for (size_t lane = 0; lane < PUBLISHER_LANES; lane++) publisher_free(worker->publishers[lane]);
  detector_free(worker->detector);
  coordinator_free(worker->coordinator);
  partition_set_free(&worker->held);
  if (worker->stopper_made) stopper_destroy(&worker->stopper);
  free(worker);
}

static void *run_duty(void *context) {
  struct duty *duty = context;
  struct worker *worker = duty->worker;
  int64_t sleep_us = 0;
  while (!stopper_wait(&worker->stopper, sleep_us)) {
    enum status status = duty->kind->tick(duty, &sleep_us);
    if (status == STATUS_OK) {
      atomic_store(&duty->complete_us, clock_monotonic_us(worker->clock));
    } else {
      log_debug("round_incomplete", LOG_STR("duty", duty->kind->name), LOG_STR("status", status_name(status)));
    }
  }
  if (duty->kind->finish != NULL) duty->kind->finish(worker);
  atomic_store(&duty->ended, true);
  stopper_leave(&worker->stopper);
  return NULL;
}

enum status worker_start(struct worker *worker) {
  for (size_t i = 0; i < DUTY_COUNT; i++) {
    struct duty *duty = &worker->duties[i];
    stopper_enter(&worker->stopper);
    if (pthread_create(&duty->thread, NULL, run_duty, duty) != 0) {
      stopper_leave(&worker->stopper);
      log_error("thread_failed", LOG_STR("duty", duty->kind->name));
      return STATUS_IO;
    }
    duty->running = true;
    pthread_setname_np(duty->thread, duty->kind->name);
  }
  return STATUS_OK;
}

/* Again and again, since an interrupt that comes just before a statement is sent has no effect. */
static bool wait_for_duties(struct worker *worker, int64_t limit_ms) {
  int64_t deadline_us = clock_monotonic_us(worker->clock) + limit_ms * 1000;
  do {
    coordinator_interrupt(worker->coordinator);
    for (size_t lane = 0; lane < PUBLISHER_LANES; lane++) publisher_interrupt(worker->publishers[lane]);
    maintenance_interrupt(worker->maintenance);
    recalibrator_interrupt(worker->recalibrator);
    auditor_interrupt(worker->auditor);
    webhooks_interrupt(worker->webhooks);
    if (stopper_wait_left(&worker->stopper, INTERRUPT_INTERVAL_US)) return true;
  } while (clock_monotonic_us(worker->clock) < deadline_us);
  return false;
}

enum status worker_stop(struct worker *worker, int64_t limit_ms) {
  stopper_stop(&worker->stopper);
  bool all_ended = wait_for_duties(worker, limit_ms);
  for (size_t i = 0; i < DUTY_COUNT; i++) {
    struct duty *duty = &worker->duties[i];
    if (duty->running && atomic_load(&duty->ended)) {
      pthread_join(duty->thread, NULL);
      duty->running = false;
    } else if (duty->running) {
      log_warn("thread_left", LOG_STR("duty", duty->kind->name), LOG_STR("reason", "still waiting for a server at the end"));
    }
  }
  return all_ended ? STATUS_OK : STATUS_TIMEOUT;
}

/* Of the lane that has not completed a round for the longest time. */
static int64_t publishers_complete_us(const struct worker *worker) {
  int64_t oldest_us = INT64_MAX;
  for (size_t i = PUBLISHER; i < DUTY_COUNT; i++) {
    int64_t complete_us = atomic_load(&worker->duties[i].complete_us);
    if (complete_us < oldest_us) oldest_us = complete_us;
  }
  return oldest_us;
}

void worker_health(const struct worker *worker, struct worker_health *health) {
  *health = (struct worker_health){
      .detector_us = atomic_load(&worker->duties[DETECTOR].complete_us),
      .publisher_us = publishers_complete_us(worker),
      .partitions_held = partition_set_size(&worker->held),
      .redis_up = atomic_load(&worker->redis_up),
  };
}
