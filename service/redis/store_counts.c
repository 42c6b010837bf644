/* store_counts.c: counts, recount and compare_due: open sessions of a tenant, and whether they are what they should be. */
#include "store_common.h"

enum {
  COMPARE_BUCKETS = 16, /* keys in a call */
  COMPARE_WORK = 400,   /* members after which a call stops at the next page */
};

static void begin_counts(struct redis_call *call, const struct redis_target *target, uint32_t partition) {
  call_begin(call, SCRIPT_COUNTS, 3);
  call_partition_key(call, target, PARTITION_CLOCK, partition);
  call_partition_key(call, target, PARTITION_COUNT_KEY, partition);
  call_partition_key(call, target, PARTITION_RECOUNT, partition);
  call_run_id(call, NULL);
}

enum status store_count_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition,
                               struct str tenant) {
  begin_counts(call, target, partition);
  call_str(call, tenant);
  return call_end(call);
}

enum status store_count_decode(const redisReply *reply, struct store_count *count) {
  if (!reply_is_ok(reply, 5)) return STATUS_PROTOCOL;
  enum status status = store_int_at(reply, 1, &count->open_sessions);
  if (!status) status = store_int_at(reply, 2, &count->now_ms);
  if (!status) status = store_int_or_at(reply, 3, TIME_MS_LOST, &count->recalibrated_ms);
  if (!status) status = store_int_at(reply, 4, &count->drift);
  return status;
}

enum status store_counts_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition) {
  begin_counts(call, target, partition);
  return call_end(call);
}

enum status store_counts_decode(const redisReply *reply, const redisReply **pairs) {
  if (!reply_is_ok(reply, 2)) return STATUS_PROTOCOL;
  *pairs = reply_at(reply, 1, REDIS_REPLY_ARRAY);
  return *pairs && (*pairs)->elements % 2 == 0 ? STATUS_OK : STATUS_PROTOCOL;
}

bool store_first_bucket(const struct redis_target *target, const struct store_tenant *tenant, uint32_t partition,
                        uint32_t *first) {
  uint32_t partitions = redis_target_partitions(target);
  for (uint32_t bucket = 0; bucket < partitions && bucket < tenant->buckets; bucket++) {
    if (placement_partition(tenant->id, bucket, partitions) != partition) continue;
    *first = bucket;
    return true;
  }
  return false;
}

/* How many buckets the tenant has in the partition. */
static uint32_t buckets_in(const struct redis_target *target, const struct store_tenant *tenant, uint32_t partition) {
  uint32_t first;
  if (!store_first_bucket(target, tenant, partition, &first)) return 0;
  return (tenant->buckets - 1 - first) / redis_target_partitions(target) + 1;
}

/* The nth of them. */
static uint32_t bucket_at(const struct redis_target *target, const struct store_tenant *tenant, uint32_t partition, uint32_t n) {
  uint32_t first = 0;
  (void)store_first_bucket(target, tenant, partition, &first);
  return first + n * redis_target_partitions(target);
}

static void add_action(struct redis_call *call, enum drift_action action) {
  call_str(call, action == DRIFT_REPAIR ? STR_LIT("repair") : STR_LIT("report"));
}

enum status store_recount_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition,
                                 const struct store_tenant *tenant, enum drift_action action) {
  static const enum partition_key keys[] = {PARTITION_CLOCK, PARTITION_COUNT_KEY, PARTITION_RECOUNT, PARTITION_TENANT};
  enum { KEYS = sizeof keys / sizeof keys[0] };
  uint32_t buckets = buckets_in(target, tenant, partition);
  if (buckets > STORE_BUCKETS_MAX) return STATUS_TOO_LARGE;
  call_begin(call, SCRIPT_RECOUNT, KEYS + buckets);
  for (size_t i = 0; i < KEYS; i++) call_partition_key(call, target, keys[i], partition);
  uint32_t first = bucket_at(target, tenant, partition, 0), step = redis_target_partitions(target);
  for (uint32_t n = 0; n < buckets; n++) {
    call_bucket_key(call, target, BUCKET_SESSION, partition, tenant->id, first + n * step);
  }
  call_run_id(call, NULL);
  call_str(call, tenant->id);
  store_settings(call, tenant);
  add_action(call, action);
  return call_end(call);
}

enum status store_recount_decode(const redisReply *reply, struct recount_result *result) {
  if (store_is_stale(reply)) return STATUS_STALE;
  if (!reply_is_ok(reply, 3)) return STATUS_PROTOCOL;
  enum status status = store_int_at(reply, 1, &result->count);
  return status ? status : store_int_at(reply, 2, &result->open_sessions);
}

static uint32_t buckets_of_step(const struct redis_target *target, const struct store_tenant *tenant, uint32_t partition,
                                const struct compare_cursor *cursor) {
  uint32_t all = buckets_in(target, tenant, partition);
  uint32_t left = cursor->buckets_done < all ? all - cursor->buckets_done : 0;
  return left < COMPARE_BUCKETS ? left : COMPARE_BUCKETS;
}

enum status store_compare_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition,
                                 int64_t outage_ms, const struct store_tenant *tenant, const struct compare_cursor *cursor,
                                 enum drift_action action) {
  uint32_t buckets = buckets_of_step(target, tenant, partition, cursor);
  call_begin(call, SCRIPT_COMPARE_DUE, SESSION_KEYS + (size_t)buckets * BUCKET_KEY_COUNT);
  store_session_keys(call, target, partition);
  for (uint32_t n = 0; n < buckets; n++) {
    call_bucket_keys(call, target, partition, tenant->id, bucket_at(target, tenant, partition, cursor->buckets_done + n));
  }
  call_run_id(call, NULL);
  call_int(call, outage_ms);
  call_str(call, tenant->id);
  store_settings(call, tenant);
  add_action(call, action);
  call_str(call, cursor->in_due ? STR_LIT("due") : STR_LIT("facts"));
  store_cursor(call, cursor->scan);
  call_int(call, COMPARE_WORK);
  return call_end(call);
}

enum status store_compare_decode(const redisReply *reply, const struct redis_target *target, uint32_t partition,
                                 const struct store_tenant *tenant, struct compare_cursor *cursor, struct compare_found *found) {
  if (store_is_stale(reply)) return STATUS_STALE;
  if (!reply_is_ok(reply, 8)) return STATUS_PROTOCOL;
  uint32_t asked = buckets_of_step(target, tenant, partition, cursor);
  int64_t finished, kinds[4];
  struct str phase;
  uint64_t scan = 0;
  enum status status = store_int_at(reply, 1, &finished);
  if (!status) status = store_str_at(reply, 2, &phase);
  if (!status) status = store_cursor_at(reply, 3, &scan);
  for (size_t i = 0; i < 4 && !status; i++) status = store_int_at(reply, 4 + i, &kinds[i]);
  if (status) return status;
  if (finished < 0 || finished > asked) return STATUS_PROTOCOL;
  cursor->buckets_done += (uint32_t)finished;
  cursor->in_due = str_equal(phase, STR_LIT("due"));
  cursor->scan = scan;
  cursor->end = cursor->buckets_done >= buckets_in(target, tenant, partition);
  found->facts_lost += kinds[0];
  found->orphans += kinds[1];
  found->due_lost += kinds[2];
  found->next_late += kinds[3];
  return STATUS_OK;
}
