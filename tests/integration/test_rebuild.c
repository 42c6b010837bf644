/* An emptied Redis gets its open sessions back from the device rows (P5, P6): devices go on in their sessions, the dead ones time
 * out, counts are right at once, nobody sees a false event. */
#include "support/test.h"

#include "support/fleet.h"

#include <stdlib.h>
#include <string.h>

static const char *const environment[] = {"PRESENCE_OUTAGE_MS=300", "PRESENCE_SETTLE_MS=500", NULL};

/* Nobody may still see the server from before. */
static void empty_redis(struct world *world) {
  world_drain(world);
  redis_text(&world->redis, "FLUSHALL");
  WAIT_UNTIL(redis_integer(&world->redis, "HEXISTS prod:presence:clock:v1:{0} run_id") == 1, 60000);
  WAIT_UNTIL(client_call(world->client, "GET", tenant_path(world, "/counts"), NULL)->status == 200, 60000);
  presenced_wait_ready(world->service);
}

static int64_t online(struct world *world) {
  json_t *counts = expect(world->client, 200, "GET", tenant_path(world, "/counts"), NULL);
  int64_t number = json_integer_value(json_object_get(counts, "online"));
  json_decref(counts);
  return number;
}

static const char *session(struct world *world, const char *device) {
  json_t *object = device_object(world, device);
  const char *kept = text_format("%s", json_string_value(json_object_get(object, "session")));
  json_decref(object);
  return kept;
}

static void test_sessions_go_on(void **state) {
  struct world *world = world_start(state, &(struct world_options){.environment = environment});
  expect_status(world->client, 204, "POST", device_path(world, "d", "/heartbeat"),
                "{\"ttl_ms\":60000,\"meta\":{\"fw\":\"1.4.2\"}}");
  beat(world, "gone", 60000);
  expect_status(world->client, 204, "POST", device_path(world, "gone", "/disconnect"), NULL);
  fleet_beat(world, 0, 3000, 60000);
  const char *before = session(world, "d");
  int64_t since = device_number(world, "d", "online_since_ms");
  empty_redis(world);
  assert_true(presenced_logged(world->service, "redis_rebuilt"));
  assert_int_equal(online(world), 3001); /* at once */
  keyspace_check(&world->redis);
  assert_string_equal(device_state(world, "d"), "unknown"); /* nobody knows when it was heard last */
  assert_string_equal(device_state(world, "gone"), "offline");
  beat(world, "d", 60000);
  assert_string_equal(device_state(world, "d"), "online");
  assert_string_equal(session(world, "d"), before);
  assert_int_equal(device_number(world, "d", "online_since_ms"), since);
  json_t *object = device_object(world, "d");
  assert_string_equal(json_string_value(json_object_get(json_object_get(object, "meta"), "fw")), "1.4.2");
  json_decref(object);
  fleet_beat(world, 0, 3000, 60000);
  world_drain(world);
  assert_int_equal(fleet_with_history(world, "online"), 3001);
  world_end(world);
}

static void test_the_dead_time_out(void **state) {
  struct world *world = world_start(state, &(struct world_options){.environment = environment});
  beat(world, "dead", 1500);
  beat(world, "alive", 60000);
  history_wait(&world->database, world->tenant, "dead", "online");
  empty_redis(world);
  int64_t began_ms = redis_now_ms(&world->redis);
  beat(world, "alive", 60000);
  history_wait(&world->database, world->tenant, "dead", "online offline(timeout)");
  assert_string_equal(history_payload(&world->database, world->tenant, "dead", 1, "last_seen_ms"), "");
  assert_true(strtoll(history_payload(&world->database, world->tenant, "dead", 1, "detected_at_ms"), NULL, 10) >=
              began_ms + 1000);
  expect_history(world, "alive", "online");
  world_end(world);
}

/* A session that begins after the loss is later than all that PostgreSQL knows. */
static void test_new_sessions_are_later(void **state) {
  struct world *world = world_start(state, &(struct world_options){.environment = environment});
  beat(world, "d", 60000);
  expect_status(world->client, 204, "POST", device_path(world, "d", "/disconnect"), NULL);
  for (int round = 0; round < 3; round++) {
    empty_redis(world);
    beat(world, "d", 60000);
    expect_status(world->client, 204, "POST", device_path(world, "d", "/disconnect"), NULL);
  }
  history_wait(&world->database, world->tenant, "d",
               "online offline(disconnect) online offline(disconnect) online offline(disconnect) online offline(disconnect)");
  world_end(world);
}

