#include "load.h"

#include <stdlib.h>

/* One row, read every second. On a server that hangs, requests with an unknown token wait for it: theirs is the shorter patience.
 */
enum { STATE_LIMIT_MS = 3000 };

static struct str field(const PGresult *result, int row, int column) {
  if (PQgetisnull(result, row, column)) return STR_NONE;
  return (struct str){PQgetvalue(result, row, column), (size_t)PQgetlength(result, row, column)};
}

static bool number(const PGresult *result, int row, int column, int64_t *value) {
  return str_to_int64(field(result, row, column), value) == STATUS_OK;
}

static bool flag(const PGresult *result, int row, int column) { return str_equal(field(result, row, column), STR_LIT("t")); }

/* The statement's rows with this many columns; the caller clears *result in any case. */
static enum status rows_of(struct pg_client *client, const char *sql, int columns, PGresult **result) {
  *result = NULL;
  enum status status = pg_client_exec(client, sql, 0, NULL, result);
  if (status == STATUS_OK && PQnfields(*result) != columns) status = STATUS_PROTOCOL;
  return status;
}

enum status load_state(struct pg_client *client, int64_t *version, int64_t *now_ms) {
  PGresult *result = NULL;
  pg_client_limit(client, STATE_LIMIT_MS);
  enum status status = rows_of(client, "SELECT version, now_ms FROM presence.directory_state", 2, &result);
  pg_client_limit(client, 0);
  if (status == STATUS_OK && (PQntuples(result) != 1 || !number(result, 0, 0, version) || !number(result, 0, 1, now_ms)))
    status = STATUS_PROTOCOL;
  PQclear(result);
  return status;
}

static enum status add_tenant(struct directory_snapshot *snapshot, const PGresult *result, int row) {
  int64_t buckets = 0;
  struct tenant tenant = {.id = field(result, row, 0), .deleting = flag(result, row, 9)};
  if (!number(result, row, 1, &tenant.generation) || !number(result, row, 2, &buckets) || buckets < 1 || buckets > UINT32_MAX ||
      !number(result, row, 3, &tenant.default_ttl_ms) || !number(result, row, 4, &tenant.min_ttl_ms) ||
      !number(result, row, 5, &tenant.max_ttl_ms) || !number(result, row, 6, &tenant.max_devices) ||
      !number(result, row, 7, &tenant.heartbeats_per_second) || !number(result, row, 8, &tenant.known_devices))
    return STATUS_PROTOCOL;
  tenant.buckets = (uint32_t)buckets;
  return snapshot_add_tenant(snapshot, &tenant);
}

static enum status load_tenants(struct pg_client *client, struct directory_snapshot *snapshot) {
  PGresult *result = NULL;
  enum status status = rows_of(client,
                               "SELECT id, generation, buckets, default_ttl_ms, min_ttl_ms, max_ttl_ms, max_devices,"
                               " heartbeats_per_second, known, deleting FROM presence.directory_tenant",
                               10, &result);
  int rows = status == STATUS_OK ? PQntuples(result) : 0;
  for (int row = 0; row < rows && status == STATUS_OK; row++) status = add_tenant(snapshot, result, row);
  PQclear(result);
  return status;
}

/* "{device,read}" into bits. A scope that this release does not know gives nothing. */
static unsigned parse_scopes(struct str text) {
  static const struct {
    struct str name;
    unsigned bit;
  } known[] = {
      {{"device", 6}, SCOPE_DEVICE}, {{"read", 4}, SCOPE_READ}, {{"events", 6}, SCOPE_EVENTS}, {{"admin", 5}, SCOPE_ADMIN}};
  unsigned scopes = 0;
  size_t start = 0;
  for (size_t i = 0; i <= text.len; i++) {
    if (i < text.len && text.data[i] != ',' && text.data[i] != '{' && text.data[i] != '}') continue;
    for (size_t k = 0; k < sizeof known / sizeof known[0]; k++)
      if (str_equal(known[k].name, (struct str){text.data + start, i - start})) scopes |= known[k].bit;
    start = i + 1;
  }
  return scopes;
}

static enum status add_token(struct directory_snapshot *snapshot, const PGresult *result, int row) {
  struct token token = {.tenant_id = field(result, row, 1),
                        .scopes = parse_scopes(field(result, row, 2)),
                        .expires_ms = INT64_MAX,
                        .revoked = flag(result, row, 4)};
  struct str hex = field(result, row, 0); /* bytea as text: \x and hexadecimal digits */
  if (hex.len < 2 || hex_decode((struct str){hex.data + 2, hex.len - 2}, token.sha256, HASH_SHA256_BYTES) != STATUS_OK)
    return STATUS_PROTOCOL;
  if (!PQgetisnull(result, row, 3) && !number(result, row, 3, &token.expires_ms)) return STATUS_PROTOCOL;
  /* Only an admin token belongs to no tenant, and an admin token to none. */
  if ((token.tenant_id.len == 0) != ((token.scopes & SCOPE_ADMIN) != 0)) return STATUS_PROTOCOL;
  return snapshot_add_token(snapshot, &token);
}

static enum status load_tokens(struct pg_client *client, struct directory_snapshot *snapshot) {
  PGresult *result = NULL;
  enum status status =
      rows_of(client, "SELECT sha256, tenant, scopes, expires_ms, revoked FROM presence.directory_token", 5, &result);
  int rows = status == STATUS_OK ? PQntuples(result) : 0;
  for (int row = 0; row < rows && status == STATUS_OK; row++) status = add_token(snapshot, result, row);
  PQclear(result);
  return status;
}

enum status load_snapshot(struct pg_client *client, int64_t version, struct directory_snapshot **out) {
  struct directory_snapshot *snapshot = NULL;
  enum status status = snapshot_new(version, &snapshot);
  if (status == STATUS_OK) status = load_tenants(client, snapshot);
  if (status == STATUS_OK) status = load_tokens(client, snapshot);
  if (status == STATUS_OK) status = snapshot_finish(snapshot);
  if (status != STATUS_OK) {
    directory_release(snapshot);
    snapshot = NULL;
  }
  *out = snapshot;
  return status;
}

enum status load_known(struct pg_client *client, const struct directory_snapshot *current, struct directory_snapshot **newer) {
  *newer = NULL;
  size_t count = snapshot_tenant_count(current);
  PGresult *result = NULL;
  bool changed = false;
  int64_t *known = calloc(count > 0 ? count : 1, sizeof *known); /* a tenant without a row has no devices */
  enum status status = known != NULL ? STATUS_OK : STATUS_NO_MEMORY;
  if (status == STATUS_OK) status = rows_of(client, "SELECT tenant, known FROM presence.tenant_stats", 2, &result);
  int rows = status == STATUS_OK ? PQntuples(result) : 0;
  for (int row = 0; row < rows && status == STATUS_OK; row++) {
    const struct tenant *tenant = directory_tenant(current, field(result, row, 0));
    if (tenant != NULL && !number(result, row, 1, &known[tenant - snapshot_tenant_at(current, 0)])) status = STATUS_PROTOCOL;
  }
  for (size_t i = 0; i < count && status == STATUS_OK; i++)
    if (known[i] != snapshot_tenant_at(current, i)->known_devices) changed = true;
  if (status == STATUS_OK && changed) status = snapshot_copy_with_known(current, known, newer);
  PQclear(result);
  free(known);
  return status;
}
