/* What the worker tells of itself. */
#include "support/test.h"

#include "support/world.h"

static double online(struct world *world, const char *tenant) {
  return metric(world, text_format("presence_online{tenant=\"%s\"}", tenant));
}

static const char *device(int number) { return text_format("d%d", number); }

static void test_open_sessions_of_each_tenant(void **state) {
  struct world *world = world_start(state, &(struct world_options){0});
  const char *first = world->tenant;
  for (int i = 0; i < 30; i++) beat(world, device(i), 60000);
  world_new_tenant(world, NULL);
  for (int i = 0; i < 7; i++) beat(world, device(i), 60000);
  WAIT_UNTIL(online(world, first) == 30 && online(world, world->tenant) == 7, 10000);
  for (int i = 0; i < 7; i++) expect_status(world->client, 204, "POST", device_path(world, device(i), "/disconnect"), NULL);
  WAIT_UNTIL(online(world, first) == 30 && online(world, world->tenant) == 0, 10000);
  world_end(world);
}

static void test_transitions_and_detection(void **state) {
  struct world *world = world_start(state, &(struct world_options){0});
  for (int i = 0; i < 20; i++) beat(world, device(i), i < 15 ? 300 : 60000);
  for (int i = 15; i < 20; i++) expect_status(world->client, 204, "POST", device_path(world, device(i), "/disconnect"), NULL);
  for (int i = 0; i < 15; i++) history_wait(&world->database, world->tenant, device(i), "online offline(timeout)");
  world_drain(world);
  WAIT_UNTIL(metric(world, "presence_transitions_total{type=\"online\",reason=\"\"}") == 20, 5000);
  WAIT_UNTIL(metric(world, "presence_transitions_total{type=\"offline\",reason=\"timeout\"}") == 15, 5000);
  WAIT_UNTIL(metric(world, "presence_transitions_total{type=\"offline\",reason=\"disconnect\"}") == 5, 5000);
  assert_true(metric(world, "presence_transitions_total{type=\"offline\",reason=\"state_lost\"}") == 0);
  assert_true(metric(world, "presence_detection_lag_seconds_count") == 15);
  assert_true(metric(world, "presence_expire_batch{result=\"claimed\"}") == 15);
  assert_true(metric(world, "presence_expire_batch{result=\"orphan\"}") == 0);
  assert_true(metric(world, "presence_outbox_repeats_total") == 0);
  WAIT_UNTIL(metric(world, "presence_listeners") == 1, 5000);
  assert_true(metric(world, "presence_adoptions_total") == 1);
  world_end(world);
}

/* While nobody hears there is no listener, whether the API stands still or Redis is away. */
static void test_no_listeners_while_the_clock_stands(void **state) {
  const char *const environment[] = {"PRESENCE_OUTAGE_MS=500", NULL};
  struct world *world =
      world_start(state, &(struct world_options){.proxies = true, .roles = "worker", .environment = environment});
  struct presenced *api = world_process(world, "api", NULL);
  WAIT_UNTIL(metric(world, "presence_listeners") == 1, 15000);
  presenced_pause(api);
  WAIT_UNTIL(metric(world, "presence_listeners") == 0, 15000);
  presenced_resume(api);
  WAIT_UNTIL(metric(world, "presence_listeners") == 1, 15000);
  proxy_refuse(world->redis_proxy, true);
  proxy_cut(world->redis_proxy);
  WAIT_UNTIL(metric(world, "presence_listeners") == 0, 15000);
  proxy_refuse(world->redis_proxy, false);
  WAIT_UNTIL(metric(world, "presence_listeners") == 1, 15000);
  world_end(world);
}