/* Three workers find the same empty server; one is stopped in mid-rebuild and wakes when another one has done its work. */
static void test_workers_race(void **state) {
  struct world *world = world_start(state, &(struct world_options){.environment = environment, .roles = "api,worker"});
  static const char *const points[] = {"rebuild_page_read", "rebuild_page_written"};
  fleet_beat(world, 0, 5000, 600000);
  world_drain(world);
  struct presenced *slow[2];
  for (size_t i = 0; i < LENGTH(points); i++) {
    const char *pause[] = {text_format("PRESENCE_FAILPOINT=%s", points[i]), "PRESENCE_FAILPOINT_ACTION=pause", NULL};
    slow[i] = world_process(world, "worker", pause);
  }
  for (int round = 0; round < 2; round++) {
    redis_text(&world->redis, "FLUSHALL");
    WAIT_UNTIL(client_call(world->client, "GET", tenant_path(world, "/counts"), NULL)->status == 200, 30000);
    presenced_wait_ready(world->service);
    assert_int_equal(online(world), 5000);
    for (size_t i = 0; i < LENGTH(slow); i++) presenced_resume(slow[i]);
    fleet_beat(world, 0, 5000, 600000);
    assert_int_equal(online(world), 5000);
  }
  world_drain(world);
  assert_int_equal(fleet_with_history(world, "online"), 5000);
  world_end(world);
}

/* 503 while it lasts, whatever is asked; a worker that dies in the middle leaves nothing half-done. */
static void test_a_worker_dies_in_the_middle(void **state) {
  const char *environment_ctl[] = {"PRESENCE_OUTAGE_MS=300", "PRESENCE_SETTLE_MS=500", NULL};
  struct world *world = world_start(state, &(struct world_options){.environment = environment_ctl});
  fleet_beat(world, 0, 5000, 600000);
  world_drain(world);
  presenced_kill(world->service);
  redis_text(&world->redis, "FLUSHALL");
  static const char *const dies[] = {"PRESENCE_FAILPOINT=rebuild_page_written:2", NULL};
  struct presenced *victim = world_spawn(world, "api,worker", dies);
  WAIT_UNTIL(!child_is_running(&victim->child), 20000);
  assert_true(keyspace_open_sessions(&world->redis) > 0);
  struct presenced *next = world_process(world, NULL, NULL);
  world_talk_to(world, next);
  assert_int_equal(online(world), 5000);
  keyspace_check(&world->redis);
  fleet_beat(world, 0, 5000, 600000);
  world_drain(world);
  assert_int_equal(fleet_with_history(world, "online"), 5000);
  world_end(world);
}

/* Many pages. How long they take is said, not judged: the machine may be busy. */
static void test_many_sessions(void **state) {
  bool slow = wait_limit_ms(1000) > 1000; /* under a sanitizer */
  int devices = slow ? 10000 : 100000;
  struct world *world = world_start(state, &(struct world_options){.environment = environment});
  fleet_beat(world, 0, devices, 600000);
  WAIT_UNTIL(keyspace_unpublished(&world->redis) == 0, 60000);
  int64_t began_ms = wait_now_ms();
  empty_redis(world);
  int64_t took_ms = wait_now_ms() - began_ms;
  print_message("%d sessions rebuilt, ready again after %lld ms\n", devices, (long long)took_ms);
  assert_int_equal(online(world), devices);
  world_end(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_sessions_go_on, world_teardown),
      cmocka_unit_test_teardown(test_the_dead_time_out, world_teardown),
      cmocka_unit_test_teardown(test_new_sessions_are_later, world_teardown),
      cmocka_unit_test_teardown(test_workers_race, world_teardown),
      cmocka_unit_test_teardown(test_many_sessions, world_teardown),
      cmocka_unit_test_teardown(test_a_worker_dies_in_the_middle, world_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
