/* Servers and connections fail under load (P2, P3, P5): every request is answered once, every session is told once. */
#include "support/test.h"

#include "support/fleet.h"

#include <string.h>

#define PIPELINED 40
#define DEVICES 200

static struct world *start(void **state, const char *const *environment) {
  return world_start(state, &(struct world_options){.proxies = true, .environment = environment});
}

/* PIPELINED heartbeats in one go; each must be answered, with 204 or 503. Returns how many with 204. */
static int beat_pipelined(struct world *world, int round, int64_t ttl_ms) {
  const char *body = text_format("{\"ttl_ms\":%lld}", (long long)ttl_ms);
  for (int i = 0; i < PIPELINED; i++)
    client_ask(world->client, "POST", device_path(world, text_format("d%d", (round * 7 + i) % DEVICES), "/heartbeat"), body);
  int taken = 0;
  for (int i = 0; i < PIPELINED; i++) {
    const struct response *response = client_read(world->client);
    if (response->status != 204 && response->status != 503) fail_msg("answer %d: %d %s", i, response->status, response->body);
    if (response->status == 503) assert_non_null(response_header(response, "Retry-After"));
    taken += response->status == 204;
  }
  return taken;
}

/* All devices report once more and fall silent: from whatever happened, every history ends in one offline row. */
static void let_all_end(struct world *world) {
  fleet_beat(world, 0, DEVICES, 300);
  WAIT_UNTIL(keyspace_open_sessions(&world->redis) == 0, 10000);
  world_drain(world);
  assert_int_equal(history_count(&world->database, "online"), history_count(&world->database, "offline"));
  assert_int_equal(sql_integer(&world->database, "SELECT count(DISTINCT device) FROM presence.outbox", NULL), DEVICES);
  assert_int_equal(
      sql_integer(&world->database, "SELECT count(*) FROM presence.outbox WHERE payload->>'reason' = 'state_lost'", NULL), 0);
}

static int64_t rows(struct world *world) { return sql_integer(&world->database, "SELECT count(*) FROM presence.outbox", NULL); }

static void test_p2_scripts_flushed_under_load(void **state) {
  struct world *world = start(state, NULL);
  int64_t start_ms = wait_now_ms();
  for (int round = 0; wait_now_ms() - start_ms < 2000; round++) {
    redis_text(&world->redis, "SCRIPT FLUSH");
    assert_int_equal(beat_pipelined(world, round, 100 + round % 3 * 100), PIPELINED); /* nobody notices */
  }
  let_all_end(world);
  world_end(world);
}

#define CUTS 25

/* Cuts the connections to Redis at another byte each time, in the middle of a pipeline, and sees that they come back. */
static void beat_through_cuts(struct world *world, void (*cut_after)(struct proxy *, size_t), size_t step) {
  for (int round = 0; round < CUTS; round++) {
    size_t cuts = proxy_cuts(world->redis_proxy);
    cut_after(world->redis_proxy, 1 + (size_t)round * step);
    WAIT_UNTIL((beat_pipelined(world, round, 150), proxy_cuts(world->redis_proxy) > cuts), 10000);
    WAIT_UNTIL(beat_pipelined(world, round, 150) == PIPELINED, 10000);
  }
}

static void test_p2_answers_of_redis_get_lost(void **state) {
  struct world *world = start(state, NULL);
  beat_through_cuts(world, proxy_cut_after_answers, 37);
  let_all_end(world);
  world_end(world);
}

static void test_p2_requests_to_redis_get_cut(void **state) {
  struct world *world = start(state, NULL);
  beat_through_cuts(world, proxy_cut_after_requests, 397);
  let_all_end(world);
  world_end(world);
}

static int status_of_beat(struct world *world, const char *device) {
  return client_call(world->client, "POST", device_path(world, device, "/heartbeat"), "{\"ttl_ms\":60000}")->status;
}

static int readyz(struct world *world) { return client_call(world->client, "GET", "/readyz", NULL)->status; }