static void test_a_refused_transition_is_told(void **state) {
  struct world *world = world_start(state, &(struct world_options){0});
  sql_text(&world->database, "ALTER TABLE presence.device ADD CONSTRAINT test CHECK (device <> 'bad')", NULL);
  beat(world, "bad", 60000);
  WAIT_UNTIL(metric(world, "presence_rejected_total") >= 1, 10000); /* again, where the trim did not get through */
  assert_true(presenced_logged(world->service, "event=transition_rejected"));
  assert_true(presenced_logged(world->service, text_format("tenant=%s device=bad state=online", world->tenant)));
  world_drain(world); /* it is out of the stream: what brings it back is the retry */
  sql_text(&world->database, "ALTER TABLE presence.device DROP CONSTRAINT test", NULL);
  assert_non_null(strstr(world_control(world, "rejected", "retry", NULL), "appended"));
  history_wait(&world->database, world->tenant, "bad", "online");
  world_end(world);
}

/* A due member without facts: removed, counted, nobody is declared offline. */
static void test_orphans_are_removed_and_counted(void **state) {
  struct world *world = world_start(state, &(struct world_options){0});
  beat(world, "d", 60000);
  redis_text(&world->redis, "ZADD prod:presence:due:v1:{5}:%s:0 1000 ghost", world->tenant);
  redis_text(&world->redis, "ZADD prod:presence:next:v1:{5} 1000 %s:0", world->tenant);
  WAIT_UNTIL(metric(world, "presence_expire_batch{result=\"orphan\"}") == 1, 5000);
  assert_true(metric(world, "presence_expire_batch{result=\"claimed\"}") == 0);
  assert_string_equal(device_state(world, "ghost"), "404");
  world_end(world);
}

/* A consumer that nobody runs: half of the retention is used up, then more than its warning, then its rows are dropped. */
static void test_a_reader_that_falls_behind_is_told(void **state) {
  struct world *world = world_start(state, &(struct world_options){0});
  struct database *database = &world->database;
  assert_true(metric(world, "presence_reader_retention_used_ratio") == 0);
  PQclear(sql_query(database, "SELECT presence.create_consumer('forgotten one', 'oldest')", NULL));
  beat(world, "d", 60000);
  world_drain(world);
  PQclear(sql_query(database, "UPDATE presence.outbox SET recorded_at = now() - interval '84 hours'", NULL)); /* of seven days */
  WAIT_UNTIL(metric(world, "presence_reader_retention_used_ratio") == 0.5, 15000);
  assert_false(presenced_logged(world->service, "reader_near_retention"));
  PQclear(sql_query(database, "UPDATE presence.outbox SET recorded_at = now() - interval '151.2 hours'", NULL));
  WAIT_UNTIL(metric(world, "presence_reader_retention_used_ratio") == 0.9, 15000);
  WAIT_UNTIL(
      presenced_logged(world->service, "reader_near_retention reader=\"consumer forgotten one\" retention_used_percent=90"),
      5000);
  PQclear(sql_query(database, "SELECT presence.commit('forgotten one', 1)", NULL));
  WAIT_UNTIL(metric(world, "presence_reader_retention_used_ratio") == 0, 15000);
  PQclear(sql_query(database, "SELECT presence.create_group('g', '0')", NULL));
  PQclear(sql_query(database, "UPDATE presence.outbox_horizon SET dropped_seq = 1", NULL));
  WAIT_UNTIL(metric(world, "presence_reader_retention_used_ratio") == 1, 15000);
  PQclear(sql_query(database, "UPDATE presence.outbox_horizon SET dropped_seq = 0", NULL)); /* for the rules at the end */
  PQclear(sql_query(database, "UPDATE presence.outbox SET recorded_at = now()", NULL));
  world_end(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_open_sessions_of_each_tenant, world_teardown),
      cmocka_unit_test_teardown(test_transitions_and_detection, world_teardown),
      cmocka_unit_test_teardown(test_no_listeners_while_the_clock_stands, world_teardown),
      cmocka_unit_test_teardown(test_a_refused_transition_is_told, world_teardown),
      cmocka_unit_test_teardown(test_orphans_are_removed_and_counted, world_teardown),
      cmocka_unit_test_teardown(test_a_reader_that_falls_behind_is_told, world_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
