#include <inttypes.h>
#include <stdio.h>

#include "cli.h"

enum cli_exit rejected_list(struct cli *cli) {
  return cli_print_query(
      cli, TABLE_LIST, NULL,
      "SELECT id, presence.to_ms(rejected_at) AS rejected_ms, partition, entry, sqlstate, error, retryable, fields"
      " FROM presence.rejected ORDER BY rejected.id",
      0, NULL);
}

/* Appends one row of `table`'s; what PostgreSQL says against it is the outcome, not an end. */
static enum cli_exit retry_one(struct cli *cli, const char *id, struct table *table, bool *failed) {
  const char *parameters[] = {id};
  PGresult *result;
  enum cli_exit code = CLI_OK;
  enum status status = pg_client_exec(cli->pg, "SELECT presence.retry_rejected($1)", 1, parameters, &result);
  if (status == STATUS_OK || status == STATUS_REFUSED) {
    *failed = *failed || status == STATUS_REFUSED;
    table_add(table, str_from(id));
    table_add(table, status == STATUS_OK ? str_from(PQgetvalue(result, 0, 0)) : STR_LIT("refused"));
    if (status == STATUS_OK)
      table_add_null(table);
    else
      table_add(table, str_from(PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY)));
  } else {
    code = cli_fail_query(cli, status, result);
  }
  PQclear(result);
  return code;
}

enum cli_exit rejected_retry(struct cli *cli) {
  const char *word = cli->words[0] == NULL ? "all" : cli->words[0];
  bool all = strcmp(word, "all") == 0, failed = false;
  int64_t id;
  if (!all && str_to_int64(str_from(word), &id) != STATUS_OK) {
    return cli_fail_usage("%s is no id of a rejected transition; allowed: a number, or all", word);
  }
  const char *parameters[] = {all ? NULL : word};
  PGresult *result;
  enum cli_exit code =
      cli_query(cli,
                "SELECT id FROM presence.rejected WHERE CASE WHEN $1::bigint IS NULL THEN retryable ELSE id = $1 END"
                " ORDER BY id",
                1, parameters, &result);
  struct table table = {0};
  table_column(&table, "id", CELL_NUMBER);
  table_column(&table, "outcome", CELL_TEXT);
  table_column(&table, "error", CELL_TEXT);
  if (code == CLI_OK && !all && PQntuples(result) == 0) code = cli_fail("no rejected transition has the id %s", word);
  for (int row = 0; row < PQntuples(result) && code == CLI_OK; row++) {
    code = retry_one(cli, PQgetvalue(result, row, 0), &table, &failed);
  }
  if (code == CLI_OK)
    code = cli_print_table(cli, &table, TABLE_LIST);
  else
    table_free(&table);
  PQclear(result);
  return code == CLI_OK && failed ? CLI_FAILED : code;
}
