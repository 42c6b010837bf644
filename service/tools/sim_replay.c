#include "sim_replay.h"

#include <stdio.h>
#include <stdlib.h>

#include "../../tests/support/timeshim.h" /* the clock file's form: presence-sim is a tool for tests */
#include "sim_request.h"
#include "sim_trace.h"

enum { RETRY_WAIT_US = 100000, RETRY_LIMIT_US = 60000000, REQUEST_LIMIT_US = 10000000, WATCH_US = 1000000 };

struct sim_replay {
  struct loop *loop;
  const struct sim_options *options;
  struct sim_connection connection;
  struct sim_request_form form;
  struct sim_trace *trace;
  struct timeshim *shim;    /* NULL: the trace is sent in (scaled) real time */
  struct buf node, request; /* of the message at hand */
  int64_t message_ms;       /* time of the message at hand */
  int64_t begun_us;         /* when it was first sent; 0: not yet */
  int64_t started_us;       /* when the first message of all was at hand */
  struct loop_timer pause, watchdog;
  bool over;
  struct sim_replay_result result;
  char failure[256];
};

static int64_t read_clock(const struct sim_replay *replay) { return clock_monotonic_us(loop_clock(replay->loop)); }

static void stop(struct sim_replay *replay, const char *failure) {
  if (failure != NULL) {
    snprintf(replay->failure, sizeof replay->failure, "%s", failure);
    replay->result.failure = replay->failure;
  }
  replay->over = true;
  loop_stop(replay->loop);
}

/* Sends the message at hand, where the connection is ready; on_ready does it otherwise. */
static void send_message(struct sim_replay *replay) {
  if (replay->over || replay->connection.state != SIM_IDLE || replay->pause.armed) return;
  int64_t now_us = read_clock(replay);
  if (replay->begun_us == 0) replay->begun_us = now_us;
  if (replay->shim != NULL) timeshim_fix(replay->shim, replay->message_ms);
  sim_connection_send(&replay->connection, buf_str(&replay->request), now_us);
}

/* Without a clock file messages keep the trace's distances, divided by the speed. */
static int64_t wait_of(const struct sim_replay *replay) {
  if (replay->shim != NULL) return 0;
  int64_t due_us = replay->started_us + (replay->message_ms - replay->result.first_ms) * 1000 / replay->options->speed;
  return due_us - read_clock(replay);
}

static void next_message(struct sim_replay *replay) {
  struct sim_message message;
  char *error = NULL;
  enum status status = sim_trace_next(replay->trace, &message, &error);
  if (status == STATUS_NOT_FOUND) {
    stop(replay, NULL);
    return;
  }
  buf_clear(&replay->node);
  if (status == STATUS_OK) status = buf_append_str(&replay->node, message.node);
  if (status == STATUS_OK) status = sim_request_named(&replay->form, message.node, &replay->request);
  if (status != STATUS_OK) {
    stop(replay, error != NULL ? error : status_name(status));
    free(error);
    return;
  }
  replay->message_ms = message.time_ms;
  replay->begun_us = 0;
  if (replay->started_us == 0) {
    replay->started_us = read_clock(replay);
    replay->result.first_ms = message.time_ms;
  }
  int64_t wait_us = wait_of(replay);
  if (wait_us > 0)
    loop_timer_set(replay->loop, &replay->pause, wait_us);
  else
    send_message(replay);
}

/* A heartbeat may be repeated: at the same frozen time it means the same. */
static void try_again(struct sim_replay *replay, const char *why) {
  if (replay->begun_us != 0 && read_clock(replay) - replay->begun_us > RETRY_LIMIT_US) {
    stop(replay, why);
    return;
  }
  replay->result.retries++;
  loop_timer_set(replay->loop, &replay->pause, RETRY_WAIT_US);
}

static void on_answered(struct sim_connection *connection, const struct sim_answer *answer) {
  struct sim_replay *replay = connection->context;
  if (answer->status >= 200 && answer->status < 300) {
    replay->result.messages++;
    replay->result.last_ms = replay->message_ms;
    next_message(replay);
    return;
  }
  char why[sizeof replay->failure];
  snprintf(why, sizeof why, "node %.*s: %d %.*s", STR_ARG(buf_str(&replay->node)), answer->status, STR_ARG(answer->body));
  if (answer->status == 429 || answer->status >= 500)
    try_again(replay, why);
  else
    stop(replay, why);
}

static void on_ready(struct sim_connection *connection) { send_message(connection->context); }

static void on_failed(struct sim_connection *connection, const char *reason, bool lost) {
  struct sim_replay *replay = connection->context;
  (void)lost;
  if (!replay->pause.armed) try_again(replay, reason);
}

static const struct sim_events replay_events = {.ready = on_ready, .answered = on_answered, .failed = on_failed};

static void on_pause_over(struct loop_timer *timer) { send_message(timer->context); }

static void on_watch(struct loop_timer *timer) {
  struct sim_replay *replay = timer->context;
  sim_connection_check(&replay->connection, read_clock(replay), REQUEST_LIMIT_US);
  loop_timer_set(replay->loop, &replay->watchdog, WATCH_US);
}

enum status sim_replay_new(struct loop *loop, const struct sim_options *options, const struct sim_url *url,
                           const struct sim_target *target, struct sim_replay **out, char **error) {
  struct sim_replay *replay = calloc(1, sizeof *replay);
  *out = NULL;
  *error = NULL;
  if (replay == NULL) return STATUS_NO_MEMORY;
  replay->loop = loop;
  replay->options = options;
  replay->pause = (struct loop_timer){.fire = on_pause_over, .context = replay};
  replay->watchdog = (struct loop_timer){.fire = on_watch, .context = replay};
  replay->connection =
      (struct sim_connection){.loop = loop, .target = target, .events = &replay_events, .context = replay, .watch = {.fd = -1}};
  enum status status = sim_trace_open(options->file, options->column_time, options->column_node, &replay->trace, error);
  if (status == STATUS_OK) status = sim_request_form_new(&replay->form, options, url);
  if (status == STATUS_OK && options->timeshim[0] != '\0') {
    replay->shim = timeshim_open(options->timeshim);
    if (replay->shim == NULL) {
      *error = strdup("--timeshim: the file cannot be opened");
      status = *error != NULL ? STATUS_INVALID : STATUS_NO_MEMORY;
    }
  }
  if (status == STATUS_OK)
    *out = replay;
  else
    sim_replay_free(replay);
  return status;
}

void sim_replay_free(struct sim_replay *replay) {
  if (replay == NULL) return;
  loop_timer_cancel(replay->loop, &replay->pause);
  loop_timer_cancel(replay->loop, &replay->watchdog);
  sim_connection_close(&replay->connection);
  sim_request_form_free(&replay->form);
  sim_trace_close(replay->trace);
  if (replay->shim != NULL) timeshim_close(replay->shim); /* the clock stays where it is */
  buf_free(&replay->node);
  buf_free(&replay->request);
  free(replay);
}

void sim_replay_start(struct sim_replay *replay) {
  loop_timer_set(replay->loop, &replay->watchdog, WATCH_US);
  sim_connection_open(&replay->connection);
  next_message(replay);
}

struct sim_replay_result sim_replay_result(const struct sim_replay *replay) {
  return replay->result;
}
