/* What the service asks of PostgreSQL besides the append. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "device_row.h"
#include "pg_array.h"

#define DEVICE_ROWS_MAX 1000

static enum status done(PGresult *result, enum status status) {
  PQclear(result);
  return status == STATUS_REFUSED ? STATUS_UNAVAILABLE : status;
}

/* null becomes TIME_MS_LOST. */
static enum status read_int64(const PGresult *result, int row, int column, int64_t *value) {
  *value = TIME_MS_LOST;
  if (PQgetisnull(result, row, column)) return STATUS_OK;
  const char *text = PQgetvalue(result, row, column);
  char *end;
  long long parsed = strtoll(text, &end, 10); /* times before 1970 are negative */
  if (end == text || *end != '\0') return STATUS_PROTOCOL;
  *value = parsed;
  return STATUS_OK;
}

enum status outbox_reject(struct pg_client *client, uint32_t partition, struct session_id entry, struct str fields,
                          const char *error) {
  char partition_text[12], entry_text[SESSION_ID_TEXT_MAX];
  (void)snprintf(partition_text, sizeof partition_text, "%" PRIu32, partition);
  session_id_format(entry, entry_text);
  struct buf json = {0};
  enum status status = buf_append_str(&json, fields);
  if (status == STATUS_OK) status = buf_append(&json, "", 1);
  if (status != STATUS_OK) {
    buf_free(&json);
    return status;
  }
  const char *parameters[] = {partition_text, entry_text, json.data, error};
  PGresult *result;
  status = pg_client_exec(client, "SELECT presence.reject($1, $2, $3, false, $4, NULL)", 4, parameters, &result);
  buf_free(&json);
  return done(result, status);
}

enum status outbox_last_session(struct pg_client *client, uint32_t partition, struct session_id *session) {
  char partition_text[12];
  (void)snprintf(partition_text, sizeof partition_text, "%" PRIu32, partition);
  const char *parameters[] = {partition_text};
  PGresult *result;
  enum status status = pg_client_exec(client, "SELECT session_ms, session_seq FROM presence.partition_state WHERE partition = $1",
                                      1, parameters, &result);
  if (status == STATUS_OK) {
    *session = SESSION_ID_NONE;
    if (PQntuples(result) == 1) status = read_int64(result, 0, 0, &session->ms);
    if (PQntuples(result) == 1 && status == STATUS_OK) status = read_int64(result, 0, 1, &session->seq);
  }
  return done(result, status);
}

enum status outbox_maintain(struct pg_client *client, int64_t retention_days, int64_t forget_days) {
  char retention_text[24], forget_text[24];
  (void)snprintf(retention_text, sizeof retention_text, "%" PRId64, retention_days);
  (void)snprintf(forget_text, sizeof forget_text, "%" PRId64, forget_days);
  const char *parameters[] = {retention_text, forget_text};
  PGresult *result;
  enum status status = pg_client_exec(client, "CALL presence.maintain($1, $2)", 2, parameters, &result);
  return done(result, status);
}

enum status outbox_slowest_reader(struct pg_client *client, int64_t retention_days, struct outbox_reader *reader) {
  char retention_text[24];
  (void)snprintf(retention_text, sizeof retention_text, "%" PRId64, retention_days);
  const char *parameters[] = {retention_text};
  PGresult *result;
  enum status status = pg_client_exec(
      client,
      "SELECT kind || ' ' || name,"
      " round(greatest(CASE WHEN lost THEN 1 ELSE 0 END,"
      "                coalesce(extract(epoch FROM clock_timestamp() - unread_since) / (86400.0 * $1), 0))::numeric, 4) AS used"
      " FROM presence.reader ORDER BY used DESC LIMIT 1",
      1, parameters, &result);
  *reader = (struct outbox_reader){0};
  if (status == STATUS_OK && PQntuples(result) == 1) {
    (void)snprintf(reader->name, sizeof reader->name, "%s", PQgetvalue(result, 0, 0));
    reader->retention_used = strtod(PQgetvalue(result, 0, 1), NULL);
  }
  return done(result, status);
}