static void test_p5_redis_cannot_be_reached_for_a_while(void **state) {
  struct world *world = start(state, NULL);
  beat(world, "d", 60000);
  proxy_refuse(world->redis_proxy, true);
  WAIT_UNTIL(status_of_beat(world, "d") == 503, 5000);
  expect_error(world->client, 503, NULL, "POST", device_path(world, "d", "/heartbeat"), NULL);
  expect_error(world->client, 503, NULL, "POST", tenant_path(world, "/heartbeats"), "[\"d\"]");
  expect_error(world->client, 503, NULL, "POST", device_path(world, "d", "/disconnect"), NULL);
  expect_error(world->client, 503, NULL, "GET", device_path(world, "d", ""), NULL);
  WAIT_UNTIL(readyz(world) == 503, 5000);
  assert_int_equal(client_call(world->client, "GET", "/healthz", NULL)->status, 200);
  proxy_refuse(world->redis_proxy, false);
  WAIT_UNTIL(status_of_beat(world, "d") == 204, 10000);
  WAIT_UNTIL(readyz(world) == 200, 5000);
  assert_string_equal(device_state(world, "d"), "online");
  world_end(world);
  expect_history(world, "d", "online");
}

/* The connection stays open and nothing comes back: requests must not wait for ever. */
static void test_p8_redis_falls_silent(void **state) {
  struct world *world = start(state, NULL);
  beat(world, "d", 60000);
  proxy_blackhole(world->redis_proxy, true);
  int64_t start_ms = wait_now_ms();
  assert_int_equal(status_of_beat(world, "d"), 503);
  assert_true(wait_now_ms() - start_ms < wait_limit_ms(6000));
  proxy_blackhole(world->redis_proxy, false);
  WAIT_UNTIL(status_of_beat(world, "d") == 204, 10000);
  world_end(world);
  expect_history(world, "d", "online");
}

static void test_p3_postgres_is_away_for_a_while(void **state) {
  struct world *world = start(state, NULL);
  beat(world, "before", 60000);
  history_wait(&world->database, world->tenant, "before", "online");
  proxy_refuse(world->postgres_proxy, true);
  fleet_beat(world, 0, DEVICES, 200);
  beat(world, "d", 200);
  WAIT_UNTIL(strcmp(device_state(world, "d"), "offline") == 0, 5000); /* detection goes on */
  WAIT_UNTIL(keyspace_open_sessions(&world->redis) == 1, 5000);
  assert_string_equal(device_state(world, "before"), "online");
  assert_string_equal(device_state(world, "d"), "offline"); /* from the close that is not published yet */
  beat(world, "d", 60000);
  WAIT_UNTIL(strstr(client_call(world->client, "GET", "/readyz", NULL)->body, "degraded") != NULL, 5000);
  assert_int_equal(rows(world), 1);
  proxy_refuse(world->postgres_proxy, false);
  history_wait(&world->database, world->tenant, "d", "online offline(timeout) online");
  world_drain(world);
  assert_int_equal(fleet_with_history(world, "online offline(timeout)"), DEVICES);
  world_end(world);
}

/* COMMIT's answer gets lost: whether it took effect is unknown, and the append is repeated. */
static void test_p2_answers_of_postgres_get_lost(void **state) {
  struct world *world = start(state, NULL);
  for (int round = 0; round < 40; round++) {
    proxy_cut_after_answers(world->postgres_proxy, (size_t)(1 + round * 13 % 400));
    beat_pipelined(world, round, 100);
    if (round % 5 == 0) wait_pause();
  }
  proxy_cut_after_answers(world->postgres_proxy, (size_t)-1);
  let_all_end(world);
  world_end(world);
}

static void test_p2_postgres_crashes(void **state) {
  struct world *world = start(state, NULL);
  for (int round = 0; round < 3; round++) {
    fleet_beat(world, 0, DEVICES, 200);
    postgres_server_kill();
    fleet_beat(world, 0, DEVICES, 200);
    postgres_server_restart();
    fleet_beat(world, 0, DEVICES, 200);
  }
  database_reconnect(&world->database);
  let_all_end(world);
  world_end(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_p2_scripts_flushed_under_load, world_teardown),
      cmocka_unit_test_teardown(test_p2_answers_of_redis_get_lost, world_teardown),
      cmocka_unit_test_teardown(test_p2_requests_to_redis_get_cut, world_teardown),
      cmocka_unit_test_teardown(test_p5_redis_cannot_be_reached_for_a_while, world_teardown),
      cmocka_unit_test_teardown(test_p8_redis_falls_silent, world_teardown),
      cmocka_unit_test_teardown(test_p3_postgres_is_away_for_a_while, world_teardown),
      cmocka_unit_test_teardown(test_p2_answers_of_postgres_get_lost, world_teardown),
      cmocka_unit_test_teardown(test_p2_postgres_crashes, world_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
