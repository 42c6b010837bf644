/* Redis and PostgreSQL lose part of what they knew, and the audit makes them agree again: each of its four repairs is provoked by
 * what provokes it in the field, an append-only file that was rolled back or a database that came from a backup. */
#include "support/test.h"

#include "support/fleet.h"
#include "support/scratch.h"

#include <stdlib.h>
#include <string.h>

static const char *const environment[] = {"PRESENCE_OUTAGE_MS=300", "PRESENCE_SETTLE_MS=300", "PRESENCE_AUDIT_MS=86400000", NULL};

static struct world *start(void **state) {
  return world_start(state, &(struct world_options){.appendonly = true, .environment = environment});
}

static void shell(const char *command) {
  const char *const words[] = {"/bin/sh", "-c", command, NULL};
  struct child child = child_start(&(struct child_options){.argv = words});
  if (child_wait(&child, 10000) != 0) fail_msg("failed: %s", command);
}

/* ---- Redis, rolled back */

/* A copy of the server's file, all of it written. */
static const char *save_redis(struct world *world) {
  const char *copy = scratch_path("saved");
  world_drain(world);
  WAIT_UNTIL(strstr(redis_text(&world->redis, "INFO persistence"), "aof_buffer_length:0\r") != NULL, 5000);
  shell(text_format("cp -a %s %s", world->redis.folder, copy));
  return copy;
}

static void roll_redis_back(struct world *world, const char *copy) {
  redis_server_kill(&world->redis);
  shell(text_format("rm -rf %s/appendonlydir && cp -a %s/appendonlydir %s/", world->redis.folder, copy, world->redis.folder));
  redis_server_restart(&world->redis);
  WAIT_UNTIL(client_call(world->client, "GET", tenant_path(world, "/counts"), NULL)->status == 200, 15000);
  presenced_wait_ready(world->service);
}

/* ---- PostgreSQL, restored from a backup: a copy of the database, as a dump is */

static void sql_do(struct world *world, const char *statement) { PQclear(sql_query(&world->database, statement, NULL)); }

static void save_postgres(struct world *world) {
  world_drain(world);
  sql_do(world, "CREATE SCHEMA backup");
  sql_do(world, "CREATE TABLE backup.device AS SELECT * FROM presence.device");
  sql_do(world, "CREATE TABLE backup.outbox AS SELECT * FROM presence.outbox");
  sql_do(world, "CREATE TABLE backup.partition_state AS SELECT * FROM presence.partition_state");
  sql_do(world, "CREATE TABLE backup.tenant_stats AS SELECT * FROM presence.tenant_stats");
  sql_do(world, "CREATE TABLE backup.outbox_clock AS SELECT * FROM presence.outbox_clock");
}

static void restore_postgres(struct world *world) {
  static const char columns[] =
      "tenant, device, state, session_ms, session_seq, online_since, last_seen, offline_at, reason, ttl_ms,"
      " meta, first_seen, partition, offline_id";
  world_drain(world);
  sql_do(world, "BEGIN");
  sql_do(world, "SELECT pg_advisory_xact_lock(7021947, 1)");
  sql_do(world, "DELETE FROM presence.device");
  sql_do(world, text_format("INSERT INTO presence.device (%s) SELECT %s FROM backup.device", columns, columns));
  static const char *const tables[] = {"outbox", "partition_state", "tenant_stats", "outbox_clock"};
  for (size_t i = 0; i < LENGTH(tables); i++) {
    sql_do(world, text_format("DELETE FROM presence.%s", tables[i]));
    sql_do(world, text_format("INSERT INTO presence.%s SELECT * FROM backup.%s", tables[i], tables[i]));
  }
  sql_do(world, "COMMIT");
  sql_do(world,
         "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()");
}

/* Counted a moment after the repair. */
static double found(struct world *world, const char *kind) {
  return metric(world, text_format("presence_audit_findings_total{kind=\"%s\"}", kind));
}

static void disconnect(struct world *world, const char *device) {
  expect_status(world->client, 204, "POST", device_path(world, device, "/disconnect"), NULL);
}

/* The session began after the file was saved: row online, no facts. */
static void test_a_session_that_redis_lost_is_restored(void **state) {
  struct world *world = start(state);
  beat(world, "other", 60000);
  const char *saved = save_redis(world);
  beat(world, "d", 2000);
  beat(world, "alive", 60000);
  history_wait(&world->database, world->tenant, "d", "online");
  history_wait(&world->database, world->tenant, "alive", "online");
  roll_redis_back(world, saved);
  WAIT_UNTIL(found(world, "not_in_redis") == 2, 10000);
  beat(world, "alive", 60000);
  history_wait(&world->database, world->tenant, "d", "online offline(timeout)");
  expect_history(world, "alive", "online");
  expect_history(world, "other", "online");
  world_end(world);
}

/* One session ended and another began since: row online in the later one, facts have the older. */
static void test_an_older_session_in_redis_takes_the_later_over(void **state) {
  struct world *world = start(state);
  beat(world, "d", 60000);
  const char *saved = save_redis(world);
  disconnect(world, "d");
  beat(world, "d", 60000);
  history_wait(&world->database, world->tenant, "d", "online offline(disconnect) online");
  roll_redis_back(world, saved);
  WAIT_UNTIL(found(world, "redis_older") == 1, 10000);
  beat(world, "d", 60000);
  assert_string_equal(device_state(world, "d"), "online");
  expect_history(world, "d", "online offline(disconnect) online");
  disconnect(world, "d");
  history_wait(&world->database, world->tenant, "d", "online offline(disconnect) online offline(disconnect)");
  world_end(world);
}

