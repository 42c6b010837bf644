/* What happens to PostgreSQL servers, with the whole service before them: nothing is lost, nothing comes twice, nothing is out of
 * order (P2, P3, P4), and heartbeats do not notice. */
#include "support/test.h"

#include "support/fleet.h"

#include <stdio.h>
#include <string.h>

#include "outbox.h"

#define DEVICES 200

static int64_t rows(struct world *world) { return sql_integer(&world->database, "SELECT count(*) FROM presence.outbox", NULL); }

static void set_read_only(struct database *database, const char *value) {
  PQclear(sql_query(database, text_format("ALTER SYSTEM SET default_transaction_read_only = %s", value), NULL));
  PQclear(sql_query(database, "SELECT pg_reload_conf()", NULL));
  WAIT_UNTIL(strcmp(sql_text(database, "SHOW default_transaction_read_only", NULL), value) == 0, 10000);
}

/* Connections that are open get 25006 from one transaction to the next, as after a switch of roles. */
static void test_the_primary_turns_read_only(void **state) {
  struct world *world = world_start(state, &(struct world_options){0});
  fleet_beat(world, 0, DEVICES, 60000);
  world_drain(world);
  assert_int_equal(rows(world), DEVICES);
  set_read_only(&world->database, "on");
  fleet_beat(world, 0, DEVICES, 200);
  WAIT_UNTIL(keyspace_open_sessions(&world->redis) == 0, 20000); /* detection goes on */
  fleet_beat(world, 0, DEVICES, 60000);
  assert_string_equal(device_state(world, "d0"), "online");
  assert_int_equal(rows(world), DEVICES);
  assert_int_equal(keyspace_unpublished(&world->redis), 2 * DEVICES);
  set_read_only(&world->database, "off");
  fleet_wait(world, DEVICES, "online offline(timeout) online", 60000);
  world_end(world);
}

/* Away while devices come and go, in make test-all for a minute. One partition, so that a batch could be as large as the backlog.
 */
static void test_away_under_load(void **state) {
  struct world *world =
      world_start(state, &(struct world_options){.environment = (const char *const[]){"PRESENCE_PARTITIONS=1", NULL}});
  beat(world, "d0", 60000); /* the token is known from here on */
  world_drain(world);
  postgres_server_kill();
  int64_t away_ms = test_is_whole() ? 60000 : 1000, begun_ms = wait_now_ms();
  for (int round = 0; round < 8 || wait_now_ms() - begun_ms < away_ms; round++) /* all must be accepted */
    fleet_beat(world, round % 8 * DEVICES, 2 * DEVICES, 100);
  WAIT_UNTIL(keyspace_open_sessions(&world->redis) == 0, 30000);
  int64_t backlog = keyspace_unpublished(&world->redis);
  assert_true(backlog > 2 * OUTBOX_APPEND_MAX);
  postgres_server_restart();
  database_reconnect(&world->database);
  world_drain(world);
  assert_int_equal(rows(world), 1 + backlog);
  assert_int_equal(history_count(&world->database, "online"), history_count(&world->database, "offline"));
  int64_t largest = sql_integer(
      &world->database, "SELECT max(n) FROM (SELECT count(*) AS n FROM presence.outbox GROUP BY recorded_at) AS batch", NULL);
  assert_in_range(largest, 1, OUTBOX_APPEND_MAX);
  world_end(world);
}

/* The last test of the program: the second server stays alone. */
static void test_fail_over(void **state) {
  postgres_server_add_standby();
  struct world *world = world_start(state, &(struct world_options){0}); /* its connection string has two hosts */
  world_control(world, "status", NULL);
  for (int round = 0; round < 3; round++) {
    fleet_beat(world, 0, DEVICES, 200);
    if (round == 1) postgres_server_fail_over();
  }
  WAIT_UNTIL(keyspace_open_sessions(&world->redis) == 0, 20000);
  database_reconnect(&world->database);
  world_drain(world);
  assert_string_equal(sql_text(&world->database, "SELECT pg_is_in_recovery()", NULL), "f");
  world_control(world, "status", NULL);
  world_control(world, "lag", NULL);
  assert_int_equal(history_count(&world->database, "online"), history_count(&world->database, "offline"));
  assert_int_equal(
      sql_integer(&world->database, "SELECT count(*) FROM presence.outbox WHERE payload->>'reason' = 'state_lost'", NULL), 0);
  world_end(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_the_primary_turns_read_only, world_teardown),
      cmocka_unit_test_teardown(test_away_under_load, world_teardown),
      cmocka_unit_test_teardown(test_fail_over, world_teardown),
  };
  return cmocka_run_group_tests_name("postgres_failures", tests, NULL, NULL);
}
