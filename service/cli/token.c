#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdio.h>

#include "cli.h"
#include "hash.h"

/* A secret is "prs_" and 32 random bytes in base64url without padding (RFC 4648 section 5). PostgreSQL keeps its SHA-256. */
#define SECRET_PREFIX "prs_"
enum { SECRET_BYTES = 32, SECRET_TEXT_MAX = sizeof SECRET_PREFIX + 43, DIGEST_TEXT_MAX = 2 + 2 * HASH_SHA256_BYTES + 1 };

static void base64url_encode(const uint8_t *bytes, size_t len, char *out) {
  static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  uint32_t bits = 0;
  int held = 0;
  for (size_t i = 0; i < len; i++) {
    bits = bits << 8 | bytes[i];
    for (held += 8; held >= 6; held -= 6) *out++ = digits[bits >> (held - 6) & 63];
  }
  if (held > 0) *out++ = digits[bits << (6 - held) & 63];
  *out = '\0';
}

static enum status make_secret(char secret[SECRET_TEXT_MAX], char digest_text[DIGEST_TEXT_MAX]) {
  uint8_t bytes[SECRET_BYTES], digest[HASH_SHA256_BYTES];
  enum status status = random_bytes(bytes, sizeof bytes);
  if (status != STATUS_OK) return status;
  const struct str prefix = STR_LIT(SECRET_PREFIX);
  memcpy(secret, prefix.data, prefix.len);
  base64url_encode(bytes, sizeof bytes, secret + prefix.len);
  OPENSSL_cleanse(bytes, sizeof bytes);
  status = hash_sha256(str_from(secret), digest);
  if (status != STATUS_OK) return status;
  memcpy(digest_text, "\\x", 2);
  hex_encode(digest, sizeof digest, digest_text + 2);
  digest_text[DIGEST_TEXT_MAX - 1] = '\0';
  return STATUS_OK;
}

/* "device,read" → "{device,read}", each word known and once. */
static enum cli_exit read_scopes(const char *text, char scopes[40]) {
  static const char *const known[] = {"device", "read", "events"};
  bool seen[sizeof known / sizeof known[0]] = {false};
  for (struct str left = str_from(text);;) {
    const char *comma = left.len == 0 ? NULL : memchr(left.data, ',', left.len);
    struct str word = {left.data, comma == NULL ? left.len : (size_t)(comma - left.data)};
    size_t i = 0;
    while (i < sizeof known / sizeof known[0] && !str_equal(word, str_from(known[i]))) i++;
    if (i == sizeof known / sizeof known[0] || seen[i]) {
      return cli_fail_usage("--scope = %s: not allowed; allowed: some of device,read,events", text);
    }
    seen[i] = true;
    if (comma == NULL) break;
    left = (struct str){comma + 1, left.len - word.len - 1};
  }
  (void)snprintf(scopes, 40, "{%s}", text); /* three different known words: 19 characters at most */
  return CLI_OK;
}

static enum cli_exit fail_create(struct cli *cli, enum status status, const PGresult *result) {
  if (status == STATUS_REFUSED && strcmp(PQresultErrorField(result, PG_DIAG_SQLSTATE), "23503") == 0) {
    return cli_fail("no tenant has the id %s", cli->flags[CLI_FLAG_TENANT].value);
  }
  return cli_fail_query(cli, status, result);
}

static enum cli_exit print_created(struct cli *cli, const PGresult *result, const char *secret) {
  struct table table = {0};
  table_column(&table, "id", CELL_TEXT);
  table_column(&table, "secret", CELL_TEXT);
  table_column(&table, "tenant", CELL_TEXT);
  table_column(&table, "scopes", CELL_WORDS);
  table_column(&table, "expires_ms", CELL_TIME);
  table_add(&table, str_from(PQgetvalue(result, 0, 0)));
  table_add(&table, str_from(secret));
  for (int c = 1; c < 4; c++) {
    if (PQgetisnull(result, 0, c))
      table_add_null(&table);
    else
      table_add(&table, str_from(PQgetvalue(result, 0, c)));
  }
  return cli_print_table(cli, &table, TABLE_OBJECT);
}

enum cli_exit token_create(struct cli *cli) {
  const struct config_flag *tenant = &cli->flags[CLI_FLAG_TENANT], *scope = &cli->flags[CLI_FLAG_SCOPE];
  bool admin = cli->flags[CLI_FLAG_ADMIN].given;
  if (admin ? tenant->given || scope->given : !tenant->given || !scope->given) {
    return cli_fail_usage("token create needs --tenant and --scope, or --admin alone");
  }
  char scopes[40] = "{admin}", seconds[24], secret[SECRET_TEXT_MAX], digest[DIGEST_TEXT_MAX];
  int64_t expires_in_s;
  enum cli_exit code = cli_flag_number(cli, CLI_FLAG_EXPIRES_IN_S, 1, INT64_C(3155760000), 0, &expires_in_s);
  if (code == CLI_OK && !admin) code = cli_check_tenant_id(tenant->value);
  if (code == CLI_OK && !admin) code = read_scopes(scope->value, scopes);
  if (code != CLI_OK) return code;
  if (make_secret(secret, digest) != STATUS_OK) return cli_fail("no random bytes for a secret");
  (void)snprintf(seconds, sizeof seconds, "%" PRId64, expires_in_s);
  const char *parameters[] = {admin ? NULL : tenant->value, digest, scopes, expires_in_s == 0 ? NULL : seconds};
  PGresult *result;
  enum status status =
      pg_client_exec(cli->pg,
                     "INSERT INTO presence.token (tenant, sha256, scopes, expires_at)"
                     " VALUES ($1, $2, $3, date_trunc('milliseconds', clock_timestamp()) + $4 * interval '1 second')"
                     " RETURNING id, tenant, scopes, presence.to_ms(expires_at)",
                     4, parameters, &result);
  code = status == STATUS_OK ? print_created(cli, result, secret) : fail_create(cli, status, result);
  PQclear(result);
  OPENSSL_cleanse(secret, sizeof secret);
  return code;
}

enum cli_exit token_list(struct cli *cli) {
  const char *tenant = cli->flags[CLI_FLAG_TENANT].value;
  enum cli_exit code = tenant == NULL ? CLI_OK : cli_check_tenant_id(tenant);
  if (code != CLI_OK) return code;
  const char *parameters[] = {tenant};
  return cli_print_query(cli, TABLE_LIST, NULL,
                         "SELECT id::text, tenant, scopes, presence.to_ms(created_at) AS created_ms,"
                         " presence.to_ms(expires_at) AS expires_ms, presence.to_ms(revoked_at) AS revoked_ms"
                         " FROM presence.token WHERE $1::text IS NULL OR tenant = $1 ORDER BY token.id",
                         1, parameters);
}

enum cli_exit token_revoke(struct cli *cli) {
  int64_t id;
  if (str_to_int64(str_from(cli->words[0]), &id) != STATUS_OK) return cli_fail_usage("%s is no token id", cli->words[0]);
  const char *parameters[] = {cli->words[0]};
  return cli_print_query(cli, TABLE_OBJECT, "no such token",
                         "UPDATE presence.token SET revoked_at = coalesce(revoked_at, clock_timestamp()) WHERE id = $1"
                         " RETURNING id::text, tenant, scopes, presence.to_ms(revoked_at) AS revoked_ms",
                         1, parameters);
}
