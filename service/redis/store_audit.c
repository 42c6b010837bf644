/* store_audit.c: rebuild, mark and repair, and the walk over what is open: PostgreSQL's rows meet Redis's facts. */
#include <inttypes.h>
#include <stdio.h>

#include "store_common.h"

/* The arguments of rows.lua: own1 and own2 are ARGV[3..4], token is ARGV[1] where it is not the road's run_id. */
struct rows_head {
  enum script script;
  const char *fixed_run_id;
  int64_t outage_ms;
  struct str own1, own2;
};

static void begin_rows(struct redis_call *call, const struct redis_target *target, uint32_t partition,
                       const struct rows_head *head, const struct store_row *rows, size_t count) {
  struct places *buckets = &call->buckets, *tenants = &call->tenants;
  places_clear(buckets);
  places_clear(tenants);
  for (size_t i = 0; i < count; i++) {
    size_t known = buckets->count;
    call->bucket_of[i] = places_number(buckets, &rows[i].tenant, rows[i].bucket);
    if (buckets->count > known) (void)places_number(tenants, &rows[i].tenant, 0);
  }
  call_begin(call, head->script, SESSION_KEYS + buckets->count * BUCKET_KEY_COUNT);
  store_session_keys(call, target, partition);
  store_bucket_keys(call, target, partition);
  call_run_id(call, head->fixed_run_id);
  call_int(call, head->outage_ms);
  call_str(call, head->own1);
  call_str(call, head->own2);
  call_int(call, (int64_t)tenants->count);
  for (size_t i = 0; i < tenants->count; i++) {
    call_str(call, tenants->at[i].tenant->id);
    store_settings(call, tenants->at[i].tenant);
  }
}

static void add_row(struct redis_call *call, size_t i, const struct store_row *row) {
  static const struct str states[] = {
      [STORE_ROW_NONE] = {"", 0}, [STORE_ROW_ONLINE] = {"online", 6}, [STORE_ROW_OFFLINE] = {"offline", 7}};
  call_int(call, store_key_index(SESSION_KEYS, call->bucket_of[i]));
  call_str(call, row->device);
  call_str(call, states[row->state]);
  call_id(call, row->session);
  call_int(call, row->online_since_ms);
  call_int(call, row->ttl_ms);
  if (row->state == STORE_ROW_OFFLINE && row->offline_at_ms != TIME_MS_LOST) {
    call_int(call, row->offline_at_ms);
  } else {
    call_str(call, STR_NONE);
  }
  call_str(call, row->meta);
}

enum status store_rebuild_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition,
                                 const char *token, const char *run_id, int64_t outage_ms, const struct store_row *rows,
                                 size_t count, bool finish) {
  if (count > STORE_ITEMS_MAX) return STATUS_TOO_LARGE;
  const struct rows_head head = {.script = SCRIPT_REBUILD,
                                 .fixed_run_id = token,
                                 .outage_ms = outage_ms,
                                 .own1 = {run_id, REDIS_RUN_ID_LEN},
                                 .own2 = finish ? STR_LIT("finish") : STR_LIT("step")};
  begin_rows(call, target, partition, &head, rows, count);
  for (size_t i = 0; i < count; i++) add_row(call, i, &rows[i]);
  return call_end(call);
}

enum status store_rebuild_decode(const redisReply *reply, int64_t *restored) {
  return reply_is_ok(reply, 2) ? store_int_at(reply, 1, restored) : STATUS_PROTOCOL;
}

enum status store_mark_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition, int64_t outage_ms,
                              const struct store_row *rows, size_t count, int64_t marks_max, bool mark) {
  if (count > STORE_ITEMS_MAX) return STATUS_TOO_LARGE;
  char text[24];
  int len = snprintf(text, sizeof text, "%" PRId64, marks_max);
  const struct rows_head head = {.script = SCRIPT_MARK,
                                 .outage_ms = outage_ms,
                                 .own1 = {text, (size_t)len},
                                 .own2 = mark ? STR_LIT("mark") : STR_LIT("look")};
  begin_rows(call, target, partition, &head, rows, count);
  for (size_t i = 0; i < count; i++) add_row(call, i, &rows[i]);
  return call_end(call);
}

