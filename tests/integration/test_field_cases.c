/* What happened to other presence systems in the field, with its right outcome. */
#include "support/test.h"

#include "support/fleet.h"

#include <string.h>

#define START_MS INT64_C(1790000000000)

static const char *const outage_1s[] = {"PRESENCE_OUTAGE_MS=1000", NULL};

static int64_t marked_ms(struct world *world, int partition) {
  return redis_integer(&world->redis, "HGET prod:presence:clock:v1:{%d} ingest_seen", partition);
}

/* The clock moves in steps that are no outage, each heard by every partition: so much listening. */
static void listen_for(struct world *world, int64_t ms) {
  for (int64_t done = 0; done < ms; done += 900) {
    world_move_clock(world, done + 900 < ms ? 900 : ms - done);
    for (int partition = 0; partition < 8; partition++) WAIT_UNTIL(marked_ms(world, partition) == world->clock_ms, 10000);
  }
}

static void restart(struct world *world, struct presenced *process) {
  presenced_start(process, world->environment);
  presenced_wait_ready(process);
  world_talk_to(world, process);
}

/* ttl 30 s, everything killed, down for 10 s, devices beat again: no event. One silent since before: a single row, by its
 * heartbeat, after 30 s of listening. */
static void test_all_down_for_ten_seconds(void **state) {
  struct world *world =
      world_start(state, &(struct world_options){.clock_ms = START_MS, .appendonly = true, .environment = outage_1s});
  fleet_beat(world, 0, 50, 30000);
  beat(world, "silent", 30000);
  int64_t seen_ms = world->clock_ms;
  world_drain(world);
  presenced_kill(world->service);
  redis_server_kill(&world->redis);
  world_move_clock(world, 10000);
  redis_server_restart(&world->redis);
  restart(world, world->service);
  fleet_beat(world, 0, 50, 30000);
  listen_for(world, 29500);
  fleet_beat(world, 0, 50, 30000);
  world_drain(world);
  assert_int_equal(fleet_with_history(world, "online"), 51);
  listen_for(world, 1000);
  history_wait(&world->database, world->tenant, "silent", "online offline(timeout)");
  const char *offline_at = history_payload(&world->database, world->tenant, "silent", 1, "offline_at_ms");
  assert_string_equal(offline_at, text_format("%lld", (long long)(seen_ms + 30000)));
  assert_int_equal(fleet_with_history(world, "online"), 50);
  world_end(world);
}

/* The worker restarts again and again: the silent device is still offline after its ttl, once. */
static void test_a_worker_that_restarts_all_the_time(void **state) {
  struct world *world = world_start(state, &(struct world_options){.roles = "api", .no_service = true});
  struct presenced *worker = world_process(world, "worker", NULL);
  struct presenced *api = world_process(world, "api", NULL);
  presenced_wait_ready(api);
  world->service = api;
  world_talk_to(world, api);
  beat(world, "silent", 4000);
  int64_t began_ms = wait_now_ms();
  const char *environment[48] = {NULL};
  size_t count = 0;
  for (const char *const *each = world_environment(world); *each != NULL; each++) environment[count++] = *each;
  environment[count] = "PRESENCE_ROLES=worker";
  for (int round = 0; round < 8; round++) {
    presenced_kill(worker);
    presenced_start(worker, environment);
    WAIT_UNTIL(wait_now_ms() - began_ms >= (round + 1) * 700, 10000);
  }
  history_wait(&world->database, world->tenant, "silent", "online offline(timeout)");
  world_end(world);
}

/* Heartbeats move from one API process to another, then the first one is killed: nobody noticed. */
static void test_the_load_balancer_moves_everybody(void **state) {
  struct world *world = world_start(state, &(struct world_options){.environment = outage_1s});
  struct presenced *other = world_process(world, "api", NULL);
  for (int round = 0; round < 3; round++) fleet_beat(world, 0, 200, 3000);
  world_talk_to(world, other);
  fleet_beat(world, 0, 200, 3000);
  presenced_kill(world->service);
  struct presenced *worker = world_process(world, "worker", NULL);
  world->service = other;
  int64_t until_ms = wait_now_ms() + 7000; /* longer than the dead listener is waited for */
  while (wait_now_ms() < until_ms) {
    fleet_beat(world, 0, 200, 3000);
    wait_pause();
  }
  assert_true(child_is_running(&worker->child));
  world_drain(world);
  assert_int_equal(fleet_with_history(world, "online"), 200);
  world_end(world);
}

