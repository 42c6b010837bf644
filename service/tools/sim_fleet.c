#include "sim_fleet.h"

#include <jansson.h>
#include <stdlib.h>
#include <unistd.h>

#include "sim_request.h"
#include "sim_schedule.h"

enum {
  PRECISE_US = 50,             /* between two looks at what is due */
  BATCH_WAIT_US = 100000,      /* how long the first heartbeat of a batch that is not full waits for others */
  REQUEST_LIMIT_US = 30000000, /* a request or a connect that takes longer has failed */
  PROGRESS_US = 1000000,
  TTL_UNKNOWN_MS = 90000, /* the contract's default, where the tenant's own is not told */
};

/* One connection with what is under way on it. */
struct lane {
  struct sim_connection connection;
  struct sim_fleet *fleet;
  struct buf request;
  uint32_t *devices; /* whose heartbeats are under way; room for a batch */
  size_t count;
  int64_t since_us; /* what its latency counts from */
  struct lane *next_idle;
};

struct sim_fleet {
  struct loop *loop;
  const struct sim_options *options;
  struct sim_request_form form;
  struct sim_schedule schedule;
  struct sim_stats stats;
  struct lane *lanes;
  size_t lane_count, batch; /* batch: heartbeats a request */
  struct lane *idle;        /* connected, nothing under way; the one idle the longest first, so that all are used evenly */
  struct lane **idle_end;
  struct loop_timer turn, progress;
  int64_t started_us;
  uint64_t reported_requests, reported_ok; /* at the last progress line */
};

static int64_t read_clock(const struct sim_fleet *fleet) { return clock_monotonic_us(loop_clock(fleet->loop)); }

/* Sending */

/* A batch goes when it is full or its first heartbeat has waited long enough. */
static bool worth_sending(const struct sim_fleet *fleet, int64_t now_us) {
  int64_t due_us = sim_schedule_due_us(&fleet->schedule);
  if (fleet->batch <= 1 || fleet->options->interval_ms == 0) return due_us <= now_us;
  int64_t full_us = (int64_t)fleet->batch * fleet->schedule.interval_us / fleet->schedule.devices;
  return due_us + (full_us < BATCH_WAIT_US ? full_us : BATCH_WAIT_US) <= now_us;
}

static bool send_next(struct sim_fleet *fleet, struct lane *lane, int64_t now_us) {
  lane->count = 0;
  if (!worth_sending(fleet, now_us)) return false;
  /* A heartbeat with a turn is late from its turn on, also while it waits for a lane or for us. One in a batch waits for others.
   */
  bool has_turn = fleet->batch <= 1 && fleet->options->interval_ms > 0;
  lane->since_us = has_turn ? sim_schedule_due_us(&fleet->schedule) : now_us;
  while (lane->count < fleet->batch && sim_schedule_take(&fleet->schedule, now_us, &lane->devices[lane->count])) lane->count++;
  if (lane->count == 0) return false;
  enum status status = STATUS_OK;
  if (fleet->options->batch > 0)
    status = sim_request_batch(&fleet->form, lane->devices, lane->count, &lane->request);
  else if (fleet->options->request[0] != '\0')
    status = sim_request_given(&fleet->form, lane->devices[0], &lane->request);
  else
    status = sim_request_single(&fleet->form, lane->devices[0], &lane->request);
  if (status != STATUS_OK) {
    sim_stats_failure(&fleet->stats, "memory", false);
    return false;
  }
  fleet->stats.requests++;
  sim_connection_send(&lane->connection, buf_str(&lane->request), now_us);
  return true;
}

static void push_idle(struct lane *lane) {
  lane->next_idle = NULL;
  *lane->fleet->idle_end = lane;
  lane->fleet->idle_end = &lane->next_idle;
}

static void forget_idle(struct lane *lane) {
  for (struct lane **at = &lane->fleet->idle; *at != NULL; at = &(*at)->next_idle)
    if (*at == lane) {
      *at = lane->next_idle;
      if (*at == NULL) lane->fleet->idle_end = at;
      return;
    }
}

/* What is due by the end of the sleep goes then. */
static void wait_for_turn(struct sim_fleet *fleet, int64_t wait_us) {
  int64_t least_us = fleet->options->precise ? PRECISE_US : 1000;
  loop_timer_set(fleet->loop, &fleet->turn, wait_us > least_us ? wait_us : least_us);
}

