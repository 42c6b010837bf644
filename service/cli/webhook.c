#include <openssl/crypto.h>
#include <stdio.h>

#include "cli.h"
#include "hash.h"
#include "transition.h"
#include "webhook/signature.h"
#include "webhook/url.h"

enum { TYPES_TEXT_MAX = 128, KEY_TEXT_MAX = 2 + 2 * WEBHOOK_KEY_BYTES + 1 };

#define STATUS_SQL                                                                                                               \
  "SELECT id::text, tenant, url, types, state, paused_reason, presence.to_ms(paused_at) AS paused_ms,"                           \
  " presence.to_ms(failing_since) AS failing_since_ms, attempts, last_error, presence.to_ms(last_error_at) AS failed_ms,"        \
  " presence.to_ms(last_success_at) AS delivered_ms, position, presence.to_ms(oldest_pending) AS oldest_pending_ms"              \
  " FROM presence.webhook_status"

static bool is_type(struct str word) {
  return str_equal(word, str_from(transition_type_name(TRANSITION_ONLINE))) ||
         str_equal(word, str_from(transition_type_name(TRANSITION_OFFLINE)));
}

/* "a,b" -> "{a,b}"; NULL: all. */
static enum cli_exit read_types(const char *text, char types[TYPES_TEXT_MAX]) {
  const char *online = transition_type_name(TRANSITION_ONLINE), *offline = transition_type_name(TRANSITION_OFFLINE);
  (void)snprintf(types, TYPES_TEXT_MAX, "{%s,%s}", online, offline);
  if (text == NULL) return CLI_OK;
  for (struct str left = str_from(text);;) {
    const char *comma = left.len > 0 ? memchr(left.data, ',', left.len) : NULL;
    struct str word = {left.data, comma != NULL ? (size_t)(comma - left.data) : left.len};
    if (!is_type(word)) return cli_fail_usage("--types = %s: not allowed; allowed: some of %s,%s", text, online, offline);
    if (comma == NULL) break;
    left = (struct str){comma + 1, left.len - word.len - 1};
  }
  int len = snprintf(types, TYPES_TEXT_MAX, "{%s}", text);
  if (len >= TYPES_TEXT_MAX) return cli_fail_usage("--types names a type more than once");
  return CLI_OK;
}

static enum cli_exit check_url(const struct cli *cli, const char *url) {
  const char *why = NULL;
  enum status status = webhook_url_check(url, cli->config.webhook_allow_private == CONFIG_YES, &why);
  if (status == STATUS_INVALID) return cli_fail_usage("--url: not allowed: %s", why); /* it may hold a password: not repeated */
  return status == STATUS_OK ? CLI_OK : cli_fail("%s", status_name(status));
}

static enum cli_exit check_start(const char *start) {
  int64_t seq;
  if (strcmp(start, "now") == 0 || strcmp(start, "oldest") == 0 || str_to_int64(str_from(start), &seq) == STATUS_OK)
    return CLI_OK;
  return cli_fail_usage("--start = %s: not allowed; allowed: now, oldest or a seq", start);
}

/* Once: no later command can show the secret. */
static enum cli_exit print_added(struct cli *cli, const char *id, const char *secret) {
  const char *parameters[] = {id};
  struct table table = {0};
  PGresult *result;
  enum cli_exit code =
      cli_query(cli, "SELECT tenant, url, types, position FROM presence.webhook_status WHERE id = $1", 1, parameters, &result);
  table_column(&table, "id", CELL_TEXT);
  table_column(&table, "secret", CELL_TEXT);
  table_add(&table, str_from(id));
  table_add(&table, str_from(secret));
  if (code == CLI_OK) table_add_result(&table, result);
  enum cli_exit printed = cli_print_table(cli, &table, TABLE_OBJECT);
  PQclear(result);
  return code == CLI_OK ? printed : code;
}

static enum cli_exit fail_add(struct cli *cli, enum status status, const PGresult *result) {
  if (status == STATUS_REFUSED && strcmp(PQresultErrorField(result, PG_DIAG_SQLSTATE), "23503") == 0)
    return cli_fail("no tenant has the id %s", cli->flags[CLI_FLAG_TENANT].value);
  return cli_fail_query(cli, status, result);
}

