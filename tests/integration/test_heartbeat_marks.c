/* When a running process says that it is listening: what it writes into the clocks of the partitions. */
#include "support/test.h"

#include <string.h>

#include "support/world.h"

enum { PARTITIONS = 8 };

/* The latest moment up to which somebody listened, of the partition where that is earliest or latest. */
static int64_t seen_ms(struct world *world, bool earliest) {
  int64_t found = 0;
  for (int partition = 0; partition < PARTITIONS; partition++) {
    int64_t seen = redis_integer(&world->redis, "HGET prod:presence:clock:v1:{%d} ingest_seen", partition);
    if (partition == 0 || (earliest ? seen < found : seen > found)) found = seen;
  }
  return found;
}

static int64_t listeners(struct world *world) {
  int64_t count = 0;
  for (int partition = 0; partition < PARTITIONS; partition++) {
    const char *fields = redis_text(&world->redis, "HKEYS prod:presence:clock:v1:{%d}", partition);
    for (const char *at = strstr(fields, "l:"); at != NULL; at = strstr(at + 1, "l:")) count++;
  }
  return count;
}

/* Over an interval of Redis's time in which a listening process would have marked a dozen times. */
static bool clocks_stand_still(struct world *world) {
  int64_t before = seen_ms(world, false);
  int64_t until = redis_now_ms(&world->redis) + 300;
  WAIT_UNTIL(redis_now_ms(&world->redis) >= until, 5000);
  return seen_ms(world, false) == before;
}

static bool all_clocks_run(struct world *world) {
  int64_t now = redis_now_ms(&world->redis);
  WAIT_UNTIL(seen_ms(world, true) > now, 5000);
  return true;
}

static const char *const never_settles[] = {"PRESENCE_SETTLE_MS=600000", "PRESENCE_OUTAGE_MS=5000", NULL};

static void test_no_mark_before_the_first_heartbeat_then_in_all_partitions(void **state) {
  struct world *world = world_start(state, &(struct world_options){.environment = never_settles});
  assert_true(clocks_stand_still(world));
  assert_int_equal(listeners(world), 0);
  expect_status(world->client, 200, "GET", "/readyz", NULL); /* it can take heartbeats all the same */
  expect_status(world->client, 404, "GET", device_path(world, "d", ""), NULL);
  assert_true(clocks_stand_still(world)); /* reading is no heartbeat */
  beat(world, "d", 60000);
  assert_true(all_clocks_run(world));
  assert_int_equal(listeners(world), PARTITIONS);
  world_end(world);
}

static void test_settled_by_itself(void **state) {
  const char *const soon[] = {"PRESENCE_SETTLE_MS=500", "PRESENCE_OUTAGE_MS=5000", NULL};
  struct world *world = world_start(state, &(struct world_options){.environment = soon});
  assert_true(all_clocks_run(world));
  world_end(world);
}

static void test_a_pause_of_the_process_stops_the_marks_until_a_heartbeat(void **state) {
  const char *const short_outage[] = {"PRESENCE_SETTLE_MS=600000", "PRESENCE_OUTAGE_MS=1000", NULL};
  struct world *world = world_start(state, &(struct world_options){.environment = short_outage});
  beat(world, "d", 60000);
  assert_true(all_clocks_run(world));
  presenced_pause(world->service);
  int64_t until = redis_now_ms(&world->redis) + 1500;
  WAIT_UNTIL(redis_now_ms(&world->redis) >= until, 10000);
  presenced_resume(world->service);
  presenced_wait_ready(world->service);
  assert_true(clocks_stand_still(world));
  beat(world, "d", 60000);
  assert_true(all_clocks_run(world));
  assert_true(metric(world, "presence_deaf_seconds_total") >= 1);
  world_end(world);
}

static void test_an_orderly_stop_takes_the_marks_away(void **state) {
  struct world *world = world_start(state, &(struct world_options){.roles = "worker", .environment = never_settles});
  struct presenced *one = world_process(world, "api", never_settles);
  struct presenced *other = world_process(world, "api", never_settles);
  presenced_wait_ready(one);
  presenced_wait_ready(other);
  world_talk_to(world, one);
  beat(world, "d", 60000);
  WAIT_UNTIL(listeners(world) == PARTITIONS, 5000);
  world_talk_to(world, other);
  beat(world, "d", 60000);
  WAIT_UNTIL(listeners(world) == 2 * PARTITIONS, 5000);
  assert_int_equal(presenced_stop(one), 0);
  assert_int_equal(listeners(world), PARTITIONS);
  assert_int_equal(presenced_stop(other), 0);
  assert_int_equal(listeners(world), 0);
  world_end(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_no_mark_before_the_first_heartbeat_then_in_all_partitions, world_teardown),
      cmocka_unit_test_teardown(test_settled_by_itself, world_teardown),
      cmocka_unit_test_teardown(test_a_pause_of_the_process_stops_the_marks_until_a_heartbeat, world_teardown),
      cmocka_unit_test_teardown(test_an_orderly_stop_takes_the_marks_away, world_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
