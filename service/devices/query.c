/* POST /v1/tenants/{t}/devices/query */
#include "json_scan.h"
#include "lookup.h"

#define BODY_MESSAGE "the body must be {\"devices\":[\"…\"]}, an array of device ids and nothing else"

struct query_body {
  struct request *request;
  struct json_scan scan;
  struct str ids[LOOKUP_DEVICES_MAX];
  size_t count;
  const char *wrong; /* what is wrong besides the syntax; static */
  size_t bad_index;  /* of the first id that is none; count: all are fine */
};

/* ---- The body */

static enum status take_id(struct query_body *body) {
  struct json_scan_value value;
  if (json_scan_value(&body->scan, &value) != STATUS_OK) return STATUS_INVALID;
  if (body->count == LOOKUP_DEVICES_MAX) return STATUS_TOO_LARGE;
  struct str id = value.text;
  if (value.escaped) {
    char *plain = request_alloc(body->request, id.len);
    if (plain == NULL) return STATUS_NO_MEMORY;
    id = (struct str){plain, json_scan_unescape(value.text, plain)};
  }
  bool valid = value.type == JSON_SCAN_STRING && device_id_valid(id);
  if (!valid && body->bad_index == SIZE_MAX) body->bad_index = body->count;
  body->ids[body->count++] = id;
  return STATUS_OK;
}

static enum status take_ids(struct query_body *body) {
  enum json_scan_type type = JSON_SCAN_NULL;
  if (!json_scan_peek(&body->scan, &type) || type != JSON_SCAN_ARRAY) {
    struct json_scan_value value;
    body->wrong = BODY_MESSAGE;
    return json_scan_value(&body->scan, &value);
  }
  bool more = false;
  enum status status = json_scan_enter(&body->scan, JSON_SCAN_ARRAY);
  if (status == STATUS_OK) status = json_scan_more(&body->scan, &more);
  while (status == STATUS_OK && more) {
    status = take_id(body);
    if (status == STATUS_OK) status = json_scan_more(&body->scan, &more);
  }
  return status;
}

/* STATUS_INVALID: malformed JSON. */
static enum status take_body(struct query_body *body) {
  bool more = false;
  bool has_devices = false;
  enum json_scan_type type = JSON_SCAN_NULL;
  json_scan_begin(&body->scan, body->request->body);
  if (json_scan_peek(&body->scan, &type) && type != JSON_SCAN_OBJECT) {
    struct json_scan_value value;
    body->wrong = BODY_MESSAGE;
    if (json_scan_value(&body->scan, &value) != STATUS_OK) return STATUS_INVALID;
    return json_scan_end(&body->scan);
  }
  enum status status = json_scan_enter(&body->scan, JSON_SCAN_OBJECT);
  if (status == STATUS_OK) status = json_scan_more(&body->scan, &more);
  while (status == STATUS_OK && more) {
    struct json_scan_value name, value;
    status = json_scan_name(&body->scan, &name);
    if (status != STATUS_OK) return status;
    bool is_devices = json_scan_string_is(&name, STR_LIT("devices"));
    has_devices = has_devices || is_devices;
    if (!is_devices) body->wrong = BODY_MESSAGE;
    status = is_devices ? take_ids(body) : json_scan_value(&body->scan, &value);
    if (status == STATUS_OK) status = json_scan_more(&body->scan, &more);
  }
  if (!has_devices) body->wrong = BODY_MESSAGE;
  return status == STATUS_OK ? json_scan_end(&body->scan) : status;
}

/* False: answered. */
static bool read_body(struct query_body *body) {
  enum status status = take_body(body);
  if (status == STATUS_TOO_LARGE)
    reply_error(body->request, 413, "too_large", "a query holds at most %d devices", LOOKUP_DEVICES_MAX);
  else if (status == STATUS_INVALID)
    reply_error(body->request, 400, "malformed_json", "malformed JSON at byte %zu: %s", json_scan_offset(&body->scan),
                body->scan.error);
  else if (status != STATUS_OK)
    reply_status(body->request, status);
  else if (body->wrong != NULL)
    reply_error(body->request, 400, "wrong_type", "%s", body->wrong);
  else if (body->bad_index != SIZE_MAX)
    reply_error(body->request, 400, "bad_id",
                "devices[%zu] is no device id: a string of 1 to %d bytes of UTF-8 without control characters", body->bad_index,
                DEVICE_ID_MAX);
  else
    return true;
  return false;
}

/* ---- The answer */

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
  struct query_body *body = request_alloc(request, sizeof *body);
  struct lookup *lookup = request_alloc(request, sizeof *lookup);
  if (body == NULL || lookup == NULL) {
    reply_status(request, STATUS_NO_MEMORY);
    return;
  }
  body->request = request;
  body->bad_index = SIZE_MAX;
  if (!request_query_only(request, NULL, 0) || !read_body(body)) return;
  struct lookup_device *devices = request_alloc(request, (body->count + 1) * sizeof *devices);
  if (devices == NULL) {
    reply_status(request, STATUS_NO_MEMORY);
    return;
  }
  for (size_t i = 0; i < body->count; i++) devices[i].device = body->ids[i];
  *lookup = (struct lookup){.request = request, .devices = devices, .count = body->count, .done = looked_up};
  lookup_start(lookup);
}
