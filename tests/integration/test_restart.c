/* Everything goes down and comes back (P3, P5): the platform's silence ends nobody's session, and what was answered with 2xx is
 * in force afterwards. */
#include "support/test.h"

#include "support/fleet.h"

#include <string.h>

/* A short outage counts as one, so that it is the presence clock which saves the sessions, and not a long timeout. */
static const char *const environment[] = {"PRESENCE_OUTAGE_MS=300", "PRESENCE_SETTLE_MS=2000", NULL};

static struct world *start(void **state) {
  return world_start(state, &(struct world_options){.appendonly = true, .environment = environment});
}

static void restart_service(struct world *world) {
  presenced_start(world->service, world->environment);
  presenced_wait_ready(world->service);
  world_talk_to(world, world->service);
}

static void test_p5_everything_restarts(void **state) {
  struct world *world = start(state);
  fleet_beat(world, 0, 100, 3000);
  beat(world, "shown", 3000);
  int64_t deadline = device_number(world, "shown", "deadline_ms");
  presenced_kill(world->service);
  redis_server_kill(&world->redis);
  redis_server_restart(&world->redis);
  WAIT_UNTIL(redis_now_ms(&world->redis) > deadline + 500, 10000); /* down for longer than their ttl */
  restart_service(world);
  assert_string_equal(device_state(world, "shown"), "unknown"); /* nobody could have heard it */
  fleet_beat(world, 0, 100, 3000);
  assert_string_equal(device_state(world, "shown"), "unknown");
  beat(world, "shown", 3000);
  assert_string_equal(device_state(world, "shown"), "online");
  world_drain(world);
  assert_int_equal(fleet_with_history(world, "online"), 101);
  fleet_wait(world, 101, "online offline(timeout)", 15000); /* and now they are silent while we listen */
  world_end(world);
}

static void test_p3_an_answered_heartbeat_survives_redis(void **state) {
  struct world *world = start(state);
  for (int round = 0; round < 5; round++) {
    const char *device = text_format("d%d", round);
    beat(world, device, 60000);
    int64_t deadline = device_number(world, device, "deadline_ms");
    redis_server_kill(&world->redis); /* right after the answer */
    redis_server_restart(&world->redis);
    WAIT_UNTIL(client_call(world->client, "GET", device_path(world, device, ""), NULL)->status == 200, 15000);
    presenced_wait_ready(world->service); /* the other partitions, too */
    assert_int_equal(device_number(world, device, "deadline_ms"), deadline);
    assert_string_not_equal(device_state(world, device), "offline");
  }
  world_end(world);
  for (int round = 0; round < 5; round++) expect_history(world, text_format("d%d", round), "online");
}

static void test_p5_the_service_restarts_again_and_again(void **state) {
  struct world *world = start(state);
  beat(world, "d", 3000);
  beat(world, "silent", 3000);
  for (int round = 0; round < 4; round++) {
    assert_int_equal(presenced_stop(world->service), 0);
    restart_service(world);
    beat(world, "d", 3000);
  }
  expect_history(world, "d", "online");
  history_wait(&world->database, world->tenant, "silent", "online offline(timeout)"); /* restarts give nobody eternal life */
  world_end(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_p5_everything_restarts, world_teardown),
      cmocka_unit_test_teardown(test_p3_an_answered_heartbeat_survives_redis, world_teardown),
      cmocka_unit_test_teardown(test_p5_the_service_restarts_again_and_again, world_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
