#include "support/test.h"

#include "support/http_stand.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "api.h"
#include "directory/snapshot.h"
#include "http/listener.h"
#include "http/server_state.h"
#include "support/alloc_fail.h"

struct http_stand {
  struct api_shared shared;
  struct api_loop api;
  struct http_server *server;
  pthread_t thread;
  char address[LISTENER_TEXT_MAX];
  atomic_bool hold;
  atomic_size_t held;
  bool draining;
};

static struct http_stand *stand_of(const struct request *request) {
  return (struct http_stand *)(void *)((char *)request->api - offsetof(struct http_stand, api));
}

/* ---- Handlers */

struct held {
  struct loop_timer timer;
  struct request *request;
};

static void look_again(struct loop_timer *timer) {
  struct held *held = timer->context;
  struct http_stand *stand = stand_of(held->request);
  if (atomic_load(&stand->hold)) {
    loop_timer_set(held->request->api->loop, timer, 2000);
    return;
  }
  atomic_fetch_sub(&stand->held, 1);
  reply_empty(held->request, 204);
}

static void answer_later(struct request *request) {
  struct held *held = request_alloc(request, sizeof *held);
  assert_non_null(held);
  *held = (struct held){.timer = {.fire = look_again, .context = held}, .request = request};
  atomic_fetch_add(&stand_of(request)->held, 1);
  loop_timer_set(request->api->loop, &held->timer, 1000);
}

static void answer_now(struct request *request) { reply_empty(request, 204); }

static void answer_sum(struct request *request) {
  struct buf body = {0};
  unsigned long sum = 0;
  for (size_t i = 0; i < request->body.len; i++) sum += (unsigned char)request->body.data[i];
  if (buf_printf(&body, "{\"length\":%zu,\"sum\":%lu}", request->body.len, sum) != STATUS_OK) abort();
  reply_json(request, 200, &body);
}

static void answer_ids(struct request *request) {
  struct buf body = {0};
  struct str query = STR_NONE;
  bool asked = request_query(request, "q", &query);
  enum status status = buf_append_str(&body, STR_LIT("{\"tenant\":"));
  if (status == STATUS_OK) status = buf_append_json_string(&body, request->tenant.id);
  if (status == STATUS_OK) status = buf_append_str(&body, STR_LIT(",\"device\":"));
  if (status == STATUS_OK) status = buf_append_json_string(&body, request->device);
  if (status == STATUS_OK) status = buf_append_str(&body, STR_LIT(",\"query\":"));
  if (status == STATUS_OK) status = asked ? buf_append_json_string(&body, query) : buf_append_str(&body, STR_LIT("null"));
  if (status == STATUS_OK) status = buf_append_str(&body, STR_LIT("}"));
  if (status != STATUS_OK) abort();
  reply_json(request, 200, &body);
}

static void answer_word(struct request *request) {
  struct buf body = {0};
  if (buf_append_str(&body, STR_LIT("{\"ok\":true}")) != STATUS_OK) abort();
  reply_json(request, request->route == ROUTE_HEALTHZ ? 200 : 503, &body);
}

static http_handler *const handlers[ROUTE_COUNT] = {
    [ROUTE_HEARTBEAT] = answer_now,   [ROUTE_HEARTBEATS] = answer_sum, [ROUTE_DISCONNECT] = answer_later,
    [ROUTE_DEVICE] = answer_ids,      [ROUTE_HEALTHZ] = answer_word,   [ROUTE_READYZ] = answer_word,
    [ROUTE_METRICS] = handle_metrics, [ROUTE_PAGE] = handle_page,      [ROUTE_ASSET] = handle_asset,
};

/* ---- A directory made by hand */

static void must(enum status status) { assert_string_equal(status_name(status), "ok"); }

static void add_tenant(struct directory_snapshot *snapshot, const char *id) {
  struct tenant tenant = {.id = str_from(id), .generation = 1, .buckets = 4, .default_ttl_ms = 90000, .max_ttl_ms = 1000000};
  must(snapshot_add_tenant(snapshot, &tenant));
}

static void add_token(struct directory_snapshot *snapshot, const char *secret, const char *tenant, unsigned scopes,
                      int64_t expires_ms, bool revoked) {
  struct token token = {.tenant_id = str_from(tenant), .scopes = scopes, .expires_ms = expires_ms, .revoked = revoked};
  must(hash_sha256(str_from(secret), token.sha256));
  must(snapshot_add_token(snapshot, &token));
}

static struct directory *make_directory(void) {
  struct directory *directory = NULL;
  struct directory_snapshot *snapshot = NULL;
  must(directory_new("host=/nowhere", clock_system(), &directory));
  must(snapshot_new(1, &snapshot));
  add_tenant(snapshot, "t");
  add_tenant(snapshot, "other");
  add_token(snapshot, DEVICE_TOKEN, "t", SCOPE_DEVICE, INT64_MAX, false);
  add_token(snapshot, READ_TOKEN, "t", SCOPE_READ, INT64_MAX, false);
  add_token(snapshot, OTHER_TOKEN, "other", SCOPE_DEVICE | SCOPE_READ | SCOPE_EVENTS, INT64_MAX, false);
  add_token(snapshot, ADMIN_TOKEN, "", SCOPE_ADMIN, INT64_MAX, false);
  add_token(snapshot, REVOKED_TOKEN, "t", SCOPE_DEVICE, INT64_MAX, true);
  add_token(snapshot, EXPIRED_TOKEN, "t", SCOPE_DEVICE, 1, false);
  must(snapshot_finish(snapshot));
  directory_publish(directory, snapshot);
  return directory;
}

