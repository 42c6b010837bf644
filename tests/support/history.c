#include "support/test.h"

#include "support/history.h"
#include "support/scratch.h"

#include <stdlib.h>
#include <string.h>

const char *history_of(struct database *database, const char *tenant, const char *device) {
  return sql_text(database,
                  "SELECT coalesce(string_agg(split_part(type, '.', 3) ||"
                  " CASE WHEN payload ? 'reason' THEN '(' || (payload->>'reason') || ')' ELSE '' END, ' ' ORDER BY seq), '')"
                  " FROM presence.outbox WHERE tenant = $1 AND device = $2",
                  tenant, device, NULL);
}

void history_wait(struct database *database, const char *tenant, const char *device, const char *wanted) {
  const char *seen = "";
  WAIT_UNTIL_TEXT(strcmp(seen = history_of(database, tenant, device), wanted) == 0, 15000,
                  text_format("%s/%s: '%s', wanted '%s'", tenant, device, seen, wanted));
}

int64_t history_count(struct database *database, const char *type) {
  return sql_integer(database, "SELECT count(*) FROM presence.outbox WHERE type = 'presence.device.' || $1", type, NULL);
}

const char *history_payload(struct database *database, const char *tenant, const char *device, int n, const char *member) {
  return sql_text(
      database, "SELECT payload->>$4 FROM presence.outbox WHERE tenant = $1 AND device = $2 ORDER BY seq OFFSET $3::int LIMIT 1",
      tenant, device, text_format("%d", n), member, NULL);
}

void history_check(struct database *database, const struct history_rules *rules) {
  char *statement = place_read(text_format("%s/tests/support/invariants.sql", place_root()), NULL);
  const char *broken = sql_text(database, statement, rules->clock_stepped ? "true" : "false", NULL);
  free(statement);
  if (*broken != '\0') fail_msg("the outbox breaks a rule (rule, tenant, device, seq):\n%s", broken);
}
