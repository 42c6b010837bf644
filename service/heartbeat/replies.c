#include "replies.h"

#include "api.h"
#include "rate_limit.h"
#include "results.h"

#define BACKLOG_MESSAGE "new sessions are refused until transitions have reached PostgreSQL; renewals go on"
#define LIMIT_MESSAGE "a new device, and the tenant has as many as its max-devices allows"
#define GONE_MESSAGE "the tenant was deleted"

struct parse_limits parse_limits_of(const struct tenant *tenant) {
  return (struct parse_limits){
      .default_ttl_ms = tenant->default_ttl_ms, .min_ttl_ms = tenant->min_ttl_ms, .max_ttl_ms = tenant->max_ttl_ms};
}

void reply_parse_error(struct request *request, const struct parse_verdict *verdict) {
  struct buf message = {0};
  struct parse_limits limits = parse_limits_of(&request->tenant);
  if (parse_error_message(&message, verdict, &limits) == STATUS_OK)
    reply_error(request, 400, parse_error_word(verdict->error), "%.*s", STR_ARG(buf_str(&message)));
  else
    reply_status(request, STATUS_NO_MEMORY);
  buf_free(&message);
}

bool reply_rate_limited(struct request *request, size_t count) {
  const struct tenant *tenant = &request->tenant;
  const struct api_shared *shared = request->api->shared;
  unsigned wait_s = rate_limiter_take(shared->rate_limiter, tenant->id, tenant->heartbeats_per_second, (int64_t)count,
                                      loop_now_us(request->api->loop));
  if (wait_s == 0) return false;
  batcher_count(request->api->batcher, RESULT_RATE_LIMITED, (int64_t)count);
  reply_retry(request, 429, wait_s, "rate_limited", "over the tenant's rate of %lld heartbeats per second",
              (long long)tenant->heartbeats_per_second);
  return true;
}

static const char *unavailable_message(enum status status) {
  switch (status) {
  case STATUS_INITIALISING: return "Redis is being rebuilt; repeat later";
  case STATUS_FULL: return "too many heartbeats are waiting; repeat later";
  case STATUS_TIMEOUT: return "waited too long for its turn; repeat later";
  case STATUS_CLOSED: return "Redis did not answer: the heartbeat may or may not be in force; repeating is harmless";
  default: return "Redis or PostgreSQL cannot be reached; repeat later";
  }
}

enum status append_item_error(struct buf *out, const struct intake_item *item, const struct parse_limits *limits) {
  const char *word = "unavailable";
  struct buf message = {0};
  enum status status = STATUS_OK;
  if (item->verdict == INTAKE_INVALID) {
    word = parse_error_word(item->parse.error);
    status = parse_error_message(&message, &item->parse, limits);
  } else if (item->verdict == INTAKE_DEVICE_LIMIT) {
    word = "device_limit";
    status = buf_append_str(&message, STR_LIT(LIMIT_MESSAGE));
  } else if (item->verdict == INTAKE_GONE) {
    word = "forbidden";
    status = buf_append_str(&message, STR_LIT(GONE_MESSAGE));
  } else if (item->verdict == INTAKE_BACKLOG) {
    status = buf_append_str(&message, STR_LIT(BACKLOG_MESSAGE));
  } else {
    status = buf_append_str(&message, str_from(unavailable_message(item->status)));
  }
  if (status == STATUS_OK) status = buf_printf(out, "\"error\":\"%s\",\"message\":", word);
  if (status == STATUS_OK) status = buf_append_json_string(out, buf_str(&message));
  buf_free(&message);
  return status;
}

void reply_item_error(struct request *request, const struct intake_item *item) {
  if (item->verdict == INTAKE_DEVICE_LIMIT)
    reply_error(request, 403, "device_limit", LIMIT_MESSAGE);
  else if (item->verdict == INTAKE_GONE)
    tenant_reply_gone(request);
  else if (item->verdict == INTAKE_BACKLOG)
    reply_error(request, 503, "unavailable", BACKLOG_MESSAGE);
  else if (item->status == STATUS_INITIALISING)
    reply_status(request, STATUS_INITIALISING);
  else
    reply_error(request, 503, "unavailable", "%s", unavailable_message(item->status));
}

void count_item(struct batcher *batcher, const struct intake_item *item) {
  switch (item->verdict) {
  case INTAKE_INVALID: batcher_count(batcher, RESULT_INVALID, 1); break;
  case INTAKE_REPLACED: batcher_count(batcher, RESULT_REPLACED, 1); break;
  case INTAKE_DEVICE_LIMIT: batcher_count(batcher, RESULT_DEVICE_LIMIT, 1); break;
  case INTAKE_BACKLOG:
  case INTAKE_UNAVAILABLE:
  case INTAKE_GONE: batcher_count(batcher, RESULT_UNAVAILABLE, 1); break;
  case INTAKE_ACCEPTED: /* counted by what Redis said */
  case INTAKE_WAITING:
  case INTAKE_STALE:
  case INTAKE_NOT_OPENED: break;
  }
}