enum status outbox_known_devices(struct pg_client *client, struct str tenant, int64_t *known) {
  const Oid types[] = {PG_OID_TEXT};
  const char *const values[] = {tenant.data};
  const int lengths[] = {(int)tenant.len};
  const int formats[] = {1};
  PGresult *result;
  enum status status = pg_client_exec_params(client, "SELECT known FROM presence.tenant_stats WHERE tenant = $1", 1, types,
                                             values, lengths, formats, 0, &result);
  *known = 0;
  if (status == STATUS_OK && PQntuples(result) == 1) status = read_int64(result, 0, 0, known);
  return done(result, status);
}

static enum transition_reason reason_of(const char *text) {
  for (enum transition_reason reason = REASON_TIMEOUT; reason <= REASON_STATE_LOST; reason++) {
    if (strcmp(text, transition_reason_name(reason)) == 0) return reason;
  }
  return REASON_NONE;
}

enum status device_row_read(const PGresult *result, int i, int first, struct device_row *row) {
  *row = (struct device_row){.found = !PQgetisnull(result, i, first)};
  if (!row->found) return STATUS_OK;
  row->online = strcmp(PQgetvalue(result, i, first), "online") == 0;
  int64_t *const numbers[] = {&row->session.ms,   &row->session.seq,   &row->online_since_ms,
                              &row->last_seen_ms, &row->offline_at_ms, &row->ttl_ms};
  enum status status = STATUS_OK;
  for (int n = 0; n < (int)(sizeof numbers / sizeof numbers[0]) && status == STATUS_OK; n++) {
    status = read_int64(result, i, first + 1 + n, numbers[n]);
  }
  row->reason = reason_of(PQgetvalue(result, i, first + 7)); /* "" where null */
  struct str meta = {PQgetvalue(result, i, first + 8), (size_t)PQgetlength(result, i, first + 8)};
  return status == STATUS_OK ? buf_append_str(&row->meta, meta) : status;
}

static enum status ask_device_rows(struct pg_client *client, struct str tenant, const struct pg_array *devices,
                                   PGresult **result) {
  *result = NULL;
  if (devices->status != STATUS_OK) return devices->status;
  const Oid types[] = {PG_OID_TEXT, PG_OID_TEXT_ARRAY};
  const char *const values[] = {tenant.data, devices->bytes.data};
  const int lengths[] = {(int)tenant.len, (int)devices->bytes.len};
  const int formats[] = {1, 1};
  return pg_client_exec_params(
      client,
      "SELECT state, session_ms, session_seq, online_since_ms, last_seen_ms, offline_at_ms, ttl_ms, reason,"
      " meta FROM presence.device_rows($1, $2)",
      2, types, values, lengths, formats, 0, result);
}

enum status outbox_device_rows(struct pg_client *client, struct str tenant, const struct str *devices, size_t count,
                               struct device_row *rows) {
  for (size_t i = 0; i < count; i++) rows[i] = (struct device_row){0};
  if (count == 0) return STATUS_OK;
  if (count > DEVICE_ROWS_MAX) return STATUS_TOO_LARGE;
  struct pg_array names = {0};
  pg_array_begin(&names, PG_OID_TEXT, count);
  for (size_t i = 0; i < count; i++) pg_array_add_bytes(&names, devices[i]);
  PGresult *result;
  enum status status = ask_device_rows(client, tenant, &names, &result);
  if (status == STATUS_OK && PQntuples(result) != (int)count) status = STATUS_PROTOCOL;
  for (int i = 0; i < (int)count && status == STATUS_OK; i++) status = device_row_read(result, i, 0, &rows[i]);
  pg_array_free(&names);
  if (status != STATUS_OK) {
    for (size_t i = 0; i < count; i++) buf_free(&rows[i].meta);
  }
  return done(result, status);
}
