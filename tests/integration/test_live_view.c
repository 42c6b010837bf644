/* The live view, which a dashboard reads straight from Redis, on the dialects that have field expiry: each field ends by itself
 * at its device's deadline, whether anybody works or not, and none is ever without an end. */
#include "support/test.h"

#include "support/world.h"

#include <string.h>

/* The worker apart from the API, so that it can be killed. */
static int start(void **state) {
  struct world *world = world_start(state, &(struct world_options){.dialect = world_dialect, .roles = "api"});
  world_process(world, "worker", NULL);
  presenced_wait_ready(world->service);
  world->begun = 0;
  return 0;
}

static int64_t field_end(struct world *world, const char *device) {
  const char *key = keyspace_live_key(&world->redis, world->tenant, device);
  assert_non_null(key);
  redisReply *reply = redis_command(&world->redis, "HPEXPIRETIME %s FIELDS 1 %s", key, device);
  assert_int_equal(reply->elements, 1);
  int64_t end = reply->element[0]->integer;
  freeReplyObject(reply);
  return end;
}

static void test_a_field_ends_at_the_deadline(void **state) {
  struct world *world = world_begin(state);
  beat(world, "d", 60000);
  assert_int_equal(field_end(world, "d"), device_number(world, "d", "deadline_ms"));
  beat(world, "d", 60000); /* renewed */
  assert_int_equal(field_end(world, "d"), device_number(world, "d", "deadline_ms"));
  beat(world, "d", 5000); /* shortened */
  assert_int_equal(field_end(world, "d"), device_number(world, "d", "deadline_ms"));
  beat(world, "d", 2592000000);
  assert_int_equal(field_end(world, "d"), device_number(world, "d", "deadline_ms"));
  expect_status(world->client, 204, "POST", device_path(world, "d", "/disconnect"), NULL);
  assert_null(keyspace_live_key(&world->redis, world->tenant, "d"));
  world_check(world);
}

static void test_a_field_goes_without_any_worker(void **state) {
  struct world *world = world_begin(state);
  presenced_kill(&world->processes[1]);
  beat(world, "d", 300);
  const char *key = keyspace_live_key(&world->redis, world->tenant, "d");
  assert_non_null(key);
  WAIT_UNTIL(redis_integer(&world->redis, "EXISTS %s", key) == 0, 5000);    /* not only hidden from reads: removed */
  assert_non_null(keyspace_session_key(&world->redis, world->tenant, "d")); /* what the offline event will tell */
  assert_string_equal(device_state(world, "d"), "offline");
  world_process(world, "worker", NULL);
  history_wait(&world->database, world->tenant, "d", "online offline(timeout)");
  world_check(world);
}

static void test_no_field_is_ever_without_an_end(void **state) {
  struct world *world = world_begin(state);
  int64_t start = wait_now_ms();
  for (int round = 0; wait_now_ms() - start < 1500; round++) {
    for (int i = 0; i < 8; i++) { /* opens, renews, changes the ttl, lets expire, disconnects */
      const char *device = text_format("d%d", i);
      if (round % 5 == 4 && i % 3 == 0)
        expect_status(world->client, 204, "POST", device_path(world, device, "/disconnect"), NULL);
      else
        beat(world, device, round % 3 == 0 ? 100 : 100 + 50 * i);
      keyspace_check(&world->redis);
    }
  }
  world_check(world);
}

static void test_fields_do_not_expire_here(void **state) {
  (void)state;
  skip();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_field_ends_at_the_deadline),
      cmocka_unit_test(test_a_field_goes_without_any_worker),
      cmocka_unit_test(test_no_field_is_ever_without_an_end),
  };
  const struct CMUnitTest none[] = {cmocka_unit_test(test_fields_do_not_expire_here)};
  int failures = 0;
  if (!dialect_is_here(DIALECT_HPEXPIRE)) return cmocka_run_group_tests(none, NULL, NULL);
  for (world_dialect = DIALECT_NATIVE; world_dialect <= DIALECT_HPEXPIRE; world_dialect++)
    failures += cmocka_run_group_tests_name(dialect_name(world_dialect), tests, start, world_teardown);
  return failures;
}
