/* DELETE /v1/tenants/{t}/devices/{d}: the steps of forget.h on an API loop. Nothing waits on a thread of the pool: between two
 * looks a timer runs. */
#include "api.h"
#include "device.h"
#include "forget.h"
#include "pg_pool.h"
#include "tenant_reload.h"

struct deletion {
  struct pg_job job;
  struct tenant_reload reload;
  struct loop_timer timer;
  struct request *request;
  struct forget forget;
  int64_t give_up_us;
  bool reloaded;
  enum status status; /* the job's */
  enum forget_outcome outcome;
};

static void disconnect(struct deletion *deletion);
static void look(struct deletion *deletion);

static void reply_never_seen(struct request *request) {
  reply_error(request, 404, "not_found", "no heartbeat of this device was ever recorded");
}

static void look_later(struct deletion *deletion) {
  const struct api_loop *api = deletion->request->api;
  if (api->draining || loop_now_us(api->loop) >= deletion->give_up_us)
    reply_error(deletion->request, 503, "not_published",
                "the session is closed, but its end has not reached PostgreSQL yet; repeat, so that the device is removed");
  else
    loop_timer_set(api->loop, &deletion->timer, FORGET_PAUSE_MS * INT64_C(1000));
}

static void on_timer(struct loop_timer *timer) { look(timer->context); }

/* ---- The row */

static void forget_row(struct pg_job *job, struct pg_client *client) {
  struct deletion *deletion = (struct deletion *)job; /* its first member */
  const struct request *request = deletion->request;
  const struct forget *forget = &deletion->forget;
  deletion->status = outbox_forget_device(client, request->tenant_id, request->device,
                                          forget->has_session ? &forget->session : NULL, &deletion->outcome);
}

static void row_forgotten(struct pg_job *job) {
  struct deletion *deletion = (struct deletion *)job;
  if (deletion->status != STATUS_OK) {
    reply_postgres_status(deletion->request, deletion->status);
    return;
  }
  switch (forget_judge_row(&deletion->forget, deletion->outcome)) {
  case FORGET_GONE: reply_empty(deletion->request, 204); break;
  case FORGET_NEVER_SEEN: reply_never_seen(deletion->request); break;
  case FORGET_LOOK_AGAIN:
  case FORGET_READ_ROW: look_later(deletion); break;
  }
}

static void read_row(struct deletion *deletion) {
  _Static_assert(offsetof(struct deletion, job) == 0, "forget_row() casts");
  deletion->status = STATUS_UNAVAILABLE; /* where the pool stops before it comes to this */
  deletion->job = (struct pg_job){.work = forget_row, .done = row_forgotten, .loop = deletion->request->api->loop};
  enum status status = pg_pool_submit(deletion->request->api->shared->pool, &deletion->job);
  if (status != STATUS_OK) reply_postgres_status(deletion->request, status);
}

/* ---- Redis */

static void reloaded(struct tenant_reload *reload, enum status status) {
  struct deletion *deletion = (struct deletion *)(void *)((char *)reload - offsetof(struct deletion, reload));
  if (status == STATUS_OK)
    disconnect(deletion);
  else if (status == STATUS_NOT_FOUND)
    tenant_reply_gone(deletion->request);
  else
    reply_postgres_status(deletion->request, status);
}

static void fail(struct deletion *deletion, enum status status) {
  if (status == STATUS_STALE && !deletion->reloaded) {
    deletion->reloaded = true;
    status = tenant_reload(&deletion->reload, deletion->request, reloaded);
    if (status == STATUS_OK) return;
  }
  reply_status(deletion->request, status);
}

static void looked(void *context, enum status status, const redisReply *reply) {
  struct deletion *deletion = context;
  struct store_device device;
  int64_t now_ms;
  if (status == STATUS_OK) status = store_read_decode(reply, 1, &now_ms, &device);
  if (status != STATUS_OK) {
    fail(deletion, status);
    return;
  }
  switch (forget_judge_redis(&deletion->forget, &device)) {
  case FORGET_READ_ROW: read_row(deletion); break;
  case FORGET_LOOK_AGAIN: look_later(deletion); break;
  case FORGET_GONE:
  case FORGET_NEVER_SEEN: reply_empty(deletion->request, 204); break;
  }
}

static void disconnected(void *context, enum status status, const redisReply *reply) {
  struct deletion *deletion = context;
  enum disconnect_code code = DISCONNECT_NOTHING_OPEN;
  struct session_id session = SESSION_ID_NONE;
  if (status == STATUS_OK) status = store_disconnect_decode(reply, &code, &session);
  if (status == STATUS_OK && code == DISCONNECT_STALE) status = STATUS_STALE;
  if (status != STATUS_OK) {
    fail(deletion, status);
    return;
  }
  if (code == DISCONNECT_CLOSED) forget_note_session(&deletion->forget, session);
  look(deletion);
}

/* Sends the call of either step. */
static void ask(struct deletion *deletion, bool is_look) {
  struct request *request = deletion->request;
  const struct api_shared *shared = request->api->shared;
  struct device_place place = device_place(&request->tenant, request->device, redis_target_partitions(shared->target));
  struct store_tenant tenant = device_store_tenant(&request->tenant);
  struct read_item item = {.bucket = place.bucket, .device = request->device};
  int64_t outage_ms = shared->config->outage_ms;
  struct redis_call *call = NULL;
  enum status status = redis_call_new(&call);
  if (status == STATUS_OK)
    status = is_look ? store_read_encode(call, shared->target, place.partition, outage_ms, &tenant, &item, 1)
                     : store_disconnect_encode(call, shared->target, place.partition, outage_ms, &tenant, place.bucket,
                                               request->device, NULL);
  if (status == STATUS_OK)
    status = redis_link_send(request->api->link, place.partition, call, is_look ? looked : disconnected, deletion);
  redis_call_free(call);
  if (status != STATUS_OK) fail(deletion, status);
}

static void look(struct deletion *deletion) { ask(deletion, true); }
static void disconnect(struct deletion *deletion) { ask(deletion, false); }

void handle_forget(struct request *request) {
  struct deletion *deletion = request_alloc(request, sizeof *deletion);
  if (deletion == NULL) {
    reply_status(request, STATUS_NO_MEMORY);
    return;
  }
  if (!request_query_only(request, NULL, 0)) return;
  deletion->request = request;
  deletion->timer = (struct loop_timer){.fire = on_timer, .context = deletion};
  deletion->give_up_us = loop_now_us(request->api->loop) + FORGET_WAIT_MS * INT64_C(1000);
  disconnect(deletion);
}
