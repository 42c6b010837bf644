/* store_devices.c: read_devices and disconnect. */
#include "store_common.h"

enum status store_disconnect_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition,
                                    int64_t outage_ms, const struct store_tenant *tenant, uint32_t bucket, struct str device,
                                    const struct session_id *only) {
  call_begin(call, SCRIPT_DISCONNECT, SESSION_KEYS + BUCKET_KEY_COUNT);
  store_session_keys(call, target, partition);
  call_bucket_keys(call, target, partition, tenant->id, bucket);
  call_run_id(call, NULL);
  call_int(call, outage_ms);
  store_settings(call, tenant);
  call_str(call, device);
  if (only) {
    call_id(call, *only);
  } else {
    call_str(call, STR_NONE);
  }
  return call_end(call);
}

enum status store_disconnect_decode(const redisReply *reply, enum disconnect_code *code, struct session_id *open) {
  static const struct {
    const char *word;
    bool session; /* follows */
  } codes[] = {
      [DISCONNECT_CLOSED] = {"closed", true},
      [DISCONNECT_NOTHING_OPEN] = {"nothing_open", false},
      [DISCONNECT_OTHER_SESSION] = {"other_session", true},
      [DISCONNECT_STALE] = {"stale", false},
  };
  *open = SESSION_ID_NONE;
  if (!reply_is_ok(reply, 2)) return STATUS_PROTOCOL;
  for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
    if (!reply_is_word(reply->element[1], codes[i].word)) continue;
    *code = (enum disconnect_code)i;
    return codes[i].session ? store_id_at(reply, 2, open) : STATUS_OK;
  }
  return STATUS_PROTOCOL;
}

enum { READ_KEYS = 3 };

enum status store_read_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition, int64_t outage_ms,
                              const struct store_tenant *tenant, const struct read_item *items, size_t count) {
  if (count > STORE_ITEMS_MAX) return STATUS_TOO_LARGE;
  places_clear(&call->buckets);
  for (size_t i = 0; i < count; i++) call->bucket_of[i] = places_number(&call->buckets, tenant, items[i].bucket);

  call_begin(call, SCRIPT_READ_DEVICES, READ_KEYS + call->buckets.count * BUCKET_KEY_COUNT);
  call_partition_key(call, target, PARTITION_CLOCK, partition);
  call_partition_key(call, target, PARTITION_CLOSED, partition);
  call_partition_key(call, target, PARTITION_TENANT, partition);
  store_bucket_keys(call, target, partition);
  call_run_id(call, NULL);
  call_int(call, outage_ms);
  call_str(call, tenant->id);
  store_settings(call, tenant);
  for (size_t i = 0; i < count; i++) {
    call_int(call, store_key_index(READ_KEYS, call->bucket_of[i]));
    call_str(call, items[i].device);
  }
  return call_end(call);
}

static enum status decode_state(struct str word, enum store_state *state) {
  static const struct {
    struct str word;
    enum store_state state;
  } states[] = {
      {{"online", 6}, STORE_ONLINE}, {{"unknown", 7}, STORE_UNKNOWN}, {{"over", 4}, STORE_OVER}, {{"closed", 6}, STORE_CLOSED}};
  for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
    if (!str_equal(word, states[i].word)) continue;
    *state = states[i].state;
    return STATUS_OK;
  }
  return STATUS_PROTOCOL;
}

static enum status decode_device(const redisReply *item, struct store_device *device) {
  *device = (struct store_device){.state = STORE_NONE};
  if (item->type == REDIS_REPLY_INTEGER) return STATUS_OK;
  struct str state = STR_NONE, reason = STR_NONE;
  enum status status = store_str_at(item, 0, &state);
  if (!status) status = decode_state(state, &device->state);
  if (!status) status = store_id_at(item, 1, &device->session);
  if (!status) status = store_int_at(item, 2, &device->online_since_ms);
  if (!status) status = store_int_or_at(item, 3, TIME_MS_LOST, &device->last_seen_ms);
  if (!status) status = store_int_at(item, 4, &device->ttl_ms);
  if (!status) status = store_int_or_at(item, 5, 0, &device->offline_at_ms);
  if (!status) status = store_str_at(item, 6, &reason);
  if (!status) status = store_reason(reason, &device->reason);
  if (!status) status = store_str_at(item, 7, &device->meta);
  return status;
}

enum status store_read_decode(const redisReply *reply, size_t count, int64_t *now_ms, struct store_device *devices) {
  if (store_is_stale(reply)) return STATUS_STALE;
  if (!reply_is_ok(reply, 2) || reply->elements != count + 2) return STATUS_PROTOCOL;
  enum status status = store_int_at(reply, 1, now_ms);
  for (size_t i = 0; i < count && !status; i++) status = decode_device(reply->element[i + 2], &devices[i]);
  return status;
}
