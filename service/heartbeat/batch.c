/* POST /v1/tenants/{t}/heartbeats */
#include "api.h"
#include "hash.h"
#include "headers.h"
#include "replies.h"
#include "results.h"

/* Items come in chunks of the request's memory, so that a small batch takes little of it. */
enum { ITEMS_MAX = 1000, CHUNK_ITEMS = 32, LAST_SLOTS = 2048 };
_Static_assert(LAST_SLOTS >= 2 * ITEMS_MAX && (LAST_SLOTS & (LAST_SLOTS - 1)) == 0, "LAST_SLOTS");

struct batch {
  struct intake intake;
  struct intake_item **link; /* where the next item goes */
  struct intake_item *chunk;
  size_t count;
};

/* ---- The answer */

static enum status append_rejected(struct buf *body, const struct intake_item *item, size_t index, bool first,
                                   const struct parse_limits *limits) {
  struct str device = item->entry.item.device;
  enum status status = buf_printf(body, "%s{\"index\":%zu,\"device\":", first ? "" : ",", index);
  if (status == STATUS_OK) status = device.len > 0 ? buf_append_json_string(body, device) : buf_append_str(body, STR_LIT("null"));
  if (status == STATUS_OK) status = buf_append(body, ",", 1);
  if (status == STATUS_OK) status = append_item_error(body, item, limits);
  return status == STATUS_OK ? buf_append(body, "}", 1) : status;
}

static enum status encode(struct buf *body, const struct intake *intake, size_t accepted) {
  struct parse_limits limits = parse_limits_of(&intake->request->tenant);
  enum status status = buf_printf(body, "{\"accepted\":%zu,\"rejected\":[", accepted);
  bool first = true;
  size_t index = 0;
  for (const struct intake_item *item = intake->items; status == STATUS_OK && item != NULL; item = item->next, index++) {
    if (item->verdict == INTAKE_ACCEPTED || item->verdict == INTAKE_REPLACED) continue;
    status = append_rejected(body, item, index, first, &limits);
    first = false;
  }
  return status == STATUS_OK ? buf_append(body, "]}", 2) : status;
}

/* 503 for the whole only where nothing was accepted and an answer was lacking. */
static const struct intake_item *reason_for_503(const struct intake *intake, size_t accepted) {
  if (accepted > 0) return NULL;
  for (const struct intake_item *item = intake->items; item != NULL; item = item->next)
    if (item->verdict == INTAKE_UNAVAILABLE || item->verdict == INTAKE_BACKLOG) return item;
  return NULL;
}

static void finish(struct intake *intake) {
  struct request *request = intake->request;
  size_t accepted = 0;
  for (const struct intake_item *item = intake->items; item != NULL; item = item->next) {
    accepted += item->verdict == INTAKE_ACCEPTED;
    count_item(request->api->batcher, item);
  }
  const struct intake_item *reason = reason_for_503(intake, accepted);
  if (reason != NULL) {
    reply_item_error(request, reason);
    return;
  }
  struct buf body = {0};
  if (encode(&body, intake, accepted) == STATUS_OK) {
    reply_json(request, 200, &body);
  } else {
    buf_free(&body);
    reply_status(request, STATUS_NO_MEMORY);
  }
}

/* ---- The items */

static struct intake_item *new_item(struct batch *batch) {
  size_t at = batch->count % CHUNK_ITEMS;
  if (at == 0) batch->chunk = request_alloc(batch->intake.request, CHUNK_ITEMS * sizeof batch->chunk[0]);
  if (batch->chunk == NULL) return NULL;
  struct intake_item *item = &batch->chunk[at];
  *batch->link = item;
  batch->link = &item->next;
  batch->count++;
  return item;
}

static enum status add(struct batch *batch, const struct parse_fields *fields, const struct parse_verdict *verdict) {
  struct intake_item *item = new_item(batch);
  if (item == NULL) return STATUS_NO_MEMORY;
  struct record_item *record = &item->entry.item;
  record->device = fields->device;
  if (fields->device.data == fields->unescaped) {
    char *copy = request_alloc(batch->intake.request, fields->device.len);
    if (copy == NULL) return STATUS_NO_MEMORY;
    memcpy(copy, fields->device.data, fields->device.len);
    record->device.data = copy;
  }
  record->ttl_ms = fields->ttl_ms;
  record->meta_action = fields->meta_action;
  record->meta = fields->meta;
  if (verdict->error != PARSE_OK) {
    item->verdict = INTAKE_INVALID;
    item->parse = *verdict;
  }
  return STATUS_OK;
}

/* STATUS_INVALID: *verdict says why the whole is refused. */
static enum status read_items(struct batch *batch, bool lines, struct parse_verdict *verdict) {
  const struct request *request = batch->intake.request;
  struct parse_limits limits = parse_limits_of(&request->tenant);
  struct parse_batch parser;
  struct parse_fields fields;
  enum status status = parse_batch_begin(&parser, request->body, lines, &limits, verdict);
  while (status == STATUS_OK) {
    bool more = false;
    status = parse_batch_next(&parser, &more, &fields, verdict);
    if (status != STATUS_OK || !more) return status;
    status = batch->count == ITEMS_MAX ? STATUS_TOO_LARGE : add(batch, &fields, verdict);
  }
  return status;
}

/* Of a device's valid items the last one counts. */
static void replace_earlier(struct intake_item *items) {
  struct intake_item *last[LAST_SLOTS] = {NULL};
  for (struct intake_item *item = items; item != NULL; item = item->next) {
    if (item->verdict == INTAKE_INVALID) continue;
    struct str device = item->entry.item.device;
    size_t at = (size_t)hash_device(device) % LAST_SLOTS;
    while (last[at] != NULL && !str_equal(last[at]->entry.item.device, device)) at = (at + 1) % LAST_SLOTS;
    if (last[at] != NULL) last[at]->verdict = INTAKE_REPLACED;
    last[at] = item;
  }
}

static bool sent_as_lines(const struct request *request) {
  struct str content_type;
  return request_header(request, "Content-Type", &content_type) && header_is_ndjson(content_type);
}

static void refuse(struct request *request, enum status status, const struct parse_verdict *verdict) {
  if (status == STATUS_TOO_LARGE) {
    reply_error(request, 413, "too_large", "a batch holds at most %d items", ITEMS_MAX);
  } else if (status == STATUS_INVALID) {
    batcher_count(request->api->batcher, RESULT_INVALID, 1);
    reply_parse_error(request, verdict);
  } else {
    reply_status(request, status);
  }
}

void handle_heartbeats(struct request *request) {
  struct parse_verdict verdict = {.error = PARSE_OK};
  struct batch *batch = request_alloc(request, sizeof *batch);
  if (batch == NULL) {
    reply_status(request, STATUS_NO_MEMORY);
    return;
  }
  batch->intake = (struct intake){.request = request, .finish = finish};
  batch->link = &batch->intake.items;
  enum status status = read_items(batch, sent_as_lines(request), &verdict);
  if (status != STATUS_OK) {
    refuse(request, status, &verdict);
    return;
  }
  if (reply_rate_limited(request, batch->count)) return;
  replace_earlier(batch->intake.items);
  intake_start(&batch->intake);
}
