#include "audit/rows.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "outbox/pg_array.h"

void audit_rows_free(struct audit_rows *rows) {
  PQclear(rows->result);
  *rows = (struct audit_rows){0};
}

static void replace(struct audit_rows *rows, PGresult *result) {
  audit_rows_free(rows);
  *rows = (struct audit_rows){.result = result, .count = (size_t)PQntuples(result)};
}

static struct str text_at(const PGresult *result, int row, int column) {
  return (struct str){PQgetvalue(result, row, column), (size_t)PQgetlength(result, row, column)};
}

/* Columns are integers or null by their types. */
static int64_t number_at(const PGresult *result, int row, int column, int64_t none) {
  return PQgetisnull(result, row, column) ? none : strtoll(PQgetvalue(result, row, column), NULL, 10);
}

static enum status copy(char *out, size_t room, struct str text) {
  if (text.len >= room) return STATUS_PROTOCOL;
  memcpy(out, text.data, text.len);
  out[text.len] = '\0';
  return STATUS_OK;
}

/* "{0,3,5}" */
static enum status list_partitions(struct buf *out, const bool *wanted, uint32_t partitions) {
  enum status status = buf_append(out, "{", 1);
  for (uint32_t p = 0; p < partitions && status == STATUS_OK; p++) {
    if (!wanted[p]) continue;
    if (out->len > 1) status = buf_append(out, ",", 1);
    if (status == STATUS_OK) status = buf_append_int64(out, p);
  }
  return status == STATUS_OK ? buf_append(out, "}", 2) : status; /* with the NUL */
}

enum {
  ONLINE_TENANT,
  ONLINE_DEVICE,
  ONLINE_PARTITION,
  ONLINE_MS,
  ONLINE_SEQ,
  ONLINE_SINCE,
  ONLINE_TTL,
  ONLINE_META,
  ONLINE_GENERATION,
  ONLINE_BUCKETS
};

enum status audit_rows_online(struct audit_rows *rows, struct pg_client *client, const bool *wanted, uint32_t partitions,
                              struct audit_place *place, size_t most) {
  struct buf list = {0};
  char most_text[24];
  PGresult *result = NULL;
  (void)snprintf(most_text, sizeof most_text, "%zu", most);
  enum status status = list_partitions(&list, wanted, partitions);
  if (status == STATUS_OK) {
    const char *parameters[] = {list.data, place->tenant, place->device, most_text};
    status =
        pg_client_exec(client,
                       "SELECT tenant, device, partition, session_ms, session_seq, online_since_ms, ttl_ms, meta, generation,"
                       " buckets FROM presence.online_rows($1, $2, $3, $4)",
                       4, parameters, &result);
  }
  buf_free(&list);
  int last = status == STATUS_OK ? PQntuples(result) - 1 : -1;
  struct audit_place next = *place;
  if (last >= 0) {
    status = copy(next.tenant, sizeof next.tenant, text_at(result, last, ONLINE_TENANT));
    if (status == STATUS_OK) status = copy(next.device, sizeof next.device, text_at(result, last, ONLINE_DEVICE));
  }
  if (status != STATUS_OK) {
    PQclear(result);
    return status == STATUS_REFUSED ? STATUS_UNAVAILABLE : status;
  }
  *place = next;
  replace(rows, result);
  return STATUS_OK;
}

static uint32_t bucket_of(struct str device, uint32_t buckets) { return buckets > 0 ? placement_bucket(device, buckets) : 0; }

