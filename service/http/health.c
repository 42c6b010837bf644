/* health.c: GET /healthz, /readyz and /metrics. */
#include "api.h"
#include "http.h"
#include "metrics.h"
#include "worker.h"

enum { TICK_RECENT_US = 5000000 };

void handle_healthz(struct request *request) {
  struct buf body = {0};
  if (buf_append_str(&body, STR_LIT("{\"status\":\"alive\"}\n")) != STATUS_OK) {
    reply_status(request, STATUS_NO_MEMORY);
    return;
  }
  reply_json(request, 200, &body);
}

struct readiness {
  const char *listening, *redis, *postgres, *worker;
  bool ready;
};

/* Do all partitions of this one's server hear? */
static bool server_hears(const struct api_loop *api, uint32_t partition, uint32_t partitions) {
  const char *server = redis_link_server(api->link, partition);
  for (uint32_t p = 0; p < partitions; p++) {
    if (redis_link_server(api->link, p) == server && !batcher_hears(api->batcher, p)) return false;
  }
  return server != NULL;
}

/* The first partition of its server? */
static bool leads(const struct api_loop *api, uint32_t partition) {
  for (uint32_t p = 0; p < partition; p++) {
    if (redis_link_server(api->link, p) == redis_link_server(api->link, partition)) return false;
  }
  return true;
}

/* "ok"; "degraded": some servers of several; "unavailable". A server that is away is its own devices' outage, not everybody's. */
static const char *look_at_redis(const struct api_loop *api) {
  uint32_t partitions = redis_target_partitions(api->shared->target);
  size_t servers = 0, hearing = 0;
  for (uint32_t p = 0; p < partitions; p++) {
    if (!leads(api, p)) continue;
    servers++;
    hearing += server_hears(api, p, partitions);
  }
  return hearing == 0 ? "unavailable" : hearing < servers ? "degraded" : "ok";
}

/* Redis as the part sees it that this process needs it for: the API's heartbeats, else the worker's rounds. */
static void look(const struct api_loop *api, struct readiness *readiness) {
  const struct api_shared *shared = api->shared;
  const char *redis = "ok";
  bool ticking = true;
  if (shared->worker != NULL) {
    struct worker_health health;
    worker_health(shared->worker, &health);
    ticking = health.detector_us != 0 && clock_monotonic_us(shared->clock) - health.detector_us < TICK_RECENT_US;
    redis = health.redis_up ? "ok" : "unavailable";
  }
  if (api->batcher != NULL) redis = look_at_redis(api);
  *readiness = (struct readiness){
      .listening = api->draining ? "draining" : "ok",
      .redis = redis,
      .postgres = directory_is_up(shared->directory) ? "ok" : "degraded",
      .worker = shared->worker == NULL ? "none"
                : ticking              ? "ok"
                                       : "stalled",
      .ready = strcmp(redis, "unavailable") != 0 && ticking && !api->draining,
  };
}

/* The servers of a cluster by name, with what they are for this loop; nothing where there is only one. */
static enum status append_servers(const struct api_loop *api, struct buf *body) {
  uint32_t partitions = redis_target_partitions(api->shared->target);
  bool several = false;
  for (uint32_t p = 1; p < partitions && api->batcher != NULL && !several; p++) several = leads(api, p);
  if (!several) return STATUS_OK;
  enum status status = buf_append_str(body, STR_LIT(",\"redis_servers\":["));
  for (uint32_t p = 0; p < partitions && status == STATUS_OK; p++) {
    if (!leads(api, p)) continue;
    const char *address = redis_link_server(api->link, p);
    status = buf_printf(body, "%s{\"address\":", p > 0 ? "," : "");
    if (status == STATUS_OK)
      status = address ? buf_append_json_string(body, str_from(address)) : buf_append_str(body, STR_LIT("null"));
    if (status == STATUS_OK) {
      status = buf_printf(body, ",\"state\":\"%s\"}", server_hears(api, p, partitions) ? "ok" : "unavailable");
    }
  }
  return status == STATUS_OK ? buf_append_str(body, STR_LIT("]")) : status;
}

void handle_readyz(struct request *request) {
  struct readiness readiness;
  struct buf body = {0};
  look(request->api, &readiness);
  enum status status =
      buf_printf(&body, "{\"ready\":%s,\"listening\":\"%s\",\"redis\":\"%s\",\"postgres\":\"%s\",\"worker\":\"%s\"",
                 readiness.ready ? "true" : "false", readiness.listening, readiness.redis, readiness.postgres, readiness.worker);
  if (status == STATUS_OK) status = append_servers(request->api, &body);
  const char *loses = request->api->shared->redis_loses;
  if (status == STATUS_OK && loses != NULL) status = buf_printf(&body, ",\"redis_persistence\":\"%s\"", loses);
  if (status == STATUS_OK) status = buf_append_str(&body, STR_LIT("}\n"));
  if (status != STATUS_OK) {
    buf_free(&body);
    reply_status(request, STATUS_NO_MEMORY);
    return;
  }
  reply_json(request, readiness.ready ? 200 : 503, &body);
}

void handle_metrics(struct request *request) {
  struct buf body = {0};
  enum status status = metrics_render(&body);
  if (status != STATUS_OK) {
    buf_free(&body);
    reply_status(request, status);
    return;
  }
  reply_text(request, 200, "text/plain; version=0.0.4; charset=utf-8", &body);
}
