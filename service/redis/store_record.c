/* store_record.c: renew_heartbeats, record_heartbeats and unlisten. The hot path: all goes into one buffer, nothing is allocated
 * once that has grown. */
#include "store_common.h"

enum { OPTION_MAX = 24 };

/* "90000" in the usual case; sections.lua has the letters. */
static void add_option(struct redis_call *call, const struct record_item *item) {
  char text[OPTION_MAX], *end = text + sizeof text, *at = end;
  if (item->meta_action == META_SET) *--at = 'm';
  if (item->meta_action == META_REMOVE) *--at = 'x';
  if (item->want_detail) *--at = 'r';
  if (!item->may_open) *--at = 'n';
  uint64_t ttl = (uint64_t)item->ttl_ms;
  do {
    *--at = (char)('0' + ttl % 10);
    ttl /= 10;
  } while (ttl > 0);
  call_str(call, (struct str){at, (size_t)(end - at)});
}

/* Whether both ask for the same: one group. */
static bool same_option(const struct record_item *a, const struct record_item *b) {
  return a->ttl_ms == b->ttl_ms && a->may_open == b->may_open && a->want_detail == b->want_detail &&
         a->meta_action == b->meta_action;
}

static void add_tenants(struct redis_call *call, const struct record_item *items, size_t count) {
  struct places *tenants = &call->tenants;
  places_clear(tenants);
  for (size_t i = 0; i < count; i++) {
    if (i == 0 || !str_equal(items[i].tenant.id, items[i - 1].tenant.id)) (void)places_number(tenants, &items[i].tenant, 0);
  }
  call_int(call, (int64_t)tenants->count);
  for (size_t i = 0; i < tenants->count; i++) {
    call_str(call, tenants->at[i].tenant->id);
    store_settings(call, tenants->at[i].tenant);
  }
}

static void add_groups(struct redis_call *call, const struct record_item *items, size_t count) {
  int64_t groups = count > 0;
  for (size_t i = 1; i < count; i++) groups += !same_option(&items[i - 1], &items[i]);
  call_int(call, groups);
  for (size_t i = 0, end; i < count; i = end) {
    for (end = i + 1; end < count && same_option(&items[i], &items[end]);) end++;
    add_option(call, &items[i]);
    call_int(call, (int64_t)(end - i));
    for (size_t at = i; at < end; at++) {
      call_str(call, items[at].device);
      if (items[at].meta_action == META_SET) call_str(call, items[at].meta);
    }
  }
}

static void add_keys(struct redis_call *call, const struct redis_target *target, const struct record_section *section) {
  store_session_keys(call, target, section->partition);
  for (size_t i = 0; i < section->count; i++)
    call_bucket_keys(call, target, section->partition, section->items[i].tenant.id, section->items[i].bucket);
}

static void add_renew_keys(struct redis_call *call, const struct redis_target *target, const struct record_section *section) {
  call_partition_key(call, target, PARTITION_CLOCK, section->partition);
  call_partition_key(call, target, PARTITION_TENANT, section->partition);
  for (size_t i = 0; i < section->count; i++) {
    const struct record_item *item = &section->items[i];
    call_bucket_key(call, target, BUCKET_LIVE, section->partition, item->tenant.id, item->bucket);
    call_bucket_key(call, target, BUCKET_DUE, section->partition, item->tenant.id, item->bucket);
  }
}

static const struct form {
  enum script script;
  size_t partition_keys, bucket_keys;
  void (*add_keys)(struct redis_call *call, const struct redis_target *target, const struct record_section *section);
} whole = {SCRIPT_RECORD_HEARTBEATS, SESSION_KEYS, BUCKET_KEY_COUNT, add_keys},
  renew = {SCRIPT_RENEW_HEARTBEATS, 2, 2, add_renew_keys};

bool store_record_joins(const struct redis_target *target) { return target->kind != TARGET_CLUSTER; }

static enum status encode(const struct form *form, struct redis_call *call, const struct redis_target *target,
                          const struct record_options *options, const struct record_section *sections, size_t section_count) {
  size_t never = target->kind == TARGET_CLUSTER, count = 0;
  for (size_t i = 0; i < section_count; i++) count += sections[i].count;
  if (count > STORE_ITEMS_MAX) return STATUS_TOO_LARGE;
  call_begin(call, form->script, section_count * form->partition_keys + count * form->bucket_keys + never);
  for (size_t i = 0; i < section_count; i++) form->add_keys(call, target, &sections[i]);
  /* While a cluster moves a slot, it refuses a call that names a key which is not there; others it takes as long as their keys
   * have not moved. Half a partition must not be heard while the other half is not: so each of these calls names such a key. */
  if (never) call_partition_key(call, target, PARTITION_NEVER, sections[0].partition);
  call_run_id(call, NULL);
  call_int(call, options->outage_ms);
  call_str(call, options->listener);
  call_int(call, options->backlog_cap);
  call_int(call, (int64_t)section_count);
  for (size_t i = 0; i < section_count; i++) {
    add_tenants(call, sections[i].items, sections[i].count);
    add_groups(call, sections[i].items, sections[i].count);
  }
  return call_end(call);
}

