#include "support/test.h"

#include "support/fleet.h"
#include "support/hooks.h"

#include <string.h>

const char *hook_add_url(struct world *world, struct receiver *receiver, const char *path, const char *url,
                         const char *const *words) {
  const char *all[24] = {"webhook", "add", "--json", "--tenant", world->tenant, "--url", url};
  size_t count = 7;
  for (; words != NULL && *words != NULL; words++) all[count++] = *words;
  struct outcome outcome = run_program("presencectl", world_environment(world), all);
  if (outcome.code != 0) fail_msg("webhook add ended with %d: %s", outcome.code, outcome.err);
  json_t *json = json_loads(outcome.out, 0, NULL);
  const char *id = json_string_value(json_object_get(json, "id")), *secret = json_string_value(json_object_get(json, "secret"));
  if (id == NULL || secret == NULL) fail_msg("webhook add --json said: %s", outcome.out);
  receiver_secret(receiver, path, secret);
  const char *kept = text_format("%s", id);
  json_decref(json);
  return kept;
}

const char *hook_add(struct world *world, struct receiver *receiver, const char *path, const char *const *words) {
  return hook_add_url(world, receiver, path, receiver_url(receiver, path), words);
}

const char *hook_column(struct world *world, const char *id, const char *column) {
  return sql_text(&world->database, text_format("SELECT %s FROM presence.webhook_status WHERE id = $1", column), id, NULL);
}

void hook_wait_state(struct world *world, const char *id, const char *state) {
  const char *seen = "";
  WAIT_UNTIL_TEXT(strcmp(seen = hook_column(world, id, "state || ' ' || coalesce(paused_reason, '-')"), state) == 0, 30000, seen);
}

void hook_end_leases(struct world *world) {
  PQclear(sql_query(&world->database, "UPDATE presence.webhook SET lease_until = clock_timestamp()", NULL));
}

/* A webhook that is added now is served only by a worker that has asked for its leases since. */
void hook_settle(struct world *world, struct receiver *receiver) {
  static unsigned settled;
  const char *path = text_format("/settled%u", ++settled);
  const char *id = hook_add(world, receiver, path, (const char *[]){"--start", "oldest", NULL});
  WAIT_UNTIL(receiver_accepted(receiver, path) > 0, 30000);
  world_control(world, "webhook", "remove", id, NULL);
}

void hook_cause_events(struct world *world, int first, int count) {
  fleet_beat(world, first, count, 600000);
  for (int i = first; i < first + count; i++)
    expect_status(world->client, 204, "POST", device_path(world, text_format("d%d", i), "/disconnect"), NULL);
}

void hook_events(struct world *world, int first, int count) {
  int64_t before = sql_integer(&world->database, "SELECT count(*) FROM presence.outbox WHERE tenant = $1", world->tenant, NULL);
  hook_cause_events(world, first, count);
  WAIT_UNTIL(sql_integer(&world->database, "SELECT count(*) FROM presence.outbox WHERE tenant = $1", world->tenant, NULL) ==
                 before + 2 * count,
             30000);
}
