#include "cli.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "session.h"

__attribute__((format(printf, 1, 0))) static void say(const char *format, va_list arguments) {
  fputs("presencectl: ", stderr);
  vfprintf(stderr, format, arguments);
  fputc('\n', stderr);
}

enum cli_exit cli_fail(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(format, arguments);
  va_end(arguments);
  return CLI_FAILED;
}

enum cli_exit cli_fail_usage(const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(format, arguments);
  va_end(arguments);
  return CLI_USAGE;
}

enum cli_exit cli_fail_query(struct cli *cli, enum status status, const PGresult *result) {
  if (status != STATUS_REFUSED) {
    const char *error = pg_client_error(cli->pg);
    return cli_fail("PostgreSQL: %s", error[0] != '\0' ? error : status_name(status));
  }
  const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  static const char *const schema_errors[] = {"3F000", "42P01", "42883", "42703"}; /* no schema, table, function, column */
  for (size_t i = 0; i < sizeof schema_errors / sizeof schema_errors[0]; i++) {
    if (strcmp(sqlstate, schema_errors[i]) == 0) {
      return cli_fail("the database has no presence schema, or an older one: run `presencectl migrate`");
    }
  }
  return cli_fail("PostgreSQL: %s", PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY));
}

enum cli_exit cli_query(struct cli *cli, const char *sql, int count, const char *const *parameters, PGresult **result) {
  enum status status = pg_client_exec(cli->pg, sql, count, parameters, result);
  return status == STATUS_OK ? CLI_OK : cli_fail_query(cli, status, *result);
}

enum cli_exit cli_print_table(const struct cli *cli, struct table *table, enum table_shape shape) {
  struct buf out = {0};
  enum status status = table_render(table, shape, cli->json, &out);
  enum cli_exit code = status == STATUS_OK ? CLI_OK : cli_fail("%s", status_name(status));
  if (code == CLI_OK && (fwrite(out.data, 1, out.len, stdout) != out.len || fflush(stdout) != 0)) {
    code = cli_fail("standard output cannot be written");
  }
  buf_free(&out);
  table_free(table);
  return code;
}

enum cli_exit cli_print_query(struct cli *cli, enum table_shape shape, const char *missing, const char *sql, int count,
                              const char *const *parameters) {
  PGresult *result;
  enum cli_exit code = cli_query(cli, sql, count, parameters, &result);
  if (code == CLI_OK && missing != NULL && PQntuples(result) == 0) code = cli_fail("%s", missing);
  if (code == CLI_OK) {
    struct table table = {0};
    table_add_result(&table, result);
    code = cli_print_table(cli, &table, shape);
  }
  PQclear(result);
  return code;
}

enum cli_exit cli_flag_number(const struct cli *cli, enum cli_flag flag, int64_t least, int64_t most, int64_t absent,
                              int64_t *value) {
  const struct config_flag *given = &cli->flags[flag];
  *value = absent;
  if (!given->given) return CLI_OK;
  if (str_to_int64(str_from(given->value), value) == STATUS_OK && *value >= least && *value <= most) return CLI_OK;
  return cli_fail_usage("--%s = %s: not allowed; allowed: %" PRId64 " to %" PRId64, given->name, given->value, least, most);
}

enum cli_exit cli_check_tenant_id(const char *id) {
  if (tenant_id_valid(str_from(id))) return CLI_OK;
  return cli_fail_usage("%s is no tenant id; allowed: 1 to %d of a-z 0-9 _ -, not beginning with _ or -", id, TENANT_ID_MAX);
}