static enum cli_exit add(struct cli *cli, const char *types, const char *start) {
  uint8_t key[WEBHOOK_KEY_BYTES];
  char key_text[KEY_TEXT_MAX] = "\\x", secret[WEBHOOK_SECRET_TEXT_MAX];
  if (random_bytes(key, sizeof key) != STATUS_OK) return cli_fail("no random bytes for a secret");
  hex_encode(key, sizeof key, key_text + 2);
  key_text[KEY_TEXT_MAX - 1] = '\0';
  webhook_secret_encode(key, secret);
  const char *parameters[] = {cli->flags[CLI_FLAG_TENANT].value, cli->flags[CLI_FLAG_URL].value, types, key_text, start};
  PGresult *result;
  enum status status = pg_client_exec(cli->pg, "SELECT presence.add_webhook($1, $2, $3, $4, $5)", 5, parameters, &result);
  enum cli_exit code = status == STATUS_OK ? print_added(cli, PQgetvalue(result, 0, 0), secret) : fail_add(cli, status, result);
  PQclear(result);
  OPENSSL_cleanse(key, sizeof key);
  OPENSSL_cleanse(key_text, sizeof key_text);
  OPENSSL_cleanse(secret, sizeof secret);
  return code;
}

enum cli_exit webhook_add(struct cli *cli) {
  const struct config_flag *tenant = &cli->flags[CLI_FLAG_TENANT], *url = &cli->flags[CLI_FLAG_URL];
  const char *start = cli->flags[CLI_FLAG_START].given ? cli->flags[CLI_FLAG_START].value : "now";
  char types[TYPES_TEXT_MAX];
  if (!tenant->given || !url->given) return cli_fail_usage("webhook add needs --tenant and --url");
  enum cli_exit code = cli_check_tenant_id(tenant->value);
  if (code == CLI_OK) code = check_url(cli, url->value);
  if (code == CLI_OK) code = read_types(cli->flags[CLI_FLAG_TYPES].value, types);
  if (code == CLI_OK) code = check_start(start);
  return code == CLI_OK ? add(cli, types, start) : code;
}

enum cli_exit webhook_list(struct cli *cli) {
  const char *tenant = cli->flags[CLI_FLAG_TENANT].value;
  enum cli_exit code = tenant == NULL ? CLI_OK : cli_check_tenant_id(tenant);
  if (code != CLI_OK) return code;
  const char *parameters[] = {tenant};
  return cli_print_query(cli, TABLE_LIST, NULL, STATUS_SQL " WHERE $1::text IS NULL OR tenant = $1 ORDER BY webhook_status.id", 1,
                         parameters);
}

static enum cli_exit check_id(const char *id) {
  int64_t number;
  return str_to_int64(str_from(id), &number) == STATUS_OK ? CLI_OK : cli_fail_usage("%s is no webhook id", id);
}

enum cli_exit webhook_show(struct cli *cli) {
  enum cli_exit code = check_id(cli->words[0]);
  if (code != CLI_OK) return code;
  const char *parameters[] = {cli->words[0]};
  return cli_print_query(cli, TABLE_OBJECT, "no such webhook", STATUS_SQL " WHERE webhook_status.id = $1", 1, parameters);
}

/* A function that answers whether there is such a webhook; count of its parameters, of which the first is the id. */
static enum cli_exit change(struct cli *cli, const char *sql, int count, const char *const *parameters) {
  PGresult *result;
  enum cli_exit code = check_id(cli->words[0]);
  if (code != CLI_OK) return code;
  code = cli_query(cli, sql, count, parameters, &result);
  if (code == CLI_OK && strcmp(PQgetvalue(result, 0, 0), "t") != 0) code = cli_fail("no such webhook");
  PQclear(result);
  return code;
}

static enum cli_exit change_and_show(struct cli *cli, const char *sql) {
  const char *parameters[] = {cli->words[0]};
  enum cli_exit code = change(cli, sql, 1, parameters);
  return code == CLI_OK ? webhook_show(cli) : code;
}

enum cli_exit webhook_pause(struct cli *cli) { return change_and_show(cli, "SELECT presence.pause_webhook($1)"); }
enum cli_exit webhook_resume(struct cli *cli) { return change_and_show(cli, "SELECT presence.resume_webhook($1)"); }

enum cli_exit webhook_replay(struct cli *cli) {
  int64_t seq;
  if (!cli->flags[CLI_FLAG_FROM].given) return cli_fail_usage("webhook replay needs --from SEQ");
  enum cli_exit code = cli_flag_number(cli, CLI_FLAG_FROM, 1, INT64_MAX, 0, &seq);
  if (code != CLI_OK) return code;
  const char *parameters[] = {cli->words[0], cli->flags[CLI_FLAG_FROM].value};
  code = change(cli, "SELECT presence.replay_webhook($1, $2)", 2, parameters);
  return code == CLI_OK ? webhook_show(cli) : code;
}

enum cli_exit webhook_remove(struct cli *cli) {
  const char *parameters[] = {cli->words[0]};
  enum cli_exit code = change(cli, "SELECT presence.remove_webhook($1)", 1, parameters);
  if (code != CLI_OK) return code;
  struct table table = {0};
  table_column(&table, "removed", CELL_TEXT);
  table_add(&table, str_from(cli->words[0]));
  return cli_print_table(cli, &table, TABLE_OBJECT);
}
