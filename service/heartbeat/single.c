/* POST /v1/tenants/{t}/devices/{d}/heartbeat */
#include "api.h"
#include "device.h"
#include "headers.h"
#include "replies.h"
#include "results.h"

/* All of it in one piece of the request's memory. */
struct single {
  struct intake intake;
  struct intake_item item;
  struct intake_detail detail;
};

static void reply_representation(struct request *request, const struct single *single) {
  const struct record_outcome *outcome = &single->detail.outcome;
  struct device_view view = {.device = request->device,
                             .state = DEVICE_ONLINE,
                             .session = outcome->session,
                             .online_since_ms = outcome->online_since_ms,
                             .last_seen_ms = single->detail.now_ms,
                             .ttl_ms = single->item.entry.item.ttl_ms,
                             .meta = outcome->meta};
  struct str transition = outcome->code == RECORD_RENEWED ? STR_LIT("\"transition\":false") : STR_LIT("\"transition\":true");
  struct buf body = {0};
  if (device_encode(&body, &view, transition) == STATUS_OK) {
    reply_json(request, 200, &body);
  } else {
    buf_free(&body);
    reply_status(request, STATUS_NO_MEMORY);
  }
}

static void finish(struct intake *intake) {
  struct single *single = (struct single *)intake; /* its first member */
  struct request *request = intake->request;
  count_item(request->api->batcher, &single->item);
  if (single->item.verdict != INTAKE_ACCEPTED)
    reply_item_error(request, &single->item);
  else if (intake->detail == NULL)
    reply_empty(request, 204);
  else
    reply_representation(request, single);
}

static bool wants_representation(const struct request *request) {
  struct str prefer;
  return request_header(request, "Prefer", &prefer) && header_wants_representation(prefer);
}

void handle_heartbeat(struct request *request) {
  _Static_assert(offsetof(struct single, intake) == 0, "finish() casts");
  struct parse_limits limits = parse_limits_of(&request->tenant);
  struct parse_fields fields;
  struct parse_verdict verdict;
  if (parse_heartbeat(request->body, &limits, &fields, &verdict) != PARSE_OK) {
    batcher_count(request->api->batcher, RESULT_INVALID, 1);
    reply_parse_error(request, &verdict);
    return;
  }
  if (reply_rate_limited(request, 1)) return;
  struct single *single = request_alloc(request, sizeof *single);
  if (single == NULL) {
    reply_status(request, STATUS_NO_MEMORY);
    return;
  }
  struct record_item *record = &single->item.entry.item;
  record->device = request->device;
  record->ttl_ms = fields.ttl_ms;
  record->meta_action = fields.meta_action;
  record->meta = fields.meta;
  single->intake = (struct intake){.request = request, .items = &single->item, .finish = finish};
  if (wants_representation(request)) single->intake.detail = &single->detail;
  intake_start(&single->intake);
}
