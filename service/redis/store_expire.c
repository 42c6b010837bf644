/* store_expire.c: next and expire_due, the detector's steps. */
#include "store_common.h"

enum status store_next_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition, int64_t outage_ms,
                              size_t buckets_max) {
  if (buckets_max == 0) return STATUS_INVALID;
  call_begin(call, SCRIPT_NEXT, 2);
  call_partition_key(call, target, PARTITION_CLOCK, partition);
  call_partition_key(call, target, PARTITION_NEXT, partition);
  call_run_id(call, NULL);
  call_int(call, outage_ms);
  call_int(call, (int64_t)buckets_max);
  return call_end(call);
}

enum status store_next_decode(const redisReply *reply, struct next_result *result) {
  if (!reply_is_ok(reply, 5)) return STATUS_PROTOCOL;
  enum status status = store_int_at(reply, 1, &result->now_ms);
  if (!status) status = store_int_at(reply, 2, &result->presence_ms);
  if (!status) status = store_int_at(reply, 3, &result->cutoff_ms);
  result->members = reply_at(reply, 4, REDIS_REPLY_ARRAY);
  if (status || !result->members || result->members->elements % 2 != 0) return STATUS_PROTOCOL;
  return STATUS_OK;
}

enum status store_expire_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition, int64_t outage_ms,
                                int64_t per_bucket_max, const struct expire_bucket *buckets, size_t count) {
  if (count > STORE_ITEMS_MAX) return STATUS_TOO_LARGE;
  call_begin(call, SCRIPT_EXPIRE_DUE, SESSION_KEYS + count * BUCKET_KEY_COUNT);
  store_session_keys(call, target, partition);
  for (size_t i = 0; i < count; i++) call_bucket_keys(call, target, partition, buckets[i].tenant, buckets[i].bucket);
  call_run_id(call, NULL);
  call_int(call, outage_ms);
  call_int(call, per_bucket_max);
  return call_end(call);
}

enum status store_expire_decode(const redisReply *reply, struct expire_result *result) {
  if (!reply_is_ok(reply, 10)) return STATUS_PROTOCOL;
  int64_t more = 0;
  int64_t *const numbers[] = {&result->now_ms,  &result->presence_ms, &result->cutoff_ms,         &result->closed,
                              &result->orphans, &result->listeners,   &result->listeners_dropped, &more};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    enum status status = store_int_at(reply, i + 1, numbers[i]);
    if (status) return status;
  }
  result->more = more != 0;
  result->lags = reply_at(reply, 9, REDIS_REPLY_ARRAY);
  return result->lags && result->lags->elements == (size_t)result->closed ? STATUS_OK : STATUS_PROTOCOL;
}