/* Hands what is due to the lanes that are idle, and comes back when the next turn is. */
static void on_turn(struct loop_timer *timer) {
  struct sim_fleet *fleet = timer->context;
  int64_t now_us = read_clock(fleet);
  while (fleet->idle != NULL) {
    struct lane *lane = fleet->idle;
    if (!send_next(fleet, lane, now_us)) break;
    forget_idle(lane);
  }
  if (fleet->idle == NULL) return; /* the next lane to be answered goes on by itself */
  wait_for_turn(fleet, sim_schedule_due_us(&fleet->schedule) - now_us);
}

static void next_or_idle(struct lane *lane, int64_t now_us) {
  struct sim_fleet *fleet = lane->fleet;
  if (send_next(fleet, lane, now_us)) return;
  push_idle(lane);
  if (!fleet->turn.armed) wait_for_turn(fleet, 0);
}

/* Answers */

/* Which heartbeats of a batch are in force: all but those under "rejected". */
static void count_batch(struct lane *lane, struct str body) {
  struct sim_fleet *fleet = lane->fleet;
  json_t *answer = json_loadb(body.data, body.len, 0, NULL);
  size_t index = 0;
  json_t *item = NULL;
  json_array_foreach(json_object_get(answer, "rejected"), index, item) {
    json_int_t at = json_integer_value(json_object_get(item, "index"));
    if (at < 0 || (size_t)at >= lane->count || lane->devices[at] == UINT32_MAX) continue;
    lane->devices[at] = UINT32_MAX;
    fleet->stats.heartbeats_bad++;
  }
  json_decref(answer);
  for (size_t i = 0; i < lane->count; i++) {
    if (lane->devices[i] == UINT32_MAX) continue;
    fleet->stats.heartbeats_ok++;
    sim_schedule_heard(&fleet->schedule, lane->devices[i], lane->connection.sent_us);
  }
}

static void on_answered(struct sim_connection *connection, const struct sim_answer *answer) {
  struct lane *lane = connection->context;
  struct sim_fleet *fleet = lane->fleet;
  int64_t now_us = read_clock(fleet);
  sim_stats_answer(&fleet->stats, answer->status, now_us - lane->since_us);
  bool ok = answer->status >= 200 && answer->status < 300;
  if (ok && fleet->options->batch > 0) {
    count_batch(lane, answer->body);
  } else if (ok) {
    fleet->stats.heartbeats_ok++;
    sim_schedule_heard(&fleet->schedule, lane->devices[0], connection->sent_us);
  }
  if (!answer->close) next_or_idle(lane, now_us);
}

static void on_ready(struct sim_connection *connection) {
  struct lane *lane = connection->context;
  next_or_idle(lane, read_clock(lane->fleet));
}

static void on_failed(struct sim_connection *connection, const char *reason, bool lost) {
  struct lane *lane = connection->context;
  forget_idle(lane);
  if (strcmp(reason, SIM_IDLE_CLOSED) != 0) sim_stats_failure(&lane->fleet->stats, reason, lost);
}

static const struct sim_events lane_events = {.ready = on_ready, .answered = on_answered, .failed = on_failed};

/* Progress */

static enum status append_progress(struct buf *line, const struct sim_fleet *fleet, int64_t now_us) {
  const struct sim_stats *stats = &fleet->stats;
  enum status status = buf_printf(
      line, "%5llds sent %llu, 2xx %llu, p50 %.2f ms, p99 %.2f ms, online %lld",
      (long long)((now_us - fleet->started_us) / 1000000), (unsigned long long)(stats->requests - fleet->reported_requests),
      (unsigned long long)(sim_stats_ok(stats) - fleet->reported_ok), (double)sim_latency_quantile(&stats->recent, 0.5) / 1000,
      (double)sim_latency_quantile(&stats->recent, 0.99) / 1000, (long long)sim_schedule_online(&fleet->schedule, now_us));
  size_t without_errors = line->len;
  if (status == STATUS_OK) status = buf_append_str(line, STR_LIT("; not 2xx so far:"));
  size_t before = line->len;
  if (status == STATUS_OK) status = sim_stats_append_errors(line, stats);
  if (status == STATUS_OK && line->len == before) line->len = without_errors;
  return status == STATUS_OK ? buf_append_str(line, STR_LIT("\n")) : status;
}

