/* app.c: set-up in order, tear-down in reverse.
 *
 *   certificate -> redis_target -> PostgreSQL fits? -> Redis fits? -> directory -> pg_pool -> worker -> event_tailer -> api
 *
 * The main thread only waits for a signal, and looks after the certificate; loops, pool, directory and worker have threads of
 * their own. */
#include "app.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "api.h"
#include "certificate.h"
#include "events.h"
#include "log.h"
#include "metrics.h"
#include "notify.h"
#include "outbox.h"
#include "rate_limit.h"
#include "version.h"
#include "worker.h"

#define POOL_THREADS 4
#define POOL_QUEUE_MAX 4096
#define CHECK_TIMEOUT_MS 2000
#define RETRY_MS 50
#define CERTIFICATE_LOOK_S 1
/* After SIGTERM, together under the five seconds that are promised. */
#define API_STOP_MS 2500
#define WORKER_STOP_MS 1800
#define STOP_LIMIT_MS 4700

struct app {
  const struct config *config;
  const struct clock *clock;
  int64_t wait_until_us;           /* how long the start waits for servers */
  struct certificate *certificate; /* NULL: plain HTTP */
  struct redis_target *target;
  const char *redis_loses; /* as in api_shared */
  struct directory *directory;
  struct pg_pool *pool;
  struct rate_limiter *rate_limiter;
  struct worker *worker;       /* NULL without the role */
  struct event_tailer *tailer; /* NULL without the role api */
  struct api_shared shared;
  struct api *api;
};

/* ---- signals */

static sigset_t end_signals(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, SIGINT);
  return set;
}

void app_block_signals(void) {
  sigset_t set = end_signals();
  sigaddset(&set, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &set, NULL);
  signal(SIGPIPE, SIG_IGN);
}

/* Waits for a signal, at most so long; true when one came. */
static bool signal_within(int64_t wait_ms) {
  sigset_t set = end_signals();
  struct timespec limit = {.tv_sec = (time_t)(wait_ms / 1000), .tv_nsec = (long)(wait_ms % 1000) * 1000000};
  return sigtimedwait(&set, NULL, &limit) > 0;
}

/* SIGHUP, or files that changed: the certificate is loaded again. */
static int serve_until_signal(struct app *app) {
  sigset_t set = end_signals();
  sigaddset(&set, SIGHUP);
  for (;;) {
    struct timespec look = {.tv_sec = CERTIFICATE_LOOK_S};
    int number = app->certificate != NULL ? sigtimedwait(&set, NULL, &look) : sigwaitinfo(&set, NULL);
    if (number == SIGTERM || number == SIGINT) return number;
    if (app->certificate != NULL) certificate_look(app->certificate, number == SIGHUP);
  }
}

static void end_now(int number) {
  (void)number;
  _exit(EXIT_SUCCESS);
}

/* From now on a second signal ends the process at once, and the promised limit ends it whatever a thread is waiting for: all that
 * must last is in Redis and PostgreSQL. */
static void limit_stop(int64_t limit_ms) {
  sigset_t set = end_signals();
  struct itimerval timer = {.it_value = {.tv_sec = (time_t)(limit_ms / 1000), .tv_usec = (suseconds_t)(limit_ms % 1000) * 1000}};
  signal(SIGTERM, SIG_DFL);
  signal(SIGINT, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &set, NULL);
  signal(SIGALRM, end_now);
  setitimer(ITIMER_REAL, &timer, NULL);
}

/* ---- set-up */

static int64_t wait_left_ms(const struct app *app) {
  int64_t left_us = app->wait_until_us - clock_monotonic_us(app->clock);
  return left_us > 0 ? left_us / 1000 : 0;
}

static char *format_unreachable(const struct app *app, const char *server, const char *reason) {
  char *text = NULL;
  if (asprintf(&text, "cannot reach %s within %lld ms: %s", server, (long long)app->config->startup_wait_ms, reason) < 0)
    text = NULL;
  return text;
}

