/* api.c: the API loops. Set-up in order, one thread each, and the orderly stop:
 *
 *   RUNNING --api_stop, drain_ms with readyz saying no--> DRAINING --nobody connected, nothing in work--> UNLISTENING
 *      --Redis has taken our marks away, or can't--> the loop ends, and with it the thread */
#include "api.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "listener.h"
#include "log.h"
#include "server.h"

enum {
  CALL_TIMEOUT_MS = 2000,   /* a call to Redis */
  HEARTBEAT_WAIT_MS = 1000, /* a heartbeat for its turn */
  HEARTBEATS_MAX = 100000,  /* waiting in a loop */
  FILES_OTHER = 128,        /* descriptors that are no connections: sockets of Redis and PostgreSQL, epoll, log */
  FILES_PER_LOOP = 16,
  LISTENER_NAME_MAX = 96,
  CUT_SHARE = 2, /* of the time for a stop: half of it passes before connections are cut */
};

enum phase { RUNNING, DRAINING, UNLISTENING };

struct api_worker {
  struct api_loop public;
  struct loop_task not_ready, drain, cut; /* posted by api_stop */
  enum phase phase;
  pthread_t thread;
  bool started;
};

struct api {
  struct api_shared shared;
  struct listener listener;
  struct api_worker *workers;
  unsigned count;
  char address[LISTENER_TEXT_MAX];
};

/* ---- A loop's thread */

static void on_unlistened(void *context) {
  struct api_worker *worker = context;
  loop_stop(worker->public.loop);
}

static void unlisten(struct api_worker *worker) {
  worker->phase = UNLISTENING;
  if (worker->public.batcher == NULL) {
    on_unlistened(worker);
    return;
  }
  batcher_unlisten(worker->public.batcher, on_unlistened, worker);
  redis_link_flush(worker->public.link);
}

static int64_t sooner(int64_t a_us, int64_t b_us) { return a_us < 0 || (b_us >= 0 && b_us < a_us) ? b_us : a_us; }

static bool is_idle(const struct api_loop *api) {
  return http_server_is_idle(api->server) && (api->feed == NULL || event_feed_is_idle(api->feed));
}

/* Answers first: what they bring in goes out with this pass's heartbeats. */
static int64_t after_pass(void *context) {
  struct api_worker *worker = context;
  int64_t sleep_us = -1;
  http_server_run(worker->public.server);
  loop_read_clock(worker->public.loop); /* the answers have taken their time */
  if (worker->public.batcher != NULL) {
    batcher_expect(worker->public.batcher, http_server_may_hear(worker->public.server));
    sleep_us = batcher_after_pass(worker->public.batcher);
  }
  if (worker->phase == DRAINING && is_idle(&worker->public)) unlisten(worker);
  int64_t rest_us = 0;
  if (worker->phase == RUNNING && worker->public.batcher != NULL) rest_us = batcher_rest_us(worker->public.batcher);
  if (http_server_rest(worker->public.server, rest_us > 0)) return sooner(sleep_us, rest_us);
  return sooner(sleep_us, http_server_sleep_us(worker->public.server));
}

static void *run(void *context) {
  struct api_worker *worker = context;
  if (loop_run(worker->public.loop) != STATUS_OK) {
    log_error("loop_failed", LOG_INT("loop", worker->public.index), LOG_STR("reason", strerror(errno)));
    abort(); /* epoll itself is broken: nothing that this process could still do for anyone */
  }
  return NULL;
}

static void on_not_ready(struct loop_task *task) { ((struct api_worker *)task->context)->public.draining = true; }

static void on_drain(struct loop_task *task) {
  struct api_worker *worker = task->context;
  worker->phase = DRAINING;
  if (worker->public.feed != NULL) event_feed_drain(worker->public.feed);
  http_server_drain(worker->public.server);
}

static void on_cut(struct loop_task *task) { http_server_cut(((struct api_worker *)task->context)->public.server); }

/* ---- Set-up */

/* Unique among running loops: a loop of another process, also of one before us with our pid, must not share our marks. */
static enum status make_batcher(struct api_worker *worker) {
  const struct api_shared *shared = worker->public.shared;
  char host[64] = "host";
  char name[LISTENER_NAME_MAX];
  (void)gethostname(host, sizeof host - 1);
  int len = snprintf(name, sizeof name, "%s-%d-%llx-%u", host, (int)getpid(),
                     (unsigned long long)clock_monotonic_us(shared->clock), worker->public.index);
  struct batcher_options options = {
      .outage_ms = shared->config->outage_ms,
      .settle_ms = shared->config->settle_ms,
      .backlog_cap = shared->config->backlog_cap,
      .listener = {name, (size_t)len < sizeof name ? (size_t)len : sizeof name - 1},
      .queue_max = HEARTBEATS_MAX,
      .wait_max_ms = HEARTBEAT_WAIT_MS,
  };
  return batcher_new(shared->target, worker->public.link, worker->public.loop, &options, &worker->public.batcher);
}

static enum status make_server(struct api *api, struct api_worker *worker, size_t max_connections, char **error) {
  const struct config *config = api->shared.config;
  struct http_server_options options = {
      .api = &worker->public,
      .directory = api->shared.directory,
      .handlers = http_handlers,
      .only_operational = !api->shared.serve_api,
      .request_timeout_ms = config->request_timeout_ms,
      .idle_timeout_ms = config->idle_timeout_ms,
      .max_connections = max_connections,
      .cors_origin = config->cors_origin,
      .tls = config->tls_cert[0] != '\0',
  };
  if (listener_take(&api->listener, &options.listen_fd) != STATUS_OK) {
    if (asprintf(error, "listen %s: %s", api->address, strerror(errno)) < 0) *error = NULL;
    return STATUS_IO;
  }
  return http_server_new(&options, &worker->public.server, error);
}

