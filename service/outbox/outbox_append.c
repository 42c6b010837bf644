/* A batch of transitions as parameters of presence.append (migrations/0002_append.sql), and what to do when PostgreSQL refuses
 * it. */
#include "outbox.h"

#include <inttypes.h>
#include <stdio.h>

#include "event_id.h"
#include "failpoint.h"
#include "log.h"
#include "pg_array.h"

/* The array parameters of presence.append, in its order, after the partition. */
enum column {
  COLUMN_TENANT,
  COLUMN_DEVICE,
  COLUMN_SESSION_MS,
  COLUMN_SESSION_SEQ,
  COLUMN_STATE,
  COLUMN_REASON,
  COLUMN_ONLINE_SINCE,
  COLUMN_TTL,
  COLUMN_LAST_SEEN,
  COLUMN_OFFLINE_AT,
  COLUMN_DETECTED_AT,
  COLUMN_META,
  COLUMN_ONLINE_ID,
  COLUMN_OFFLINE_ID,
  COLUMN_COUNT
};

static const struct {
  Oid element, array;
} column_types[COLUMN_COUNT] = {
    [COLUMN_TENANT] = {PG_OID_TEXT, PG_OID_TEXT_ARRAY},       [COLUMN_DEVICE] = {PG_OID_TEXT, PG_OID_TEXT_ARRAY},
    [COLUMN_SESSION_MS] = {PG_OID_INT8, PG_OID_INT8_ARRAY},   [COLUMN_SESSION_SEQ] = {PG_OID_INT8, PG_OID_INT8_ARRAY},
    [COLUMN_STATE] = {PG_OID_TEXT, PG_OID_TEXT_ARRAY},        [COLUMN_REASON] = {PG_OID_TEXT, PG_OID_TEXT_ARRAY},
    [COLUMN_ONLINE_SINCE] = {PG_OID_INT8, PG_OID_INT8_ARRAY}, [COLUMN_TTL] = {PG_OID_INT8, PG_OID_INT8_ARRAY},
    [COLUMN_LAST_SEEN] = {PG_OID_INT8, PG_OID_INT8_ARRAY},    [COLUMN_OFFLINE_AT] = {PG_OID_INT8, PG_OID_INT8_ARRAY},
    [COLUMN_DETECTED_AT] = {PG_OID_INT8, PG_OID_INT8_ARRAY},  [COLUMN_META] = {PG_OID_TEXT, PG_OID_TEXT_ARRAY},
    [COLUMN_ONLINE_ID] = {PG_OID_UUID, PG_OID_UUID_ARRAY},    [COLUMN_OFFLINE_ID] = {PG_OID_UUID, PG_OID_UUID_ARRAY},
};

#define APPEND_SQL                                                                                                               \
  "SELECT online, timeout, disconnect, state_lost, repeats, repairs"                                                             \
  " FROM presence.append($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15)"

struct batch {
  struct pg_array columns[COLUMN_COUNT];
  char partition[12];
};

static const char *state_name(enum transition_type type) { return type == TRANSITION_ONLINE ? "online" : "offline"; }

static void add_text_or_null(struct pg_array *column, const char *text) {
  if (text == NULL)
    pg_array_add_null(column);
  else
    pg_array_add_bytes(column, str_from(text));
}

static void add_time(struct pg_array *column, int64_t time_ms) {
  if (time_ms == TIME_MS_LOST)
    pg_array_add_null(column);
  else
    pg_array_add_int64(column, time_ms);
}

static enum status add_entry(struct pg_array *columns, const struct transition *entry) {
  uint8_t online_id[EVENT_ID_BYTES], offline_id[EVENT_ID_BYTES];
  enum status status = event_id(entry->tenant, entry->device, entry->session, TRANSITION_ONLINE, online_id);
  if (status == STATUS_OK) status = event_id(entry->tenant, entry->device, entry->session, TRANSITION_OFFLINE, offline_id);
  if (status != STATUS_OK) return status;
  bool offline = entry->type == TRANSITION_OFFLINE;
  pg_array_add_bytes(&columns[COLUMN_TENANT], entry->tenant);
  pg_array_add_bytes(&columns[COLUMN_DEVICE], entry->device);
  pg_array_add_int64(&columns[COLUMN_SESSION_MS], entry->session.ms);
  pg_array_add_int64(&columns[COLUMN_SESSION_SEQ], entry->session.seq);
  pg_array_add_bytes(&columns[COLUMN_STATE], str_from(state_name(entry->type)));
  add_text_or_null(&columns[COLUMN_REASON], offline ? transition_reason_name(entry->reason) : NULL);
  pg_array_add_int64(&columns[COLUMN_ONLINE_SINCE], entry->online_since_ms);
  pg_array_add_int64(&columns[COLUMN_TTL], entry->ttl_ms);
  add_time(&columns[COLUMN_LAST_SEEN], entry->last_seen_ms);
  add_time(&columns[COLUMN_OFFLINE_AT], offline ? entry->offline_at_ms : TIME_MS_LOST);
  pg_array_add_int64(&columns[COLUMN_DETECTED_AT], entry->detected_at_ms);
  if (entry->meta.len == 0)
    pg_array_add_null(&columns[COLUMN_META]);
  else
    pg_array_add_bytes(&columns[COLUMN_META], entry->meta);
  pg_array_add_bytes(&columns[COLUMN_ONLINE_ID], (struct str){(const char *)online_id, sizeof online_id});
  pg_array_add_bytes(&columns[COLUMN_OFFLINE_ID], (struct str){(const char *)offline_id, sizeof offline_id});
  return STATUS_OK;
}