static bool may_come_up(enum status status) {
  return status == STATUS_UNAVAILABLE || status == STATUS_CLOSED || status == STATUS_TIMEOUT;
}

static enum status check_postgres(struct app *app, char **error) {
  struct pg_client *client = NULL;
  enum status status = pg_client_new(app->config->postgres_url, "presence start", app->clock, &client);
  if (status == STATUS_INVALID) *error = strdup("postgres-url is no connection string of PostgreSQL");
  if (status != STATUS_OK) return status;
  for (;;) {
    status = outbox_check_deployment(client, app->config->partitions, error);
    if (!may_come_up(status) || wait_left_ms(app) == 0) break;
    if (signal_within(RETRY_MS)) {
      status = STATUS_CLOSED;
      goto out;
    }
  }
  if (may_come_up(status)) {
    *error = format_unreachable(app, "PostgreSQL", pg_client_error(client));
    status = STATUS_UNAVAILABLE;
  }
out:
  pg_client_free(client);
  return status;
}

/* Waits until all servers can be reached. Some are enough: the partitions of the others are away until they come. */
static enum status reach_redis(struct app *app, struct redis_conn *conn, char **error) {
  size_t away;
  while ((away = redis_conn_reach_all(conn)) > 0 && wait_left_ms(app) > 0) {
    if (signal_within(RETRY_MS)) return STATUS_CLOSED;
  }
  if (away == (size_t)app->config->partitions) {
    *error = format_unreachable(app, "Redis", redis_conn_error(conn));
    return STATUS_UNAVAILABLE;
  }
  if (away > 0) log_warn("redis_partly_away", LOG_INT("partitions", away), LOG_STR("error", redis_conn_error(conn)));
  return STATUS_OK;
}

static enum status check_redis(struct app *app, char **error) {
  struct redis_conn *conn = NULL;
  enum status status = redis_conn_new(app->target, app->clock, CHECK_TIMEOUT_MS, &conn);
  if (status != STATUS_OK) return status;
  status = reach_redis(app, conn, error);
  if (status != STATUS_OK) goto out;
  status = redis_conn_check_servers(conn, &app->redis_loses, error);
  if (may_come_up(status)) status = STATUS_OK; /* that one is not checked */
  if (status == STATUS_OK) {
    const char *dialect = redis_dialect_name(redis_conn_dialect(conn));
    metric_set(metrics_series(METRIC_BUILD_INFO, PRESENCE_VERSION, dialect), 1);
    log_info("starting", LOG_STR("version", PRESENCE_VERSION), LOG_STR("redis_mode", dialect),
             LOG_INT("partitions", app->config->partitions));
  }
out:
  redis_conn_free(conn);
  return status;
}

static enum status start_directory(struct app *app, char **error) {
  enum status status = directory_new(app->config->postgres_url, app->clock, &app->directory);
  if (status != STATUS_OK) return status;
  int64_t wait_ms = wait_left_ms(app);
  status = directory_start(app->directory, wait_ms > CHECK_TIMEOUT_MS ? wait_ms : CHECK_TIMEOUT_MS);
  if (status == STATUS_UNAVAILABLE) {
    *error = format_unreachable(app, "PostgreSQL", "tenants and tokens could not be read");
  }
  return status;
}

