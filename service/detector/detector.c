/* detector.c: one round = a look at the head of every partition's `next`, then one bounded expire_due where something is due.
 *
 * Fairness: a partition with much to do gets one step per round, like the others. A step is small, and after each that closed
 * something the detector rests for as long as the step took, Redis's other work included: however much is due, half of the time
 * is the heartbeats', and the busier Redis is, the more of it. */
#include "detector.h"

#include <stdlib.h>
#include <time.h>

#include "detector/schedule.h"
#include "failpoint.h"
#include "keys.h"
#include "log.h"
#include "metrics.h"
#include "redis_round.h"
#include "store.h"

#define CALL_TIMEOUT_MS 1000
/* Together they bound a step to about 2 ms of Redis's time. */
#define BUCKETS_PER_STEP 8
#define MEMBERS_PER_BUCKET 32
#define REST_MAX_US 10000
/* Also where nothing is due a step runs so often: it drops listeners that have gone. */
#define IDLE_STEP_US 1000000
#define RETRY_MS 50
/* The clock moves with every mark. Where it stands for longer nobody hears, whoever still counts as a listener. */
#define STANDS_US 1000000
#define WARN_INTERVAL_US 10000000

/* What is remembered of each partition. */
struct lane {
  int64_t cutoff_ms;    /* at the last look */
  int64_t idle_step_us; /* monotonic time of the next step without need */
  int64_t presence_ms;  /* the presence clock at the last look, */
  int64_t moved_us;     /* and the monotonic time when it was last seen to move */
  int64_t listeners;
  struct metric_series *oldest_age;
};

struct detector {
  struct detector_options options;
  struct redis_conn *conn;
  struct redis_round looks;
  struct redis_call *step;
  struct lane *lanes;
  struct log_limit dropped_limit;
  struct metric_series *lag, *claimed, *orphans, *listeners;
};

enum status detector_new(const struct detector_options *options, struct detector **detector) {
  uint32_t partitions = redis_target_partitions(options->target);
  enum status status = STATUS_NO_MEMORY;
  struct detector *self = calloc(1, sizeof *self);
  if (self == NULL) return status;
  self->options = *options;
  self->lanes = calloc(partitions, sizeof *self->lanes);
  if (self->lanes == NULL) goto out;
  status = redis_conn_new(options->target, options->clock, CALL_TIMEOUT_MS, &self->conn);
  if (status != STATUS_OK) goto out;
  status = redis_round_init(&self->looks, partitions);
  if (status != STATUS_OK) goto out;
  status = redis_call_new(&self->step);
  if (status != STATUS_OK) goto out;
  for (uint32_t partition = 0; partition < partitions; partition++) {
    char label[12];
    snprintf(label, sizeof label, "%u", (unsigned)partition);
    self->lanes[partition].oldest_age = metrics_series(METRIC_DUE_OLDEST_AGE, label);
  }
  self->lag = metrics_series(METRIC_DETECTION_LAG);
  self->claimed = metrics_series(METRIC_EXPIRE_BATCH, "claimed");
  self->orphans = metrics_series(METRIC_EXPIRE_BATCH, "orphan");
  self->listeners = metrics_series(METRIC_LISTENERS);
out:
  if (status != STATUS_OK) {
    detector_free(self);
    self = NULL;
  }
  *detector = self;
  return status;
}

void detector_free(struct detector *detector) {
  if (detector == NULL) return;
  redis_round_free(&detector->looks);
  redis_call_free(detector->step);
  redis_conn_free(detector->conn);
  free(detector->lanes);
  free(detector);
}

/* A look's member and score; false where there is no such. */
static bool look_member(const struct next_result *look, size_t index, struct str *member, int64_t *bound_ms) {
  if (look->members == NULL || 2 * index + 1 >= look->members->elements) return false;
  const redisReply *name = look->members->element[2 * index];
  const redisReply *score = look->members->element[2 * index + 1];
  *member = (struct str){name->str, name->len};
  *bound_ms = score->type == REDIS_REPLY_INTEGER ? (int64_t)score->integer : (int64_t)strtod(score->str, NULL);
  return true;
}

/* The buckets at the head of `next` whose bound has passed. *earliest_ms: the lowest bound of all. */
static size_t due_buckets(uint32_t partition, const struct next_result *look, struct expire_bucket buckets[BUCKETS_PER_STEP],
                          int64_t *earliest_ms) {
  size_t due = 0;
  struct str member;
  int64_t bound_ms;
  *earliest_ms = INT64_MAX;
  for (size_t i = 0; due < BUCKETS_PER_STEP && look_member(look, i, &member, &bound_ms); i++) {
    if (i == 0) *earliest_ms = bound_ms;
    if (bound_ms >= look->cutoff_ms) break;
    if (keys_parse_bucket_member(member, &buckets[due].tenant, &buckets[due].bucket) == STATUS_OK) {
      due++;
    } else {
      log_error("bad_next_member", LOG_INT("partition", partition), LOG_TEXT("member", member));
    }
  }
  return due;
}

static void warn_dropped(struct detector *detector, uint32_t partition, int64_t dropped) {
  int64_t suppressed;
  if (dropped > 0 &&
      log_limit_pass(&detector->dropped_limit, clock_monotonic_us(detector->options.clock), WARN_INTERVAL_US, &suppressed)) {
    log_warn("listener_dropped", LOG_INT("partition", partition), LOG_INT("listeners", dropped),
             LOG_STR("reason", "an API loop was silent for too long; devices that only reach it may be declared offline"),
             LOG_INT("suppressed", suppressed));
  }
}