void audit_rows_online_at(const struct audit_rows *rows, size_t i, uint32_t partitions, struct store_row *row,
                          uint32_t *partition) {
  const PGresult *result = rows->result;
  int n = (int)i;
  *row = (struct store_row){
      .tenant = {.id = text_at(result, n, ONLINE_TENANT),
                 .generation = number_at(result, n, ONLINE_GENERATION, 0),
                 .buckets = (uint32_t)number_at(result, n, ONLINE_BUCKETS, 1)},
      .device = text_at(result, n, ONLINE_DEVICE),
      .state = STORE_ROW_ONLINE,
      .session = {number_at(result, n, ONLINE_MS, 0), number_at(result, n, ONLINE_SEQ, 0)},
      .online_since_ms = number_at(result, n, ONLINE_SINCE, 0),
      .ttl_ms = number_at(result, n, ONLINE_TTL, TTL_MIN_MS),
      .offline_at_ms = TIME_MS_LOST,
      .meta = text_at(result, n, ONLINE_META),
  };
  row->bucket = bucket_of(row->device, row->tenant.buckets);
  *partition = placement_partition(row->tenant.id, row->bucket, partitions);
  if (*partition != (uint32_t)number_at(result, n, ONLINE_PARTITION, partitions)) *partition = partitions;
}

enum { OF_ORD, OF_GENERATION, OF_BUCKETS, OF_STATE, OF_MS, OF_SEQ, OF_SINCE, OF_TTL, OF_OFFLINE_AT, OF_META };

static void take_row(const PGresult *result, int n, const struct audit_name *name, struct store_row *row) {
  struct str state = text_at(result, n, OF_STATE);
  *row = (struct store_row){
      .tenant = {.id = name->tenant,
                 .generation = number_at(result, n, OF_GENERATION, 0),
                 .buckets = (uint32_t)number_at(result, n, OF_BUCKETS, 1)},
      .device = name->device,
      .state = state.len == 0                        ? STORE_ROW_NONE
               : str_equal(state, STR_LIT("online")) ? STORE_ROW_ONLINE
                                                     : STORE_ROW_OFFLINE,
      .session = {number_at(result, n, OF_MS, 0), number_at(result, n, OF_SEQ, 0)},
      .online_since_ms = number_at(result, n, OF_SINCE, 0),
      .ttl_ms = number_at(result, n, OF_TTL, TTL_MIN_MS),
      .offline_at_ms = number_at(result, n, OF_OFFLINE_AT, TIME_MS_LOST),
      .meta = text_at(result, n, OF_META),
  };
  row->bucket = bucket_of(row->device, row->tenant.buckets);
}

enum status audit_rows_of(struct audit_rows *rows, struct pg_client *client, const struct audit_name *names, size_t count,
                          struct store_row *out, bool *found) {
  if (count > STORE_ITEMS_MAX) return STATUS_TOO_LARGE;
  struct pg_array tenants = {0}, devices = {0};
  PGresult *result = NULL;
  pg_array_begin(&tenants, PG_OID_TEXT, count);
  pg_array_begin(&devices, PG_OID_TEXT, count);
  for (size_t i = 0; i < count; i++) {
    pg_array_add_bytes(&tenants, names[i].tenant);
    pg_array_add_bytes(&devices, names[i].device);
    found[i] = false;
  }
  enum status status = tenants.status != STATUS_OK ? tenants.status : devices.status;
  if (status == STATUS_OK) {
    const Oid types[] = {PG_OID_TEXT_ARRAY, PG_OID_TEXT_ARRAY};
    const char *const values[] = {tenants.bytes.data, devices.bytes.data};
    const int lengths[] = {(int)tenants.bytes.len, (int)devices.bytes.len};
    const int formats[] = {1, 1};
    status = pg_client_exec_params(client,
                                   "SELECT ord, generation, buckets, state, session_ms, session_seq, online_since_ms, ttl_ms,"
                                   " offline_at_ms, meta FROM presence.audit_rows($1, $2)",
                                   2, types, values, lengths, formats, 0, &result);
  }
  pg_array_free(&tenants);
  pg_array_free(&devices);
  if (status != STATUS_OK) {
    PQclear(result);
    return status == STATUS_REFUSED ? STATUS_UNAVAILABLE : status;
  }
  replace(rows, result);
  for (int n = 0; n < (int)rows->count; n++) {
    size_t i = (size_t)number_at(result, n, OF_ORD, 0) - 1;
    if (i >= count) return STATUS_PROTOCOL;
    take_row(result, n, &names[i], &out[i]);
    found[i] = true;
  }
  return STATUS_OK;
}
