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

/* Redis as the part sees it that this process needs it for: the API's heartbeats, else the worker's rounds. */
static void look(const struct api_loop *api, struct readiness *readiness) {
  const struct api_shared *shared = api->shared;
  bool redis_up = true;
  bool ticking = true;
  if (shared->worker != NULL) {
    struct worker_health health;
    worker_health(shared->worker, &health);
    ticking = health.detector_us != 0 && clock_monotonic_us(shared->clock) - health.detector_us < TICK_RECENT_US;
    redis_up = health.redis_up;
  }
  if (api->batcher != NULL) redis_up = batcher_is_hearing(api->batcher);
  *readiness = (struct readiness){
      .listening = api->draining ? "draining" : "ok",
      .redis = redis_up ? "ok" : "unavailable",
      .postgres = directory_is_up(shared->directory) ? "ok" : "degraded",
      .worker = shared->worker == NULL ? "none"
                : ticking              ? "ok"
                                       : "stalled",
      .ready = redis_up && ticking && !api->draining,
  };
}

void handle_readyz(struct request *request) {
  struct readiness readiness;
  struct buf body = {0};
  look(request->api, &readiness);
  if (buf_printf(&body, "{\"ready\":%s,\"listening\":\"%s\",\"redis\":\"%s\",\"postgres\":\"%s\",\"worker\":\"%s\"}\n",
                 readiness.ready ? "true" : "false", readiness.listening, readiness.redis, readiness.postgres,
                 readiness.worker) != STATUS_OK) {
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
