/* store_stream.c: stream, entries and trim, the publisher's steps. */
#include "store_common.h"

enum status store_stream_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition,
                                size_t entries_max) {
  if (entries_max == 0) return STATUS_INVALID;
  call_begin(call, SCRIPT_STREAM, 2);
  call_partition_key(call, target, PARTITION_CLOCK, partition);
  call_partition_key(call, target, PARTITION_TRANSITIONS, partition);
  call_run_id(call, NULL);
  call_int(call, (int64_t)entries_max);
  return call_end(call);
}

enum status store_entries_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition,
                                 size_t entries_max) {
  call_begin_plain(call, SCRIPT_STREAM, STR_LIT("XRANGE"));
  call_partition_key(call, target, PARTITION_TRANSITIONS, partition);
  call_str(call, STR_LIT("-"));
  call_str(call, STR_LIT("+"));
  call_str(call, STR_LIT("COUNT"));
  call_int(call, (int64_t)entries_max);
  return call_end(call);
}

/* The fields of an entry, in the order in which session.lua's add() writes them. */
enum field {
  FIELD_TYPE,
  FIELD_TENANT,
  FIELD_DEVICE,
  FIELD_SESSION,
  FIELD_ONLINE_SINCE,
  FIELD_LAST_SEEN,
  FIELD_TTL,
  FIELD_REASON,
  FIELD_OFFLINE_AT,
  FIELD_DETECTED_AT,
  FIELD_META,
  FIELD_COUNT
};

static const char *const field_names[FIELD_COUNT] = {
    [FIELD_TYPE] = "type",
    [FIELD_TENANT] = "tenant",
    [FIELD_DEVICE] = "device",
    [FIELD_SESSION] = "session",
    [FIELD_ONLINE_SINCE] = "online_since",
    [FIELD_LAST_SEEN] = "last_seen",
    [FIELD_TTL] = "ttl",
    [FIELD_REASON] = "reason",
    [FIELD_OFFLINE_AT] = "offline_at",
    [FIELD_DETECTED_AT] = "detected_at",
    [FIELD_META] = "meta",
};

static bool has_fields(const redisReply *fields) {
  if (!fields || fields->elements != 2 * (size_t)FIELD_COUNT) return false;
  for (size_t i = 0; i < FIELD_COUNT; i++) {
    struct str value;
    if (!reply_is_word(fields->element[2 * i], field_names[i]) || store_str_at(fields, 2 * i + 1, &value)) return false;
  }
  return true;
}

static struct str value_of(const redisReply *fields, enum field field) {
  return reply_str(fields->element[2 * (size_t)field + 1]);
}

static enum status int_of(const redisReply *fields, enum field field, int64_t *value) {
  return store_int_at(fields, 2 * (size_t)field + 1, value);
}

static enum status decode_transition(const redisReply *fields, struct session_id id, struct transition *transition) {
  bool online = str_equal(value_of(fields, FIELD_TYPE), STR_LIT("online"));
  if (!online && !str_equal(value_of(fields, FIELD_TYPE), STR_LIT("offline"))) return STATUS_PROTOCOL;
  *transition = (struct transition){.type = online ? TRANSITION_ONLINE : TRANSITION_OFFLINE,
                                    .tenant = value_of(fields, FIELD_TENANT),
                                    .device = value_of(fields, FIELD_DEVICE),
                                    .session = id,
                                    .meta = value_of(fields, FIELD_META)};
  if (!tenant_id_valid(transition->tenant) || !device_id_valid(transition->device)) return STATUS_PROTOCOL;
  enum status status = int_of(fields, FIELD_ONLINE_SINCE, &transition->online_since_ms);
  if (!status) status = store_int_or_at(fields, 2 * FIELD_LAST_SEEN + 1, TIME_MS_LOST, &transition->last_seen_ms);
  if (!status) status = int_of(fields, FIELD_TTL, &transition->ttl_ms);
  if (!status) status = store_reason(value_of(fields, FIELD_REASON), &transition->reason);
  if (!status) status = int_of(fields, FIELD_DETECTED_AT, &transition->detected_at_ms);
  /* An online entry written again by the audit names the session that it opens; else that is the entry's own id. */
  if (!status && value_of(fields, FIELD_SESSION).len > 0)
    status = store_id_at(fields, 2 * FIELD_SESSION + 1, &transition->session);
  if (status || online) return status;
  if (value_of(fields, FIELD_SESSION).len == 0 || transition->reason == REASON_NONE) return STATUS_PROTOCOL;
  return int_of(fields, FIELD_OFFLINE_AT, &transition->offline_at_ms);
}

