/* Numbers: thousands of devices that come and go at once lose no event and hold up nobody. */
#include "support/test.h"

#include "support/fleet.h"

static void test_p2_10000_new_devices_that_fall_silent(void **state) {
  struct world *world = world_start(state, &(struct world_options){0});
  fleet_beat(world, 0, 10000, 2000);
  fleet_wait(world, 10000, "online offline(timeout)", 30000);
  assert_int_equal(keyspace_open_sessions(&world->redis), 0);
  world_end(world);
}

/* The clock stands while they report and then jumps over all their deadlines at once. */
static void test_p3_50000_due_in_the_same_100_ms(void **state) {
  struct world *world = world_start(state, &(struct world_options){.clock_ms = 1790000000000});
  for (int i = 0; i < 10; i++) {
    fleet_beat(world, i * 5000, 5000, 4000);
    world_move_clock(world, 10);
  }
  beat(world, "stays", 60000);
  world_move_clock(world, 4000);
  int64_t slowest_ms = 0, answered = 0;
  while (keyspace_open_sessions(&world->redis) > 1 || keyspace_unpublished(&world->redis) > 0) {
    int64_t start = wait_now_ms();
    beat(world, "stays", 60000);
    answered++;
    if (wait_now_ms() - start > slowest_ms) slowest_ms = wait_now_ms() - start;
    wait_pause();
    if (answered > 20000) fail_msg("%lld sessions are still open", (long long)keyspace_open_sessions(&world->redis));
  }
  print_message("%lld heartbeats answered meanwhile, the slowest in %lld ms\n", (long long)answered, (long long)slowest_ms);
  assert_true(slowest_ms < wait_limit_ms(1000));
  expect_history(world, "stays", "online");
  assert_int_equal(fleet_with_history(world, "online offline(timeout)"), 50000);
  assert_int_equal(history_count(&world->database, "online"), 50001);
  assert_int_equal(history_count(&world->database, "offline"), 50000);
  world_end(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_p2_10000_new_devices_that_fall_silent, world_teardown),
      cmocka_unit_test_teardown(test_p3_50000_due_in_the_same_100_ms, world_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