enum status store_record_encode(struct redis_call *call, const struct redis_target *target, const struct record_options *options,
                                const struct record_section *sections, size_t section_count) {
  return encode(&whole, call, target, options, sections, section_count);
}

enum status store_renew_encode(struct redis_call *call, const struct redis_target *target, const struct record_options *options,
                               const struct record_section *sections, size_t section_count) {
  return encode(&renew, call, target, options, sections, section_count);
}

static bool has_session(enum record_code code) {
  return code == RECORD_RENEWED || code == RECORD_OPENED || code == RECORD_REOPENED;
}

static enum status decode_detail(const redisReply *detail, struct record_outcome *outcome) {
  enum status status = store_id_at(detail, 0, &outcome->session);
  if (!status) status = store_int_at(detail, 1, &outcome->online_since_ms);
  if (!status) status = store_str_at(detail, 2, &outcome->meta);
  return status;
}

/* Details come in the items' order, for those that asked and have an open session; the call is not at hand here, so that a code
 * tells by a capital letter that a detail follows. */
static enum status decode_code(char letter, enum record_code *code, bool *detail) {
  *detail = letter >= 'A' && letter <= 'F';
  int number = letter - (*detail ? 'A' : '0');
  if (number < RECORD_RENEWED || number > RECORD_LEFT) return STATUS_PROTOCOL;
  *code = (enum record_code)number;
  return STATUS_OK;
}

static const struct {
  const char *name;
  int64_t reply;
} field_replies[FIELD_REPLY_COUNT] = {
    [FIELD_MISSING] = {"-2", -2}, [FIELD_NOT_SET] = {"0", 0}, [FIELD_SET] = {"1", 1}, [FIELD_DELETED] = {"2", 2}};

const char *field_reply_name(enum field_reply reply) { return field_replies[reply].name; }

static enum status decode_field_replies(const redisReply *pairs, int64_t counts[FIELD_REPLY_COUNT]) {
  if (!pairs || pairs->elements % 2 != 0) return STATUS_PROTOCOL;
  for (size_t i = 0; i < FIELD_REPLY_COUNT; i++) counts[i] = 0;
  for (size_t i = 0; i < pairs->elements; i += 2) {
    int64_t reply, count;
    enum status status = store_int_at(pairs, i, &reply);
    if (!status) status = store_int_at(pairs, i + 1, &count);
    if (status) return status;
    for (size_t f = 0; f < FIELD_REPLY_COUNT; f++) {
      if (field_replies[f].reply == reply) counts[f] += count;
    }
  }
  return STATUS_OK;
}

enum status store_record_decode(const redisReply *replies, size_t section, size_t count, struct record_reply *head,
                                struct record_outcome *outcomes) {
  enum { HEAD = 5 };
  struct str codes = STR_NONE;
  if (replies->type != REDIS_REPLY_ARRAY || section >= replies->elements) return STATUS_PROTOCOL;
  const redisReply *reply = replies->element[section];
  enum reply_verdict verdict = reply_judge(reply);
  if (verdict != REPLY_FINE) return reply_verdict_status(verdict);
  if (!reply_is_ok(reply, HEAD)) return STATUS_PROTOCOL;
  enum status status = store_int_at(reply, 1, &head->now_ms);
  if (!status) status = store_int_at(reply, 2, &head->deaf_ms);
  if (!status) status = store_str_at(reply, 3, &codes);
  if (!status) status = decode_field_replies(reply_at(reply, 4, REDIS_REPLY_ARRAY), head->field_replies);
  bool all_renewed = codes.len == 0;
  if (status || (!all_renewed && codes.len != count)) return STATUS_PROTOCOL;
  size_t next = HEAD;
  for (size_t i = 0; i < count; i++) {
    bool detail;
    outcomes[i] = (struct record_outcome){.code = RECORD_RENEWED};
    if (all_renewed) continue;
    status = decode_code(codes.data[i], &outcomes[i].code, &detail);
    if (!status && detail) status = has_session(outcomes[i].code) ? STATUS_OK : STATUS_PROTOCOL;
    if (!status && detail) status = decode_detail(reply_at(reply, next++, REDIS_REPLY_ARRAY), &outcomes[i]);
    if (status) return status;
  }
  return next == reply->elements ? STATUS_OK : STATUS_PROTOCOL;
}

enum status store_unlisten_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition,
                                  struct str listener) {
  call_begin(call, SCRIPT_UNLISTEN, 1);
  call_partition_key(call, target, PARTITION_CLOCK, partition);
  call_run_id(call, NULL);
  call_str(call, listener);
  return call_end(call);
}