/* ---- The loop */

static int64_t after_pass(void *context) {
  struct http_stand *stand = context;
  http_server_run(stand->server);
  if (stand->draining && http_server_is_idle(stand->server)) loop_stop(stand->api.loop);
  return http_server_sleep_us(stand->server);
}

static void *run(void *context) {
  struct http_stand *stand = context;
  must(loop_run(stand->api.loop));
  return NULL;
}

struct http_stand *http_stand_start(const struct http_stand_options *given) {
  struct http_stand_options options = given != NULL ? *given : (struct http_stand_options){0};
  struct http_stand *stand = calloc(1, sizeof *stand);
  assert_non_null(stand);
  atomic_init(&stand->hold, true);
  must(loop_new(clock_system(), &stand->api.loop));
  stand->shared = (struct api_shared){.clock = clock_system(), .directory = make_directory()};
  stand->api.shared = &stand->shared;

  struct listener listener;
  char *error = NULL;
  if (listener_open(&listener, options.address != NULL ? options.address : "127.0.0.1:0", &error) != STATUS_OK)
    fail_msg("%s", error);
  listener_format(&listener, stand->address);
  struct http_server_options server = {
      .api = &stand->api,
      .directory = stand->shared.directory,
      .handlers = handlers,
      .only_operational = options.only_operational,
      .request_timeout_ms = options.request_timeout_ms > 0 ? options.request_timeout_ms : 10000,
      .idle_timeout_ms = options.idle_timeout_ms > 0 ? options.idle_timeout_ms : 75000,
      .max_connections = options.max_connections > 0 ? options.max_connections : 1000,
      .cors_origin = options.cors_origin != NULL ? options.cors_origin : "",
      .tls = options.tls,
  };
  must(listener_take(&listener, &server.listen_fd));
  must(http_server_new(&server, &stand->server, &error));
  loop_set_after_pass(stand->api.loop, after_pass, stand);
  assert_int_equal(pthread_create(&stand->thread, NULL, run, stand), 0);
  return stand;
}

const char *http_stand_address(const struct http_stand *stand) { return stand->address; }
void http_stand_hold(struct http_stand *stand, bool on) { atomic_store(&stand->hold, on); }
size_t http_stand_held(struct http_stand *stand) { return atomic_load(&stand->held); }

/* Something done on the loop's thread, waited for. */
struct errand {
  struct loop_task task;
  struct http_stand *stand;
  void (*run)(struct errand *errand);
  size_t result;
  atomic_bool done;
};

static void run_errand(struct loop_task *task) {
  struct errand *errand = task->context;
  errand->run(errand);
  atomic_store(&errand->done, true);
}

static size_t send_errand(struct http_stand *stand, void (*what)(struct errand *errand)) {
  struct errand errand = {.task = {.run = run_errand, .context = &errand}, .stand = stand, .run = what};
  loop_post(stand->api.loop, &errand.task);
  WAIT_UNTIL(atomic_load(&errand.done), 10000);
  return errand.result;
}

static void count_connections(struct errand *errand) { errand->result = errand->stand->server->connections.count; }
static void count_requests(struct errand *errand) { errand->result = errand->stand->server->requests_alive; }
static void count_allocations(struct errand *errand) { errand->result = (size_t)alloc_count(); }
static void drain(struct errand *errand) {
  http_server_drain(errand->stand->server);
  errand->stand->draining = true;
}

size_t http_stand_connections(struct http_stand *stand) { return send_errand(stand, count_connections); }
size_t http_stand_allocations(struct http_stand *stand) { return send_errand(stand, count_allocations); }
size_t http_stand_requests(struct http_stand *stand) { return send_errand(stand, count_requests); }

void http_stand_drain(struct http_stand *stand) {
  if (!stand->draining) (void)send_errand(stand, drain);
}

static void cut(struct loop_task *task) { http_server_cut(task->context); }

void http_stand_stop(struct http_stand *stand, int64_t cut_ms) {
  int64_t limit_ms = wait_now_ms() + cut_ms;
  struct loop_task task = {.run = cut, .context = stand->server};
  bool cut_sent = false;
  http_stand_hold(stand, false);
  http_stand_drain(stand);
  int64_t end_ms = wait_now_ms() + wait_limit_ms(15000);
  while (pthread_tryjoin_np(stand->thread, NULL) != 0) {
    if (!cut_sent && wait_now_ms() >= limit_ms) {
      loop_post(stand->api.loop, &task);
      cut_sent = true;
    }
    if (wait_now_ms() > end_ms) fail_msg("the server does not end");
    wait_pause();
  }
  assert_true(http_server_is_idle(stand->server));
  http_server_free(stand->server);
  loop_free(stand->api.loop);
  directory_free(stand->shared.directory);
  free(stand);
}
