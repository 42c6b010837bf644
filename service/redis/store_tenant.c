/* store_tenant.c: empty_buckets, scan_keys and measure: what tools do with all that a tenant has in Redis. */
#include "store_common.h"

enum {
  CLOSE_MAX = 100, /* sessions a call: about two milliseconds */
  MEASURE_SAMPLES = 5,
};

enum status store_empty_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition, int64_t outage_ms,
                               const struct store_tenant *tenant, const uint32_t *buckets, size_t count, bool last) {
  if (count > STORE_EMPTY_BUCKETS_MAX) return STATUS_TOO_LARGE;
  call_begin(call, SCRIPT_EMPTY_BUCKETS, SESSION_KEYS + 1 + count * BUCKET_KEY_COUNT);
  store_session_keys(call, target, partition);
  call_partition_key(call, target, PARTITION_RECOUNT, partition);
  for (size_t i = 0; i < count; i++) call_bucket_keys(call, target, partition, tenant->id, buckets[i]);
  call_run_id(call, NULL);
  call_int(call, outage_ms);
  call_str(call, tenant->id);
  store_settings(call, tenant);
  call_int(call, CLOSE_MAX);
  call_str(call, last ? STR_LIT("last") : STR_LIT("more"));
  return call_end(call);
}

enum status store_empty_decode(const redisReply *reply, struct empty_result *result) {
  struct str newest;
  if (store_is_stale(reply)) return STATUS_STALE;
  if (!reply_is_ok(reply, 5)) return STATUS_PROTOCOL;
  enum status status = store_int_at(reply, 1, &result->emptied);
  if (!status) status = store_int_at(reply, 2, &result->closed);
  if (!status) status = store_int_at(reply, 3, &result->backlog);
  if (!status) status = store_str_at(reply, 4, &newest);
  if (status) return status;
  if (result->emptied < 0 || result->emptied > STORE_EMPTY_BUCKETS_MAX) return STATUS_PROTOCOL;
  result->newest = SESSION_ID_NONE;
  return newest.len > 0 ? store_id_at(reply, 4, &result->newest) : STATUS_OK;
}

enum status store_scan_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition, uint64_t cursor,
                              enum bucket_key only, struct str tenant, size_t about) {
  struct buf pattern = {0};
  enum status status = keys_append_bucket_pattern(&pattern, redis_target_env(target), only, tenant);
  if (!status) {
    call_begin(call, SCRIPT_SCAN_KEYS, 1);
    call_partition_key(call, target, PARTITION_CLOCK, partition);
    call_run_id(call, NULL);
    store_cursor(call, cursor);
    call_str(call, buf_str(&pattern));
    call_int(call, (int64_t)about);
    status = call_end(call);
  }
  buf_free(&pattern);
  return status;
}

enum status store_scan_decode(const redisReply *reply, uint64_t *cursor, const redisReply **keys) {
  if (!reply_is_ok(reply, 3)) return STATUS_PROTOCOL;
  *keys = reply_at(reply, 2, REDIS_REPLY_ARRAY);
  if (!*keys) return STATUS_PROTOCOL;
  for (size_t i = 0; i < (*keys)->elements; i++) {
    if ((*keys)->element[i]->type != REDIS_REPLY_STRING) return STATUS_PROTOCOL;
  }
  return store_cursor_at(reply, 1, cursor);
}

enum status store_measure_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition,
                                 const struct measured_bucket *buckets, size_t count) {
  if (count > STORE_MEASURE_MAX) return STATUS_TOO_LARGE;
  call_begin(call, SCRIPT_MEASURE, 1 + count * BUCKET_KEY_COUNT);
  call_partition_key(call, target, PARTITION_CLOCK, partition);
  for (size_t i = 0; i < count; i++) call_bucket_keys(call, target, partition, buckets[i].tenant, buckets[i].bucket);
  call_run_id(call, NULL);
  call_int(call, MEASURE_SAMPLES);
  return call_end(call);
}

enum status store_measure_decode(const redisReply *reply, struct measured_bucket *buckets, size_t count) {
  if (!reply_is_ok(reply, 1 + 3 * count)) return STATUS_PROTOCOL;
  for (size_t i = 0; i < count; i++) {
    int64_t large = 0;
    enum status status = store_int_at(reply, 1 + 3 * i, &buckets[i].fields);
    if (!status) status = store_int_at(reply, 2 + 3 * i, &buckets[i].bytes);
    if (!status) status = store_int_at(reply, 3 + 3 * i, &large);
    if (status) return status;
    buckets[i].large = large != 0;
  }
  return STATUS_OK;
}