static enum status make_worker(struct api *api, unsigned index, size_t max_connections, char **error) {
  struct api_worker *worker = &api->workers[index];
  worker->public.shared = &api->shared;
  worker->public.index = index;
  worker->not_ready = (struct loop_task){.run = on_not_ready, .context = worker};
  worker->drain = (struct loop_task){.run = on_drain, .context = worker};
  worker->cut = (struct loop_task){.run = on_cut, .context = worker};
  enum status status = loop_new(api->shared.clock, &worker->public.loop);
  if (status == STATUS_OK && api->shared.serve_api) {
    status = redis_link_new(api->shared.target, worker->public.loop, CALL_TIMEOUT_MS, &worker->public.link);
    if (status == STATUS_OK) status = make_batcher(worker);
    if (status == STATUS_OK)
      status = event_feed_new(api->shared.tailer, api->shared.pool, worker->public.loop, &worker->public.feed);
  }
  if (status == STATUS_OK) status = make_server(api, worker, max_connections, error);
  if (status == STATUS_OK) loop_set_after_pass(worker->public.loop, after_pass, worker);
  return status;
}

static unsigned count_loops(const struct api_shared *shared) {
  if (!shared->serve_api) return 1;
  if (shared->config->threads > 0) return (unsigned)shared->config->threads;
  cpu_set_t cores; /* those this process may use */
  CPU_ZERO(&cores);
  int count = sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
  return count > 0 ? (unsigned)count : 1;
}

/* Connections of one loop; the kernel spreads them evenly, not exactly, hence the margin. */
static size_t share_connections(const struct api *api) {
  int64_t wanted = api->shared.config->max_connections;
  int64_t fit = listener_raise_file_limit(wanted, FILES_OTHER + (int64_t)api->count * FILES_PER_LOOP);
  if (fit < wanted)
    log_warn("file_limit_low", LOG_INT("max_connections", wanted), LOG_INT("possible", fit),
             LOG_STR("remedy", "raise the limit of open files (ulimit -n, LimitNOFILE)"));
  return (size_t)(fit + api->count - 1) / api->count;
}

enum status api_new(const struct api_shared *shared, struct api **out, char **error) {
  *out = NULL;
  *error = NULL;
  struct api *api = calloc(1, sizeof *api);
  if (api == NULL) return STATUS_NO_MEMORY;
  api->shared = *shared;
  api->listener.fd = -1;
  api->count = count_loops(shared);
  api->workers = calloc(api->count, sizeof *api->workers);
  enum status status = api->workers != NULL ? STATUS_OK : STATUS_NO_MEMORY;
  if (status == STATUS_OK) status = listener_open(&api->listener, shared->config->listen, error);
  size_t max_connections = 0;
  if (status == STATUS_OK) {
    listener_format(&api->listener, api->address);
    max_connections = share_connections(api);
  }
  for (unsigned i = 0; i < api->count && status == STATUS_OK; i++) status = make_worker(api, i, max_connections, error);
  if (status != STATUS_OK) {
    api_free(api);
    return status;
  }
  *out = api;
  return STATUS_OK;
}

enum status api_start(struct api *api) {
  for (unsigned i = 0; i < api->count; i++) {
    struct api_worker *worker = &api->workers[i];
    if (pthread_create(&worker->thread, NULL, run, worker) != 0) return STATUS_NO_MEMORY;
    worker->started = true;
  }
  log_info("listening", LOG_INT("loops", api->count), LOG_STR("address", api->address));
  return STATUS_OK;
}

/* ---- Stop */

static void sleep_ms(int64_t ms) {
  struct timespec left = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000 * 1000000)};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

static bool try_join_all(struct api *api) {
  bool all = true;
  for (unsigned i = 0; i < api->count; i++) {
    struct api_worker *worker = &api->workers[i];
    if (worker->started && pthread_tryjoin_np(worker->thread, NULL) == 0) worker->started = false;
    all = all && !worker->started;
  }
  return all;
}

/* True when all threads have ended within limit_ms. pthread_timedjoin_np goes by the wall clock, which may step. */
static bool join_all(struct api *api, int64_t limit_ms) {
  int64_t until_ms = clock_monotonic_ms(clock_system()) + limit_ms;
  bool all = try_join_all(api);
  while (!all && clock_monotonic_ms(clock_system()) < until_ms) {
    sleep_ms(2);
    all = try_join_all(api);
  }
  return all;
}

static void post_all(struct api *api, size_t task_offset) {
  for (unsigned i = 0; i < api->count; i++)
    if (api->workers[i].started)
      loop_post(api->workers[i].public.loop, (struct loop_task *)(void *)((char *)&api->workers[i] + task_offset));
}

enum status api_stop(struct api *api, int64_t drain_ms, int64_t limit_ms) {
  post_all(api, offsetof(struct api_worker, not_ready));
  sleep_ms(drain_ms);
  post_all(api, offsetof(struct api_worker, drain));
  if (join_all(api, limit_ms / CUT_SHARE)) return STATUS_OK;
  post_all(api, offsetof(struct api_worker, cut));
  return join_all(api, limit_ms - limit_ms / CUT_SHARE) ? STATUS_OK : STATUS_TIMEOUT;
}

void api_free(struct api *api) {
  if (api == NULL) return;
  for (unsigned i = 0; i < api->count && api->workers != NULL; i++) {
    struct api_loop *public = &api->workers[i].public;
    batcher_free(public->batcher);
    redis_link_free(public->link);
    http_server_free(public->server);
    loop_free(public->loop);
    event_feed_free(public->feed);
  }
  listener_close(&api->listener);
  free(api->workers);
  free(api);
}