static enum status set_up(struct app *app, char **error) {
  const struct config *config = app->config;
  enum status status = STATUS_OK;
  if (config->tls_cert[0] != '\0')
    status = certificate_new(config->tls_cert, config->tls_key, config->request_timeout_ms, app->clock, &app->certificate, error);
  if (status != STATUS_OK) return status;
  status = redis_target_new(config, &app->target, error);
  if (status != STATUS_OK) return status;
  status = check_postgres(app, error);
  if (status != STATUS_OK) return status;
  status = check_redis(app, error);
  if (status != STATUS_OK) return status;
  status = start_directory(app, error);
  if (status != STATUS_OK) return status;
  status = pg_pool_new(config->postgres_url, POOL_THREADS, POOL_QUEUE_MAX, app->clock, &app->pool);
  if (status != STATUS_OK) return status;
  status = rate_limiter_new(&app->rate_limiter);
  if (status != STATUS_OK) return status;
  if (config->roles & CONFIG_ROLE_WORKER) {
    status = worker_new(config, app->target, app->clock, &app->worker);
    if (status != STATUS_OK) return status;
  }
  if (config->roles & CONFIG_ROLE_API) {
    status = event_tailer_new(config->postgres_url, app->clock, &app->tailer);
    if (status != STATUS_OK) return status;
  }
  app->shared = (struct api_shared){
      .config = config,
      .clock = app->clock,
      .target = app->target,
      .directory = app->directory,
      .pool = app->pool,
      .tailer = app->tailer,
      .rate_limiter = app->rate_limiter,
      .worker = app->worker,
      .redis_loses = app->redis_loses,
      .serve_api = (config->roles & CONFIG_ROLE_API) != 0,
  };
  return api_new(&app->shared, &app->api, error);
}

enum status app_new(const struct config *config, struct app **app, char **error) {
  *app = NULL;
  struct app *self = calloc(1, sizeof *self);
  if (self == NULL) return STATUS_NO_MEMORY;
  self->config = config;
  self->clock = clock_system();
  self->wait_until_us = clock_monotonic_us(self->clock) + config->startup_wait_ms * 1000;
  enum status status = set_up(self, error);
  if (status != STATUS_OK) {
    app_free(self);
    return status;
  }
  *app = self;
  return STATUS_OK;
}

/* Nothing here runs threads any more, see stop. */
void app_free(struct app *app) {
  if (app == NULL) return;
  if (app->directory != NULL) directory_stop(app->directory);
  if (app->pool != NULL) pg_pool_stop(app->pool);
  if (app->tailer != NULL) event_tailer_stop(app->tailer);
  api_free(app->api);
  event_tailer_free(app->tailer);
  worker_free(app->worker);
  rate_limiter_free(app->rate_limiter);
  pg_pool_free(app->pool);
  directory_free(app->directory);
  redis_target_free(app->target);
  certificate_free(app->certificate);
  free(app);
}

/* ---- service */

/* The API first: what is in flight is still answered with everything in place. */
static void stop(struct app *app, bool api_started, int exit_code) {
  enum status status = api_started ? api_stop(app->api, app->config->drain_ms, API_STOP_MS) : STATUS_OK;
  enum status worker_status = app->worker != NULL ? worker_stop(app->worker, WORKER_STOP_MS) : STATUS_OK;
  if (status == STATUS_OK) status = worker_status;
  log_info("stopped", LOG_STR("status", status_name(status)));
  if (status != STATUS_OK) _exit(exit_code); /* a thread still uses what app_free would free */
}

enum status app_run(struct app *app, char **error) {
  bool api_started = false;
  enum status status = app->worker != NULL ? worker_start(app->worker) : STATUS_OK;
  if (status == STATUS_OK && app->tailer != NULL) status = event_tailer_start(app->tailer);
  if (status == STATUS_OK) {
    status = api_start(app->api);
    api_started = true; /* some of its threads, where it failed */
  }
  if (status == STATUS_OK) {
    notify_service_manager("READY=1");
    int number = serve_until_signal(app);
    notify_service_manager("STOPPING=1");
    log_info("stopping", LOG_STR("signal", number == SIGINT ? "SIGINT" : "SIGTERM"));
  } else if (asprintf(error, "cannot start threads: %s", status_name(status)) < 0) {
    *error = NULL;
  }
  limit_stop(app->config->drain_ms + STOP_LIMIT_MS);
  stop(app, api_started, status == STATUS_OK ? EXIT_SUCCESS : EXIT_FAILURE);
  return status;
}