/* It ended since: the row says so, the facts still have it. No second end; a device that is heard begins anew. */
static void test_a_session_that_is_over_ends_in_redis_silently(void **state) {
  struct world *world = start(state);
  beat(world, "d", 60000);
  beat(world, "back", 60000);
  const char *saved = save_redis(world);
  disconnect(world, "d");
  disconnect(world, "back");
  history_wait(&world->database, world->tenant, "d", "online offline(disconnect)");
  history_wait(&world->database, world->tenant, "back", "online offline(disconnect)");
  roll_redis_back(world, saved);
  beat(world, "back", 60000); /* before or after the repair: the same in the end */
  WAIT_UNTIL(keyspace_open_sessions(&world->redis) == 1, 10000);
  WAIT_UNTIL(strcmp(device_state(world, "d"), "offline") == 0, 5000);
  history_wait(&world->database, world->tenant, "back", "online offline(disconnect) online");
  expect_history(world, "d", "online offline(disconnect)");
  WAIT_UNTIL(found(world, "over_in_row") >= 1, 5000);
  world_end(world);
}

/* A database from a backup: rows that are not there, rows in an older session, rows of sessions that ended since. */
static void test_postgres_from_a_backup(void **state) {
  struct world *world = start(state);
  beat(world, "older", 60000);
  beat(world, "ended", 4000); /* open until the copy is made, on a slow machine too */
  save_postgres(world);
  fleet_beat(world, 0, 50, 60000); /* not in the backup */
  disconnect(world, "older");
  beat(world, "older", 60000);
  history_wait(&world->database, world->tenant, "ended", "online offline(timeout)");
  history_wait(&world->database, world->tenant, "older", "online offline(disconnect) online");
  restore_postgres(world);
  WAIT_UNTIL(found(world, "row_behind") >= 51, 40000); /* two markers may name the same session */
  assert_true(presenced_logged(world->service, "postgres_went_back"));
  history_wait(&world->database, world->tenant, "older", "online offline(state_lost) online");
  history_wait(&world->database, world->tenant, "ended", "online offline(timeout)"); /* restored, and silent for a whole ttl */
  world_drain(world);
  assert_int_equal(fleet_with_history(world, "online"), 50);
  WAIT_UNTIL(found(world, "not_in_redis") >= 1, 5000);
  world_end(world);
}

static void lose_the_session(struct world *world) {
  redis_text(
      &world->redis, "EVAL %s 0",
      "for _, r in ipairs({'session','live','due'}) do for _, k in ipairs(redis.call('KEYS', 'prod:presence:'..r..':v1:*')) do"
      " redis.call('DEL', k) end end");
}

static bool audit_names_it(const char *report) { return strstr(report, "\"not_in_redis\"") != NULL; }

/* On demand: reported, repaired by the workers, gone. The walk at the worker's start may come first, once for a partition. */
static void test_on_demand(void **state) {
  struct world *world = start(state);
  bool named = false;
  beat(world, "d", 60000);
  history_wait(&world->database, world->tenant, "d", "online");
  for (int attempt = 0; attempt < 3 && !named; attempt++) {
    lose_the_session(world);
    named = audit_names_it(world_control(world, "audit", "--report", "--json", NULL)) &&
            audit_names_it(world_control(world, "audit", "--json", NULL));
    WAIT_UNTIL(keyspace_open_sessions(&world->redis) == 1, 5000);
  }
  assert_true(named);
  WAIT_UNTIL(found(world, "not_in_redis") >= 1, 5000);
  assert_false(audit_names_it(world_control(world, "audit", "--json", NULL)));
  assert_non_null(strstr(world_control(world, "recalibrate", world->tenant, "--json", NULL), "\"after\":1"));
  beat(world, "d", 60000);
  expect_history(world, "d", "online");
  world_end(world);
}

/* Nothing is lost: all through the traffic there is nothing to repair, however often it is looked. */
static void test_nothing_is_found_where_nothing_was_lost(void **state) {
  static const char *const often[] = {"PRESENCE_OUTAGE_MS=5000", "PRESENCE_AUDIT_MS=100", NULL};
  struct world *world = world_start(state, &(struct world_options){.environment = often});
  for (int round = 0; round < 6; round++) {
    fleet_beat(world, 0, 300, 200);
    for (int i = 0; i < 20; i++) disconnect(world, text_format("d%d", i));
    fleet_beat(world, 0, 100, 200);
  }
  WAIT_UNTIL(keyspace_open_sessions(&world->redis) == 0, 15000);
  static const char *const kinds[] = {"not_in_redis", "redis_older", "over_in_row", "row_behind"};
  for (size_t i = 0; i < LENGTH(kinds); i++) assert_true(found(world, kinds[i]) == 0);
  world_end(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_a_session_that_redis_lost_is_restored, world_teardown),
      cmocka_unit_test_teardown(test_an_older_session_in_redis_takes_the_later_over, world_teardown),
      cmocka_unit_test_teardown(test_a_session_that_is_over_ends_in_redis_silently, world_teardown),
      cmocka_unit_test_teardown(test_postgres_from_a_backup, world_teardown),
      cmocka_unit_test_teardown(test_on_demand, world_teardown),
      cmocka_unit_test_teardown(test_nothing_is_found_where_nothing_was_lost, world_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
