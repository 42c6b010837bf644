#include "store_common.h"

#include <inttypes.h>
#include <stdio.h>

void store_session_keys(struct redis_call *call, const struct redis_target *target, uint32_t partition) {
  static const enum partition_key keys[SESSION_KEYS] = {PARTITION_CLOCK,  PARTITION_NEXT,      PARTITION_TRANSITIONS,
                                                        PARTITION_CLOSED, PARTITION_COUNT_KEY, PARTITION_TENANT};
  for (size_t i = 0; i < SESSION_KEYS; i++) call_partition_key(call, target, keys[i], partition);
}

void store_bucket_keys(struct redis_call *call, const struct redis_target *target, uint32_t partition) {
  for (size_t i = 0; i < call->buckets.count; i++) {
    call_bucket_keys(call, target, partition, call->buckets.at[i].tenant->id, call->buckets.at[i].bucket);
  }
}

void store_settings(struct redis_call *call, const struct store_tenant *tenant) {
  char text[40];
  int len = snprintf(text, sizeof text, "%lld:%u", (long long)tenant->generation, tenant->buckets);
  call_str(call, (struct str){text, (size_t)len});
}

bool store_is_stale(const redisReply *reply) { return reply_is_word(reply_at(reply, 0, REDIS_REPLY_STRING), "stale"); }

enum status store_str_at(const redisReply *array, size_t i, struct str *text) {
  const redisReply *element = reply_at(array, i, REDIS_REPLY_STRING);
  if (!element) return STATUS_PROTOCOL;
  *text = reply_str(element);
  return STATUS_OK;
}

enum status store_int_at(const redisReply *array, size_t i, int64_t *value) {
  if (!array || array->type != REDIS_REPLY_ARRAY || i >= array->elements) return STATUS_PROTOCOL;
  return reply_int64(array->element[i], value);
}

enum status store_int_or_at(const redisReply *array, size_t i, int64_t none, int64_t *value) {
  struct str text;
  if (!store_str_at(array, i, &text) && text.len == 0) {
    *value = none;
    return STATUS_OK;
  }
  return store_int_at(array, i, value);
}

enum status store_id_at(const redisReply *array, size_t i, struct session_id *id) {
  struct str text;
  enum status status = store_str_at(array, i, &text);
  if (status) return status;
  return session_id_parse(text, id) ? STATUS_PROTOCOL : STATUS_OK;
}

enum status store_reason(struct str text, enum transition_reason *reason) {
  for (enum transition_reason each = REASON_NONE; each <= REASON_STATE_LOST; each++) {
    const char *name = transition_reason_name(each);
    if (!str_equal(text, name ? str_from(name) : STR_NONE)) continue;
    *reason = each;
    return STATUS_OK;
  }
  return STATUS_PROTOCOL;
}

enum status store_cursor_at(const redisReply *array, size_t i, uint64_t *cursor) {
  struct str text;
  enum status status = store_str_at(array, i, &text);
  if (status) return status;
  uint64_t value = 0;
  for (size_t at = 0; at < text.len; at++) {
    unsigned digit = (unsigned char)text.data[at] - (unsigned)'0';
    if (digit > 9 || value > (UINT64_MAX - digit) / 10) return STATUS_PROTOCOL;
    value = value * 10 + digit;
  }
  *cursor = value;
  return text.len > 0 ? STATUS_OK : STATUS_PROTOCOL;
}

void store_cursor(struct redis_call *call, uint64_t cursor) {
  char text[24];
  int len = snprintf(text, sizeof text, "%" PRIu64, cursor);
  call_str(call, (struct str){text, (size_t)len});
}