static void on_progress(struct loop_timer *timer) {
  struct sim_fleet *fleet = timer->context;
  int64_t now_us = read_clock(fleet);
  struct buf line = {0};
  if (append_progress(&line, fleet, now_us) != STATUS_OK || write(STDERR_FILENO, line.data, line.len) < 0)
    sim_stats_failure(&fleet->stats, "progress", false);
  buf_free(&line);
  fleet->reported_requests = fleet->stats.requests;
  fleet->reported_ok = sim_stats_ok(&fleet->stats);
  sim_latency_clear(&fleet->stats.recent);
  for (size_t i = 0; i < fleet->lane_count; i++) sim_connection_check(&fleet->lanes[i].connection, now_us, REQUEST_LIMIT_US);
  loop_timer_set(fleet->loop, &fleet->progress, PROGRESS_US);
}

/* Life */

static enum status make_lanes(struct sim_fleet *fleet, const struct sim_target *target) {
  fleet->lanes = calloc((size_t)fleet->options->connections, sizeof *fleet->lanes);
  if (fleet->lanes == NULL) return STATUS_NO_MEMORY;
  for (; fleet->lane_count < (size_t)fleet->options->connections; fleet->lane_count++) {
    struct lane *lane = &fleet->lanes[fleet->lane_count];
    lane->fleet = fleet;
    lane->connection = (struct sim_connection){
        .loop = fleet->loop, .target = target, .events = &lane_events, .context = lane, .watch = {.fd = -1}};
    lane->devices = calloc(fleet->batch, sizeof *lane->devices);
    if (lane->devices == NULL) return STATUS_NO_MEMORY;
  }
  return STATUS_OK;
}

enum status sim_fleet_new(struct loop *loop, const struct sim_options *options, const struct sim_url *url,
                          const struct sim_target *target, struct sim_fleet **out) {
  struct sim_fleet *fleet = calloc(1, sizeof *fleet);
  *out = NULL;
  if (fleet == NULL) return STATUS_NO_MEMORY;
  fleet->loop = loop;
  fleet->options = options;
  fleet->batch = options->batch > 0 ? (size_t)options->batch : 1;
  fleet->idle_end = &fleet->idle;
  fleet->turn = (struct loop_timer){.fire = on_turn, .context = fleet};
  fleet->progress = (struct loop_timer){.fire = on_progress, .context = fleet};
  fleet->started_us = read_clock(fleet);
  struct sim_schedule_plan plan = {.devices = options->devices,
                                   .interval_ms = options->interval_ms,
                                   .ttl_ms = options->ttl_ms > 0 ? options->ttl_ms : TTL_UNKNOWN_MS,
                                   .churn = options->churn,
                                   .seed = options->seed};
  enum status status = sim_schedule_new(&fleet->schedule, &plan, fleet->started_us);
  if (status == STATUS_OK) status = sim_request_form_new(&fleet->form, options, url);
  if (status == STATUS_OK) status = make_lanes(fleet, target);
  if (status == STATUS_OK)
    *out = fleet;
  else
    sim_fleet_free(fleet);
  return status;
}

void sim_fleet_free(struct sim_fleet *fleet) {
  if (fleet == NULL) return;
  loop_timer_cancel(fleet->loop, &fleet->turn);
  loop_timer_cancel(fleet->loop, &fleet->progress);
  for (size_t i = 0; fleet->lanes != NULL && i < (size_t)fleet->options->connections; i++) {
    struct lane *lane = &fleet->lanes[i];
    if (lane->connection.loop != NULL) sim_connection_close(&lane->connection);
    buf_free(&lane->request);
    free(lane->devices);
  }
  free(fleet->lanes);
  sim_schedule_free(&fleet->schedule);
  sim_request_form_free(&fleet->form);
  free(fleet);
}

void sim_fleet_start(struct sim_fleet *fleet) {
  for (size_t i = 0; i < fleet->lane_count; i++) sim_connection_open(&fleet->lanes[i].connection);
  loop_timer_set(fleet->loop, &fleet->progress, PROGRESS_US);
}

const struct sim_stats *sim_fleet_stats(const struct sim_fleet *fleet) { return &fleet->stats; }

struct sim_summary sim_fleet_summary(const struct sim_fleet *fleet) {
  int64_t now_us = read_clock(fleet);
  return (struct sim_summary){.seconds = (double)(now_us - fleet->started_us) / 1000000,
                              .online = sim_schedule_online(&fleet->schedule, now_us),
                              .missed = fleet->schedule.missed};
}