static enum status decode_letters(const redisReply *reply, size_t count, enum disagreement *kinds) {
  struct str letters;
  enum status status = store_str_at(reply, 1, &letters);
  if (status) return status;
  if (letters.len != count) return STATUS_PROTOCOL;
  for (size_t i = 0; i < count; i++) {
    int kind = letters.data[i] == '-' ? AUDIT_UNDECIDED : letters.data[i] - '0';
    if (kind < AGREE || kind > AUDIT_UNDECIDED) return STATUS_PROTOCOL;
    kinds[i] = (enum disagreement)kind;
  }
  return STATUS_OK;
}

enum status store_mark_decode(const redisReply *reply, size_t count, enum disagreement *kinds) {
  int64_t full;
  if (!reply_is_ok(reply, 3)) return STATUS_PROTOCOL;
  enum status status = store_int_at(reply, 2, &full);
  if (!status && full) return STATUS_FULL;
  return status ? status : decode_letters(reply, count, kinds);
}

enum status store_repair_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition,
                                const char *run_id, int64_t outage_ms, const struct store_row *rows,
                                const struct store_marker *markers, size_t count) {
  if (count > STORE_ITEMS_MAX) return STATUS_TOO_LARGE;
  const struct rows_head head = {.script = SCRIPT_REPAIR, .fixed_run_id = run_id, .outage_ms = outage_ms};
  begin_rows(call, target, partition, &head, rows, count);
  for (size_t i = 0; i < count; i++) {
    add_row(call, i, &rows[i]);
    call_id(call, markers[i].entry);
    if (session_id_compare(markers[i].session, SESSION_ID_NONE) == 0) {
      call_str(call, STR_NONE);
    } else {
      call_id(call, markers[i].session);
    }
  }
  return call_end(call);
}

enum status store_repair_decode(const redisReply *reply, size_t count, enum disagreement *repaired) {
  return reply_is_ok(reply, 2) ? decode_letters(reply, count, repaired) : STATUS_PROTOCOL;
}

enum status store_buckets_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition,
                                 uint64_t cursor) {
  call_begin(call, SCRIPT_AUDIT_BUCKETS, 2);
  call_partition_key(call, target, PARTITION_CLOCK, partition);
  call_partition_key(call, target, PARTITION_NEXT, partition);
  call_run_id(call, NULL);
  store_cursor(call, cursor);
  return call_end(call);
}

enum status store_buckets_decode(const redisReply *reply, struct store_buckets *buckets) {
  if (!reply_is_ok(reply, 4)) return STATUS_PROTOCOL;
  enum status status = store_str_at(reply, 1, &buckets->adopted);
  if (!status) status = store_cursor_at(reply, 2, &buckets->cursor);
  buckets->members = reply_at(reply, 3, REDIS_REPLY_ARRAY);
  return !status && buckets->members && buckets->members->elements % 2 == 0 ? STATUS_OK : STATUS_PROTOCOL;
}

enum status store_bucket_devices_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition,
                                        struct str tenant, uint32_t bucket, uint64_t cursor) {
  call_begin(call, SCRIPT_AUDIT_DEVICES, 2);
  call_partition_key(call, target, PARTITION_CLOCK, partition);
  call_bucket_key(call, target, BUCKET_SESSION, partition, tenant, bucket);
  call_run_id(call, NULL);
  store_cursor(call, cursor);
  return call_end(call);
}

enum status store_bucket_devices_decode(const redisReply *reply, uint64_t *cursor, const redisReply **devices) {
  if (!reply_is_ok(reply, 3)) return STATUS_PROTOCOL;
  enum status status = store_cursor_at(reply, 1, cursor);
  *devices = reply_at(reply, 2, REDIS_REPLY_ARRAY);
  return !status && *devices ? STATUS_OK : STATUS_PROTOCOL;
}