/* Devices that are offline stay so, whatever restarts: no event, the same counts. */
static void test_a_thousand_offline_devices(void **state) {
  struct world *world = world_start(state, &(struct world_options){.appendonly = true, .environment = outage_1s});
  fleet_beat(world, 0, 1000, 300);
  fleet_wait(world, 1000, "online offline(timeout)", 20000);
  int64_t rows = sql_integer(&world->database, "SELECT count(*) FROM presence.outbox", NULL);
  presenced_kill(world->service);
  redis_server_kill(&world->redis);
  postgres_server_kill();
  postgres_server_restart();
  database_reconnect(&world->database);
  redis_server_restart(&world->redis);
  restart(world, world->service);
  json_t *counts = expect(world->client, 200, "GET", tenant_path(world, "/counts"), NULL);
  assert_int_equal(json_integer_value(json_object_get(counts, "online")), 0);
  assert_int_equal(json_integer_value(json_object_get(counts, "known")), 1000);
  json_decref(counts);
  beat(world, "d0", 300);
  history_wait(&world->database, world->tenant, "d0", "online offline(timeout) online offline(timeout)");
  assert_int_equal(sql_integer(&world->database, "SELECT count(*) FROM presence.outbox", NULL), rows + 2);
  world_end(world);
}

/* A device's own clock is not believed: a day back, ten years ahead, seconds for milliseconds. */
static void test_timestamps_of_devices(void **state) {
  static const char *const stamps[] = {"1789913600000", "2105360000000", "1790000000", "-1", "0"};
  struct world *world = world_start(state, &(struct world_options){.clock_ms = START_MS});
  for (size_t i = 0; i < LENGTH(stamps); i++) {
    const char *device = text_format("d%zu", i);
    const char *body = text_format("{\"ttl_ms\":60000,\"meta\":{\"timestamp\":%s,\"ts\":%s}}", stamps[i], stamps[i]);
    expect_status(world->client, 204, "POST", device_path(world, device, "/heartbeat"), body);
    assert_int_equal(device_number(world, device, "last_seen_ms"), START_MS);
    assert_int_equal(device_number(world, device, "deadline_ms"), START_MS + 60000);
    /* As a member of its own it is none that we know. */
    body = text_format("{\"ttl_ms\":60000,\"timestamp\":%s}", stamps[i]);
    expect_status(world->client, 400, "POST", device_path(world, device, "/heartbeat"), body);
  }
  world_end(world);
}

/* 10,000 due in one millisecond, eight workers, one of them killed in mid-batch, PostgreSQL's answers cut off after COMMIT. */
static void test_ten_thousand_due_at_once(void **state) {
  enum { MANY = 10000 };
  struct world *world =
      world_start(state, &(struct world_options){.clock_ms = START_MS, .proxies = true, .environment = outage_1s});
  for (int i = 0; i < 6; i++) world_process(world, "worker", NULL);
  static const char *const dies[] = {"PRESENCE_FAILPOINT=detector_expired:2", NULL};
  struct presenced *victim = world_process(world, "worker", dies);
  fleet_beat(world, 0, MANY, 2000);
  world_drain(world);
  assert_int_equal(fleet_with_history(world, "online"), MANY);
  /* 8 workers have a partition each; the victim's second expire_due is in the middle of its own. */
  listen_for(world, 1800);
  proxy_cut_after_answers(world->postgres_proxy, 700);
  listen_for(world, 900);
  WAIT_UNTIL(!child_is_running(&victim->child), 20000);
  listen_for(world, 2000); /* its leases run out by Redis's clock, which only the test moves */
  proxy_cut_after_answers(world->postgres_proxy, 300);
  fleet_wait(world, MANY, "online offline(timeout)", 60000);
  assert_true(proxy_cuts(world->postgres_proxy) > 0);
  world_end(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_all_down_for_ten_seconds, world_teardown),
      cmocka_unit_test_teardown(test_a_worker_that_restarts_all_the_time, world_teardown),
      cmocka_unit_test_teardown(test_the_load_balancer_moves_everybody, world_teardown),
      cmocka_unit_test_teardown(test_a_thousand_offline_devices, world_teardown),
      cmocka_unit_test_teardown(test_timestamps_of_devices, world_teardown),
      cmocka_unit_test_teardown(test_ten_thousand_due_at_once, world_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