static void observe(struct detector *detector, uint32_t partition, const struct expire_result *result) {
  metric_add(detector->claimed, result->closed);
  metric_add(detector->orphans, result->orphans);
  for (size_t i = 0; result->lags != NULL && i < result->lags->elements; i++) {
    metric_observe(detector->lag, (double)result->lags->element[i]->integer / 1000.0);
  }
  detector->lanes[partition].listeners = result->listeners;
  warn_dropped(detector, partition, result->listeners_dropped);
}

static enum status expire(struct detector *detector, uint32_t partition, const struct expire_bucket *buckets, size_t count) {
  redisReply *reply = NULL;
  struct expire_result result;
  enum status status = store_expire_encode(detector->step, detector->options.target, partition, detector->options.outage_ms,
                                           MEMBERS_PER_BUCKET, buckets, count);
  if (status != STATUS_OK) return status;
  if (count > 0) FAILPOINT(detector_next_read);
  status = redis_conn_call(detector->conn, partition, detector->step, &reply);
  if (status != STATUS_OK) return status;
  if (count > 0) FAILPOINT(detector_expired);
  status = store_expire_decode(reply, &result);
  if (status == STATUS_OK) observe(detector, partition, &result);
  freeReplyObject(reply);
  return status;
}

static void rest(int64_t us) {
  if (us > REST_MAX_US) us = REST_MAX_US;
  struct timespec time = {.tv_nsec = us * 1000};
  (void)nanosleep(&time, NULL); /* a signal makes it shorter, no more */
}

/* What one look at a partition asks for. *wait_ms: until the next look. */
static enum status serve(struct detector *detector, uint32_t partition, const redisReply *reply, int64_t *wait_ms) {
  struct lane *lane = &detector->lanes[partition];
  struct expire_bucket buckets[BUCKETS_PER_STEP];
  struct next_result look;
  int64_t earliest_ms;
  enum status status = store_next_decode(reply, &look);
  if (status != STATUS_OK) return status;
  size_t due = due_buckets(partition, &look, buckets, &earliest_ms);
  int64_t age_ms = earliest_ms < look.presence_ms ? look.presence_ms - earliest_ms : 0;
  metric_set(lane->oldest_age, (double)age_ms / 1000.0);
  *wait_ms = due > 0 ? 0 : schedule_wait_ms(earliest_ms, look.cutoff_ms, look.cutoff_ms != lane->cutoff_ms);
  lane->cutoff_ms = look.cutoff_ms;

  int64_t now_us = clock_monotonic_us(detector->options.clock);
  if (look.presence_ms != lane->presence_ms) lane->moved_us = now_us;
  lane->presence_ms = look.presence_ms;
  if (due == 0 && now_us < lane->idle_step_us) return STATUS_OK;
  lane->idle_step_us = now_us + IDLE_STEP_US;
  status = expire(detector, partition, buckets, due);
  if (due > 0) rest(clock_monotonic_us(detector->options.clock) - now_us);
  return status;
}

/* One store_next to each partition held. */
static enum status look(struct detector *detector) {
  const struct detector_options *options = &detector->options;
  redis_round_begin(&detector->looks);
  for (uint32_t partition = 0; partition < options->held->partitions; partition++) {
    if (!partition_set_has(options->held, partition)) {
      detector->lanes[partition].listeners = 0;
      metric_set(detector->lanes[partition].oldest_age, 0);
      continue;
    }
    enum status status =
        store_next_encode(redis_round_call(&detector->looks), options->target, partition, options->outage_ms, BUCKETS_PER_STEP);
    if (status != STATUS_OK) return status;
    redis_round_add(&detector->looks, partition);
  }
  return redis_round_send(&detector->looks, detector->conn);
}

/* Every API loop marks every partition: any partition held tells, the largest figure is the newest. */
static void observe_listeners(struct detector *detector) {
  int64_t most = 0, now_us = clock_monotonic_us(detector->options.clock);
  for (uint32_t partition = 0; partition < detector->options.held->partitions; partition++) {
    const struct lane *lane = &detector->lanes[partition];
    if (lane->listeners > most && now_us - lane->moved_us < STANDS_US) most = lane->listeners;
  }
  metric_set(detector->listeners, (double)most);
}

/* Complete as long as it serves some partition: those of a server that is away are not told by the others. */
enum status detector_tick(struct detector *detector, int64_t *sleep_us) {
  int64_t shortest_ms = DETECTOR_SLEEP_MAX_MS;
  enum status worst = look(detector);
  const struct redis_round *looks = &detector->looks;
  bool any_served = false;
  for (size_t i = 0; i < looks->count; i++) {
    int64_t wait_ms = RETRY_MS;
    enum status status = looks->statuses[i];
    if (status == STATUS_OK) status = serve(detector, looks->partitions[i], looks->replies[i], &wait_ms);
    if (status != STATUS_OK) {
      worst = status;
      wait_ms = RETRY_MS;
    }
    any_served = any_served || status == STATUS_OK;
    if (wait_ms < shortest_ms) shortest_ms = wait_ms;
  }
  observe_listeners(detector);
  *sleep_us = shortest_ms * 1000;
  return any_served ? STATUS_OK : worst;
}
