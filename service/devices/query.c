/* POST /v1/tenants/{t}/devices/query */
#include "device_ids.h"
#include "lookup.h"

_Static_assert(DEVICE_IDS_MAX <= LOOKUP_DEVICES_MAX, "one look-up answers a query");

/* False: answered. */
static bool read_body(struct request *request, struct device_ids *ids) {
  char *scratch = NULL;
  if (request->body.len > 0 && memchr(request->body.data, '\\', request->body.len) != NULL) {
    scratch = request_alloc(request, request->body.len);
    if (scratch == NULL) {
      reply_status(request, STATUS_NO_MEMORY);
      return false;
    }
  }
  switch (device_ids_parse(request->body, scratch, ids)) {
  case DEVICE_IDS_OK: return true;
  case DEVICE_IDS_TOO_MANY:
    reply_error(request, 413, "too_large", "a query holds at most %d devices", DEVICE_IDS_MAX);
    return false;
  case DEVICE_IDS_MALFORMED:
    reply_error(request, 400, "malformed_json", "malformed JSON at byte %zu: %s", ids->offset, ids->detail);
    return false;
  case DEVICE_IDS_WRONG_TYPE:
    reply_error(request, 400, "wrong_type", "the body must be {\"devices\":[\"…\"]}, an array of device ids and nothing else");
    return false;
  case DEVICE_IDS_BAD_ID: break;
  }
  reply_error(request, 400, "bad_id",
              "devices[%zu] is no device id: a string of 1 to %d bytes of UTF-8 without control characters", ids->bad_index,
              DEVICE_ID_MAX);
  return false;
}

static enum status encode_device(struct buf *out, const struct lookup_device *device) {
  if (device->found) return device_encode(out, &device->view, STR_NONE);
  enum status status = buf_append_str(out, STR_LIT("{\"device\":"));
  if (status == STATUS_OK) status = buf_append_json_string(out, device->device);
  return status == STATUS_OK ? buf_append_str(out, STR_LIT(",\"state\":\"never_seen\"}")) : status;
}

static enum status encode(struct buf *out, const struct lookup *lookup) {
  enum status status = buf_append_str(out, STR_LIT("{\"devices\":["));
  for (size_t i = 0; i < lookup->count && status == STATUS_OK; i++) {
    if (i > 0) status = buf_append(out, ",", 1);
    if (status == STATUS_OK) status = encode_device(out, &lookup->devices[i]);
  }
  return status == STATUS_OK ? buf_append_str(out, STR_LIT("]}\n")) : status;
}

static void looked_up(struct lookup *lookup, enum status status) {
  struct buf body = {0};
  if (status == STATUS_OK) status = encode(&body, lookup);
  lookup_free(lookup); /* before the reply ends the life of the request's memory */
  if (status == STATUS_OK) {
    reply_json(lookup->request, 200, &body);
    return;
  }
  buf_free(&body);
  lookup_reply_failure(lookup, status);
}

void handle_query(struct request *request) {
  struct device_ids *ids = request_alloc(request, sizeof *ids);
  struct lookup *lookup = request_alloc(request, sizeof *lookup);
  if (ids == NULL || lookup == NULL) {
    reply_status(request, STATUS_NO_MEMORY);
    return;
  }
  if (!request_query_only(request, NULL, 0) || !read_body(request, ids)) return;
  struct lookup_device *devices = request_alloc(request, (ids->count + 1) * sizeof *devices);
  if (devices == NULL) {
    reply_status(request, STATUS_NO_MEMORY);
    return;
  }
  for (size_t i = 0; i < ids->count; i++) devices[i].device = ids->ids[i];
  *lookup = (struct lookup){.request = request, .devices = devices, .count = ids->count, .done = looked_up};
  lookup_start(lookup);
}
