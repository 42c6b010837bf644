/* Servers that are away: what is late arrives, nothing twice, and the process still stops within its limit. */
#include "support/test.h"

#include "support/world.h"

static const char *device(int number) { return text_format("d%d", number); }

/* What /metrics says of all partitions together. */
static int64_t backlog_shown(struct world *world) {
  double sum = 0;
  for (int p = 0; p < 8; p++) sum += metric(world, text_format("presence_publish_backlog{partition=\"%d\"}", p));
  return (int64_t)sum;
}

static void test_postgres_away_for_a_while(void **state) {
  struct world *world = world_start(state, &(struct world_options){0});
  beat(world, "before", 400);
  history_wait(&world->database, world->tenant, "before", "online offline(timeout)");
  postgres_server_kill();
  for (int i = 0; i < 20; i++) beat(world, device(i), 300);
  expect_status(world->client, 204, "POST", device_path(world, device(0), "/disconnect"), NULL);
  WAIT_UNTIL(keyspace_open_sessions(&world->redis) == 0, 10000); /* detection needs no PostgreSQL */
  for (int i = 0; i < 20; i++) beat(world, device(i), 60000);    /* and back again */
  assert_true(keyspace_unpublished(&world->redis) >= 60);
  WAIT_UNTIL(metric(world, "presence_publish_lag_seconds") > 0.1, 5000);
  WAIT_UNTIL(metric(world, "presence_postgres_up") == 0, 5000);
  WAIT_UNTIL(backlog_shown(world) == keyspace_unpublished(&world->redis), 5000); /* of all partitions */
  postgres_server_restart();
  database_reconnect(&world->database);
  history_wait(&world->database, world->tenant, device(0), "online offline(disconnect) online");
  for (int i = 1; i < 20; i++) history_wait(&world->database, world->tenant, device(i), "online offline(timeout) online");
  WAIT_UNTIL(metric(world, "presence_postgres_up") == 1, 5000);
  world_end(world);
}

static void test_redis_restarts_and_is_adopted(void **state) {
  struct world *world = world_start(state, &(struct world_options){.appendonly = true});
  for (int i = 0; i < 20; i++) beat(world, device(i), 1500);
  redis_server_kill(&world->redis);
  redis_server_restart(&world->redis);
  int64_t up_ms = wait_now_ms();
  WAIT_UNTIL(metric(world, "presence_adoptions_total") == 2, 5000);
  presenced_wait_ready(world->service);
  int64_t took_ms = wait_now_ms() - up_ms;
  print_message("ready %lld ms after Redis came back\n", (long long)took_ms);
  assert_true(took_ms <= wait_limit_ms(1000));
  for (int i = 0; i < 20; i++) history_wait(&world->database, world->tenant, device(i), "online offline(timeout)");
  world_end(world);
}

static void test_an_emptied_redis_is_rebuilt(void **state) {
  struct world *world = world_start(state, &(struct world_options){0});
  beat(world, "d", 60000);
  history_wait(&world->database, world->tenant, "d", "online");
  redis_text(&world->redis, "FLUSHALL");
  WAIT_UNTIL(metric(world, "presence_adoptions_total") == 2, 5000);
  presenced_wait_ready(world->service);
  assert_true(presenced_logged(world->service, "redis_rebuilt"));
  beat(world, "d", 300);
  history_wait(&world->database, world->tenant, "d", "online offline(timeout)");
  world_end(world);
}

static void cut_off(struct world *world) {
  proxy_blackhole(world->redis_proxy, true);
  proxy_blackhole(world->postgres_proxy, true);
}

static void come_back(struct world *world) {
  proxy_blackhole(world->redis_proxy, false);
  proxy_blackhole(world->postgres_proxy, false);
  proxy_cut(world->redis_proxy);
  proxy_cut(world->postgres_proxy);
}

static void test_stops_within_five_seconds_without_answers(void **state) {
  struct world *world = world_start(state, &(struct world_options){.proxies = true});
  for (int i = 0; i < 20; i++) beat(world, device(i), 300);
  cut_off(world);
  int64_t began_ms = wait_now_ms();
  assert_int_equal(presenced_stop(world->service), 0);
  assert_true(wait_now_ms() - began_ms < 5000);
  assert_false(presenced_logged(world->service, "thread_left"));
  come_back(world);
  struct presenced *next = world_process(world, NULL, NULL);
  presenced_wait_ready(next);
  for (int i = 0; i < 20; i++) history_wait(&world->database, world->tenant, device(i), "online offline(timeout)");
  world_end(world);
}

static void test_stops_within_five_seconds_without_servers(void **state) {
  struct world *world = world_start(state, &(struct world_options){.proxies = true});
  proxy_refuse(world->redis_proxy, true);
  proxy_refuse(world->postgres_proxy, true);
  proxy_cut(world->redis_proxy);
  proxy_cut(world->postgres_proxy);
  WAIT_UNTIL(presenced_logged(world->service, "redis_down"), 10000);
  int64_t began_ms = wait_now_ms();
  assert_int_equal(presenced_stop(world->service), 0);
  assert_true(wait_now_ms() - began_ms < 5000);
  assert_false(presenced_logged(world->service, "thread_left"));
  proxy_refuse(world->redis_proxy, false);
  proxy_refuse(world->postgres_proxy, false);
  world_process(world, NULL, NULL);
  world_end(world);
}

static void test_connections_that_break_in_mid_reply(void **state) {
  struct world *world = world_start(state, &(struct world_options){.proxies = true});
  for (size_t round = 0; round < 6; round++) {
    for (int i = 0; i < 30; i++) {
      const struct response *response =
          client_call(world->client, "POST", device_path(world, device(i), "/heartbeat"), "{\"ttl_ms\":300}");
      assert_true(response->status == 204 || response->status == 503);
    }
    proxy_cut_after_answers(world->redis_proxy, 40);
    proxy_cut_after_answers(world->postgres_proxy, 3);
    WAIT_UNTIL(proxy_cuts(world->redis_proxy) > round && proxy_cuts(world->postgres_proxy) > round, 10000);
  }
  WAIT_UNTIL(keyspace_open_sessions(&world->redis) == 0, 10000);
  world_end(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_postgres_away_for_a_while, world_teardown),
      cmocka_unit_test_teardown(test_redis_restarts_and_is_adopted, world_teardown),
      cmocka_unit_test_teardown(test_an_emptied_redis_is_rebuilt, world_teardown),
      cmocka_unit_test_teardown(test_stops_within_five_seconds_without_answers, world_teardown),
      cmocka_unit_test_teardown(test_stops_within_five_seconds_without_servers, world_teardown),
      cmocka_unit_test_teardown(test_connections_that_break_in_mid_reply, world_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
