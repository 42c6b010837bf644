#include <stdlib.h>

#include "redis_side.h"

/* Adds what a partition counts to the tenants of `rows` (sorted by id, byte order); a tenant that is not there any more is left
 * out. */
static enum status add_counts(const redisReply *reply, const PGresult *rows, int64_t *online) {
  const redisReply *pairs;
  enum status status = store_counts_decode(reply, &pairs);
  for (size_t i = 0; status == STATUS_OK && i + 1 < pairs->elements; i += 2) {
    const redisReply *tenant = pairs->element[i], *count = pairs->element[i + 1];
    int64_t value;
    if (str_to_int64((struct str){count->str, count->len}, &value) != STATUS_OK) return STATUS_PROTOCOL;
    int low = 0, high = PQntuples(rows);
    while (low < high) {
      int middle = low + (high - low) / 2;
      int order = strcmp(PQgetvalue(rows, middle, 0), tenant->str);
      if (order == 0) {
        online[middle] += value;
        break;
      }
      if (order < 0)
        low = middle + 1;
      else
        high = middle;
    }
  }
  return status;
}

/* known is what both sides know: a device that has just opened its first session has no row yet. */
static enum cli_exit print_counts(const struct cli *cli, const PGresult *rows, const int64_t *online, enum table_shape shape) {
  struct table table = {0};
  table_column(&table, "tenant", CELL_TEXT);
  table_column(&table, "online", CELL_NUMBER);
  table_column(&table, "offline", CELL_NUMBER);
  table_column(&table, "known", CELL_NUMBER);
  for (int row = 0; row < PQntuples(rows); row++) {
    int64_t known = 0;
    if (str_to_int64(str_from(PQgetvalue(rows, row, 1)), &known) != STATUS_OK) table.status = STATUS_PROTOCOL;
    if (known < online[row]) known = online[row];
    table_add(&table, str_from(PQgetvalue(rows, row, 0)));
    table_add_number(&table, online[row]);
    table_add_number(&table, known - online[row]);
    table_add_number(&table, known);
  }
  return cli_print_table(cli, &table, shape);
}

static enum cli_exit count(struct cli *cli, const PGresult *rows, enum table_shape shape) {
  struct redis_side side;
  int64_t *online = calloc((size_t)PQntuples(rows) + 1, sizeof *online);
  if (online == NULL) return cli_fail("out of memory");
  enum cli_exit code = redis_side_open(cli, &side);
  if (code == CLI_OK) {
    enum status status = redis_side_ask_all(&side, store_counts_encode);
    for (size_t i = 0; i < side.round.count && status == STATUS_OK; i++) status = add_counts(side.round.replies[i], rows, online);
    code = status == STATUS_OK ? print_counts(cli, rows, online, shape) : redis_side_fail(&side, status);
  }
  redis_side_close(&side);
  free(online);
  return code;
}

enum cli_exit counts_show(struct cli *cli) {
  const char *parameters[] = {cli->words[0]}; /* NULL: all */
  enum cli_exit code = parameters[0] == NULL ? CLI_OK : cli_check_tenant_id(parameters[0]);
  if (code != CLI_OK) return code;
  PGresult *rows;
  code = cli_query(cli, "SELECT id, known FROM presence.directory_tenant WHERE $1::text IS NULL OR id = $1 ORDER BY id", 1,
                   parameters, &rows);
  if (code == CLI_OK && parameters[0] != NULL && PQntuples(rows) == 0) code = cli_fail("no such tenant");
  if (code == CLI_OK) code = count(cli, rows, parameters[0] == NULL ? TABLE_LIST : TABLE_OBJECT);
  PQclear(rows);
  return code;
}
