/* POST /v1/tenants/{t}/counts/recalibrate
 *
 * One partition after the other and one call at a time, so that a large tenant's keys never crowd the loop or Redis. */
#include "api.h"
#include "counts.h"
#include "device.h"
#include "json_scan.h"
#include "tenant_reload.h"

struct recalibrate {
  struct tenant_reload reload;
  struct request *request;
  struct redis_call *call;
  struct recalibration work;
  bool reloaded;
};

static void begin(struct recalibrate *recalibrate);

static void finish(struct recalibrate *recalibrate, enum status status) {
  redis_call_free(recalibrate->call);
  recalibrate->call = NULL;
  struct buf body = {0};
  const struct recalibration *work = &recalibrate->work;
  if (status == STATUS_OK) {
    recalibration_report(work);
    status = buf_printf(&body, "{\"before\":%lld,\"after\":%lld,\"drift\":%lld}\n", (long long)work->before,
                        (long long)work->after, (long long)(work->before - work->after));
  }
  if (status == STATUS_OK) {
    reply_json(recalibrate->request, 200, &body);
    return;
  }
  buf_free(&body);
  if (status == STATUS_NOT_FOUND)
    tenant_reply_gone(recalibrate->request);
  else
    reply_status(recalibrate->request, status);
}

static void reloaded(struct tenant_reload *reload, enum status status) {
  struct recalibrate *recalibrate = (struct recalibrate *)reload; /* its first member */
  if (status == STATUS_OK)
    begin(recalibrate);
  else
    finish(recalibrate, status);
}

static void reload_settings(struct recalibrate *recalibrate) {
  _Static_assert(offsetof(struct recalibrate, reload) == 0, "reloaded() casts");
  enum status status = STATUS_UNAVAILABLE;
  if (!recalibrate->reloaded) status = tenant_reload(&recalibrate->reload, recalibrate->request, reloaded);
  recalibrate->reloaded = true;
  if (status != STATUS_OK) finish(recalibrate, status);
}

static void send(struct recalibrate *recalibrate);

static void answered(void *context, enum status status, const redisReply *reply) {
  struct recalibrate *recalibrate = context;
  if (status == STATUS_OK) status = recalibration_take(&recalibrate->work, reply);
  if (status == STATUS_STALE)
    reload_settings(recalibrate);
  else if (status != STATUS_OK || recalibrate->work.end)
    finish(recalibrate, status);
  else
    send(recalibrate);
}

static void send(struct recalibrate *recalibrate) {
  struct redis_link *link = recalibrate->request->api->link;
  enum status status = recalibration_encode(&recalibrate->work, recalibrate->call);
  if (status == STATUS_OK) status = redis_link_send(link, recalibrate->work.partition, recalibrate->call, answered, recalibrate);
  if (status != STATUS_OK) finish(recalibrate, status);
}

static void begin(struct recalibrate *recalibrate) {
  const struct api_shared *shared = recalibrate->request->api->shared;
  struct store_tenant tenant = device_store_tenant(&recalibrate->request->tenant);
  recalibration_begin(&recalibrate->work, shared->target, &tenant, 0, redis_target_partitions(shared->target),
                      shared->config->outage_ms, DRIFT_REPAIR);
  send(recalibrate);
}

/* Nothing, or an object without members. */
static bool is_empty(struct str body) {
  struct json_scan scan;
  bool more = false;
  if (body.len == 0) return true;
  json_scan_begin(&scan, body);
  return json_scan_enter(&scan, JSON_SCAN_OBJECT) == STATUS_OK && json_scan_more(&scan, &more) == STATUS_OK && !more &&
         json_scan_end(&scan) == STATUS_OK;
}

void handle_recalibrate(struct request *request) {
  struct recalibrate *recalibrate = request_alloc(request, sizeof *recalibrate);
  if (recalibrate == NULL) {
    reply_status(request, STATUS_NO_MEMORY);
    return;
  }
  if (!request_query_only(request, NULL, 0)) return;
  if (!is_empty(request->body)) {
    reply_error(request, 400, "unexpected_body", "the body must be empty or {}");
    return;
  }
  recalibrate->request = request;
  enum status status = redis_call_new(&recalibrate->call);
  if (status == STATUS_OK)
    begin(recalibrate);
  else
    finish(recalibrate, status);
}
