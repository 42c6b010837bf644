/* cli.h: what presencectl's commands share. A command returns the program's exit code and has said on stderr what was wrong. */
#ifndef PRESENCE_CLI_H
#define PRESENCE_CLI_H

#include "config.h"
#include "pg.h"
#include "table.h"

enum cli_exit { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

enum cli_flag {
#define FLAG(id, name, takes_value) CLI_FLAG_##id,
#define COMMAND(function, noun, verb, least, most, flags, usage, meaning)
#include "commands.def"
#undef FLAG
#undef COMMAND
  CLI_FLAG_COUNT
};

struct cli {
  struct config config;
  struct config_flag flags[CLI_FLAG_COUNT];
  char **words; /* those after noun and verb; NULL after the last */
  struct pg_client *pg;
  bool json;
};

#define FLAG(id, name, takes_value)
#define COMMAND(function, noun, verb, least, most, flags, usage, meaning) enum cli_exit function(struct cli *cli) MUST_CHECK;
#include "commands.def"
#undef FLAG
#undef COMMAND

/* One line on stderr; returns CLI_FAILED and CLI_USAGE. */
enum cli_exit cli_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
enum cli_exit cli_fail_usage(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Runs a statement; on anything but CLI_OK it has said why. *result is the caller's to PQclear, also then. */
enum cli_exit cli_query(struct cli *cli, const char *sql, int count, const char *const *parameters, PGresult **result) MUST_CHECK;
/* Says why a statement did not work: what cli_query does after pg_client_exec. */
enum cli_exit cli_fail_query(struct cli *cli, enum status status, const PGresult *result);
/* Runs a statement and prints its rows. `missing`: what to say where there is none, NULL: an empty list is an answer. */
enum cli_exit cli_print_query(struct cli *cli, enum table_shape shape, const char *missing, const char *sql, int count,
                              const char *const *parameters) MUST_CHECK;
/* Prints on stdout and frees the table. */
enum cli_exit cli_print_table(const struct cli *cli, struct table *table, enum table_shape shape) MUST_CHECK;

/* The flag's value, or `absent` where it is not given. Checks that it is a whole number from least to most. */
enum cli_exit cli_flag_number(const struct cli *cli, enum cli_flag flag, int64_t least, int64_t most, int64_t absent,
                              int64_t *value) MUST_CHECK;
enum cli_exit cli_check_tenant_id(const char *id) MUST_CHECK;

#endif
