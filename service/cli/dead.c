/* dead.c: dead letters of competing workers (migrations/README.md). */
#include "cli.h"

enum cli_exit dead_list(struct cli *cli) {
  const char *parameters[] = {cli->words[0]};
  return cli_print_query(cli, TABLE_LIST, NULL,
                         "SELECT worker_group AS \"group\", seq, tenant, device, type, attempts, error,"
                         " presence.to_ms(died_at) AS died_ms, payload"
                         " FROM presence.dead_letter d WHERE $1::text IS NULL OR worker_group = $1 ORDER BY worker_group, d.seq",
                         1, parameters);
}

enum cli_exit dead_retry(struct cli *cli) {
  const char *group = cli->words[0], *word = cli->words[1] == NULL ? "all" : cli->words[1];
  bool all = strcmp(word, "all") == 0;
  int64_t seq;
  if (!all && str_to_int64(str_from(word), &seq) != STATUS_OK) {
    return cli_fail_usage("%s is no seq of a dead letter; allowed: a number, or all", word);
  }
  const char *parameters[] = {group, all ? NULL : word};
  return cli_print_query(
      cli, TABLE_OBJECT, "no such dead letter",
      "SELECT retried FROM presence.retry_dead($1, CASE WHEN $2::bigint IS NOT NULL THEN ARRAY[$2::bigint] END)"
      " AS retried WHERE retried > 0 OR $2 IS NULL",
      2, parameters);
}
