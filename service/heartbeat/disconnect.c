/* POST /v1/tenants/{t}/devices/{d}/disconnect
 *
 * A device that sends it after the answer to its heartbeat finds that heartbeat in force: the answer came from Redis. */
#include "api.h"
#include "device.h"
#include "parse.h"
#include "tenant_reload.h"

struct disconnect {
  struct tenant_reload reload;
  struct request *request;
  bool only_named; /* close the session named, and no other */
  struct session_id session;
  bool reloaded;
};

static void send(struct disconnect *disconnect);

static void reloaded(struct tenant_reload *reload, enum status status) {
  struct disconnect *disconnect = (struct disconnect *)reload; /* its first member */
  if (status == STATUS_OK)
    send(disconnect);
  else if (status == STATUS_NOT_FOUND)
    tenant_reply_gone(disconnect->request);
  else
    reply_status(disconnect->request, status);
}

static void reload_settings(struct disconnect *disconnect) {
  _Static_assert(offsetof(struct disconnect, reload) == 0, "reloaded() casts");
  enum status status = STATUS_UNAVAILABLE;
  if (!disconnect->reloaded) status = tenant_reload(&disconnect->reload, disconnect->request, reloaded);
  disconnect->reloaded = true;
  if (status != STATUS_OK) reply_status(disconnect->request, status);
}

static void answered(void *context, enum status status, const redisReply *reply) {
  struct disconnect *disconnect = context;
  struct request *request = disconnect->request;
  enum disconnect_code code = DISCONNECT_NOTHING_OPEN;
  struct session_id open = SESSION_ID_NONE;
  char session[SESSION_ID_TEXT_MAX];
  if (status == STATUS_OK) status = store_disconnect_decode(reply, &code, &open);
  if (status != STATUS_OK) {
    reply_status(request, status);
    return;
  }
  switch (code) {
  case DISCONNECT_CLOSED:
  case DISCONNECT_NOTHING_OPEN: reply_empty(request, 204); break;
  case DISCONNECT_OTHER_SESSION:
    session_id_format(open, session);
    reply_error(request, 409, "other_session", "the device's open session is %s", session);
    break;
  case DISCONNECT_STALE: reload_settings(disconnect); break;
  }
}

static void send(struct disconnect *disconnect) {
  struct request *request = disconnect->request;
  const struct api_shared *shared = request->api->shared;
  struct device_place place = device_place(&request->tenant, request->device, redis_target_partitions(shared->target));
  struct store_tenant tenant = device_store_tenant(&request->tenant);
  struct redis_call *call = NULL;
  enum status status = redis_call_new(&call);
  if (status == STATUS_OK)
    status = store_disconnect_encode(call, shared->target, place.partition, shared->config->outage_ms, &tenant, place.bucket,
                                     request->device, disconnect->only_named ? &disconnect->session : NULL);
  if (status == STATUS_OK) status = redis_link_send(request->api->link, place.partition, call, answered, disconnect);
  redis_call_free(call);
  if (status != STATUS_OK) reply_status(request, status);
}

void handle_disconnect(struct request *request) {
  struct disconnect *disconnect = request_alloc(request, sizeof *disconnect);
  if (disconnect == NULL) {
    reply_status(request, STATUS_NO_MEMORY);
    return;
  }
  const char *message = NULL;
  disconnect->request = request;
  if (parse_disconnect(request->body, &disconnect->only_named, &disconnect->session, &message) == STATUS_OK)
    send(disconnect);
  else
    reply_error(request, 400, "invalid_session", "%s", message);
}