static enum status encode(struct batch *batch, const struct transition *entries, size_t count) {
  for (int c = 0; c < COLUMN_COUNT; c++) pg_array_begin(&batch->columns[c], column_types[c].element, count);
  for (size_t i = 0; i < count; i++) {
    enum status status = add_entry(batch->columns, &entries[i]);
    if (status != STATUS_OK) return status;
  }
  for (int c = 0; c < COLUMN_COUNT; c++) {
    if (batch->columns[c].status != STATUS_OK) return batch->columns[c].status;
  }
  return STATUS_OK;
}

static enum status add_counts(const PGresult *result, struct outbox_counts *counts) {
  int64_t *const targets[] = {&counts->online,     &counts->timeout, &counts->disconnect,
                              &counts->state_lost, &counts->repeats, &counts->repairs};
  if (PQntuples(result) != 1 || PQnfields(result) != (int)(sizeof targets / sizeof targets[0])) return STATUS_PROTOCOL;
  for (int i = 0; i < PQnfields(result); i++) {
    int64_t value;
    if (str_to_int64(str_from(PQgetvalue(result, 0, i)), &value) != STATUS_OK) return STATUS_PROTOCOL;
    *targets[i] += value;
  }
  return STATUS_OK;
}

/* One call of presence.append. STATUS_REFUSED: *result has the error. */
static enum status append_batch(struct pg_client *client, struct batch *batch, const struct transition *entries, size_t count,
                                struct outbox_counts *counts, PGresult **result) {
  *result = NULL;
  enum status status = encode(batch, entries, count);
  if (status != STATUS_OK) return status;
  Oid types[1 + COLUMN_COUNT] = {0};
  const char *values[1 + COLUMN_COUNT] = {batch->partition};
  int lengths[1 + COLUMN_COUNT] = {0};
  int formats[1 + COLUMN_COUNT] = {0};
  for (int c = 0; c < COLUMN_COUNT; c++) {
    types[1 + c] = column_types[c].array;
    values[1 + c] = batch->columns[c].bytes.data;
    lengths[1 + c] = (int)batch->columns[c].bytes.len; /* 1000 entries are bounded by the contract's limits */
    formats[1 + c] = 1;
  }
  status = pg_client_send(client, APPEND_SQL, 1 + COLUMN_COUNT, types, values, lengths, formats, 0);
  if (status != STATUS_OK) return status;
  FAILPOINT(publisher_append_sent);
  status = pg_client_receive(client, result);
  return status == STATUS_OK ? add_counts(*result, counts) : status;
}

/* Whether the error is about the values of a row (then every repetition fails) rather than about the server: a rejected
 * transition is out of the way but also out of order, so nothing is rejected in doubt. */
static bool is_about_a_row(const PGresult *result) {
  static const char *const classes[] = {
      "21", /* cardinality violation */
      "22", /* data exception: an untranslatable character, a number out of range */
      "23", /* integrity constraint violation */
      "54", /* program limit exceeded */
  };
  const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  for (size_t i = 0; sqlstate != NULL && i < sizeof classes / sizeof classes[0]; i++) {
    if (strncmp(sqlstate, classes[i], 2) == 0) return true;
  }
  return false;
}

/* ---- what a rejected transition looks like in presence.rejected.fields: the arguments of presence.append */

/* text as a JSON string; *intact becomes false where bytes that are no UTF-8 had to be replaced. */
static enum status json_text(struct buf *out, struct str text, bool *intact) {
  if (str_is_utf8(text)) return buf_append_json_string(out, text);
  *intact = false;
  struct buf clean = {0};
  enum status status = STATUS_OK;
  for (size_t i = 0; i < text.len && status == STATUS_OK;) {
    size_t len = str_utf8_sequence((struct str){text.data + i, text.len - i});
    if (len > 0)
      status = buf_append(&clean, text.data + i, len);
    else
      status = buf_printf(&clean, "\\x%02X", (unsigned)(unsigned char)text.data[i]);
    i += len > 0 ? len : 1;
  }
  if (status == STATUS_OK) status = buf_append_json_string(out, buf_str(&clean));
  buf_free(&clean);
  return status;
}

static enum status json_text_member(struct buf *out, const char *name, struct str text, bool *intact) {
  enum status status = buf_printf(out, ",\"%s\":", name);
  return status == STATUS_OK ? json_text(out, text, intact) : status;
}

static enum status json_time_member(struct buf *out, const char *name, int64_t time_ms) {
  if (time_ms == TIME_MS_LOST) return buf_printf(out, ",\"%s\":null", name);
  return buf_printf(out, ",\"%s\":%" PRId64, name, time_ms);
}