static enum status decode_marker(const redisReply *fields, struct transition *marker) {
  *marker = (struct transition){.tenant = value_of(fields, FIELD_TENANT), .device = value_of(fields, FIELD_DEVICE)};
  if (!tenant_id_valid(marker->tenant) || !device_id_valid(marker->device)) return STATUS_PROTOCOL;
  return value_of(fields, FIELD_SESSION).len > 0 ? store_id_at(fields, 2 * FIELD_SESSION + 1, &marker->session) : STATUS_OK;
}

static enum status decode_entry(const redisReply *reply, struct stream_entry *entry) {
  *entry = (struct stream_entry){.kind = STREAM_BROKEN};
  entry->fields = reply_at(reply, 1, REDIS_REPLY_ARRAY);
  enum status status = store_id_at(reply, 0, &entry->id);
  if (status || !entry->fields) return STATUS_PROTOCOL;
  if (!has_fields(entry->fields)) return STATUS_OK;
  if (str_equal(value_of(entry->fields, FIELD_TYPE), STR_LIT("mark"))) {
    if (!decode_marker(entry->fields, &entry->transition)) entry->kind = STREAM_MARKER;
  } else if (!decode_transition(entry->fields, entry->id, &entry->transition)) {
    entry->kind = STREAM_TRANSITION;
  }
  return STATUS_OK;
}

enum status store_entries_decode(const redisReply *reply, struct stream_entry *entries, size_t *count) {
  enum status status = STATUS_OK;
  if (!reply || reply->type != REDIS_REPLY_ARRAY) return STATUS_PROTOCOL;
  if (*count > reply->elements) *count = reply->elements;
  for (size_t i = 0; i < *count && !status; i++) status = decode_entry(reply->element[i], &entries[i]);
  return status;
}

enum status store_stream_decode(const redisReply *reply, struct stream_head *head, struct stream_entry *entries, size_t *count) {
  if (!reply_is_ok(reply, 4)) return STATUS_PROTOCOL;
  enum status status = store_int_at(reply, 1, &head->now_ms);
  if (!status) status = store_int_at(reply, 2, &head->backlog);
  return status ? STATUS_PROTOCOL : store_entries_decode(reply_at(reply, 3, REDIS_REPLY_ARRAY), entries, count);
}

/* "tenant/device" of a close */
static void add_closed_field(struct redis_call *call, struct str tenant, struct str device) {
  char field[TENANT_ID_MAX + 1 + DEVICE_ID_MAX];
  memcpy(field, tenant.data, tenant.len);
  field[tenant.len] = '/';
  memcpy(field + tenant.len + 1, device.data, device.len);
  call_str(call, (struct str){field, tenant.len + 1 + device.len});
}

enum status store_trim_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition, const char *run_id,
                              const struct stream_entry *entries, size_t count) {
  if (count == 0) return STATUS_INVALID;
  struct session_id keep = entries[count - 1].id;
  if (keep.seq == INT64_MAX) {
    keep = (struct session_id){keep.ms + 1, 0};
  } else {
    keep.seq++;
  }
  call_begin(call, SCRIPT_TRIM, 3);
  call_partition_key(call, target, PARTITION_CLOCK, partition);
  call_partition_key(call, target, PARTITION_TRANSITIONS, partition);
  call_partition_key(call, target, PARTITION_CLOSED, partition);
  call_run_id(call, run_id);
  call_id(call, keep);
  for (size_t i = 0; i < count; i++) {
    const struct transition *transition = &entries[i].transition;
    if (entries[i].kind != STREAM_TRANSITION || transition->type != TRANSITION_OFFLINE) continue;
    add_closed_field(call, transition->tenant, transition->device);
    call_id(call, transition->session);
  }
  return call_end(call);
}