static enum status rejected_fields(struct buf *out, const struct transition *entry, const char *online_id, const char *offline_id,
                                   bool *intact) {
  const char *reason = transition_reason_name(entry->reason);
  bool offline = entry->type == TRANSITION_OFFLINE;
  *intact = true;
  enum status status = buf_printf(out, "{\"state\":\"%s\",\"session_ms\":%" PRId64 ",\"session_seq\":%" PRId64,
                                  state_name(entry->type), entry->session.ms, entry->session.seq);
  if (status == STATUS_OK) status = json_text_member(out, "tenant", entry->tenant, intact);
  if (status == STATUS_OK) status = json_text_member(out, "device", entry->device, intact);
  if (status == STATUS_OK && offline && reason != NULL) status = buf_printf(out, ",\"reason\":\"%s\"", reason);
  if (status == STATUS_OK) status = json_time_member(out, "online_since_ms", entry->online_since_ms);
  if (status == STATUS_OK) status = json_time_member(out, "ttl_ms", entry->ttl_ms);
  if (status == STATUS_OK) status = json_time_member(out, "last_seen_ms", entry->last_seen_ms);
  if (status == STATUS_OK && offline) status = json_time_member(out, "offline_at_ms", entry->offline_at_ms);
  if (status == STATUS_OK) status = json_time_member(out, "detected_at_ms", entry->detected_at_ms);
  if (status == STATUS_OK && entry->meta.len > 0) status = json_text_member(out, "meta", entry->meta, intact);
  if (status == STATUS_OK) status = buf_printf(out, ",\"online_id\":\"%s\",\"offline_id\":\"%s\"}", online_id, offline_id);
  return status;
}

static enum status reject(struct pg_client *client, const char *partition, const struct transition *entry,
                          const PGresult *refusal) {
  uint8_t id[EVENT_ID_BYTES];
  char online_id[EVENT_ID_TEXT_MAX], offline_id[EVENT_ID_TEXT_MAX];
  enum status status = event_id(entry->tenant, entry->device, entry->session, TRANSITION_ONLINE, id);
  if (status != STATUS_OK) return status;
  event_id_format(id, online_id);
  status = event_id(entry->tenant, entry->device, entry->session, TRANSITION_OFFLINE, id);
  if (status != STATUS_OK) return status;
  event_id_format(id, offline_id);
  bool intact;
  struct buf fields = {0};
  PGresult *result = NULL;
  status = rejected_fields(&fields, entry, online_id, offline_id, &intact);
  if (status == STATUS_OK) status = buf_append(&fields, "", 1);
  if (status == STATUS_OK) {
    const char *parameters[] = {partition,
                                entry->type == TRANSITION_ONLINE ? online_id : offline_id,
                                fields.data,
                                intact ? "true" : "false",
                                PQresultErrorField(refusal, PG_DIAG_MESSAGE_PRIMARY),
                                PQresultErrorField(refusal, PG_DIAG_SQLSTATE)};
    status = pg_client_exec(client, "SELECT presence.reject($1, $2, $3, $4, $5, $6)", 6, parameters, &result);
  }
  PQclear(result);
  buf_free(&fields);
  return status;
}

/* Appends the entries, in halves where PostgreSQL refuses them together. The depth is log2(OUTBOX_APPEND_MAX). */
static enum status append_halving(struct pg_client *client, struct batch *batch, const struct transition *entries, size_t count,
                                  struct outbox_counts *counts) {
  PGresult *result = NULL;
  enum status status = append_batch(client, batch, entries, count, counts, &result);
  if (status == STATUS_REFUSED && is_about_a_row(result)) {
    if (count == 1) {
      status = reject(client, batch->partition, entries, result);
      if (status == STATUS_OK) {
        counts->rejected++;
        log_error("transition_rejected", LOG_STR("partition", batch->partition), LOG_TEXT("tenant", entries->tenant),
                  LOG_TEXT("device", entries->device), LOG_STR("state", state_name(entries->type)),
                  LOG_STR("error", PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY)));
      }
    } else {
      size_t half = count / 2;
      status = append_halving(client, batch, entries, half, counts);
      if (status == STATUS_OK) status = append_halving(client, batch, entries + half, count - half, counts);
    }
  }
  PQclear(result);
  return status;
}

enum status outbox_append(struct pg_client *client, uint32_t partition, const struct transition *entries, size_t count,
                          struct outbox_counts *counts) {
  *counts = (struct outbox_counts){0};
  if (count == 0) return STATUS_OK;
  if (count > OUTBOX_APPEND_MAX) return STATUS_TOO_LARGE;
  struct batch batch = {0};
  (void)snprintf(batch.partition, sizeof batch.partition, "%" PRIu32, partition);
  enum status status = append_halving(client, &batch, entries, count, counts);
  for (int c = 0; c < COLUMN_COUNT; c++) pg_array_free(&batch.columns[c]);
  /* Refused for a reason that is not a row's: the server's state, its schema, its grants. Nothing was written: to be repeated. */
  return status == STATUS_REFUSED ? STATUS_UNAVAILABLE : status;
}
