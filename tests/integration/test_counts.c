/* GET …/counts, and that at rest all ways of asking say the same (P6). */
#include "support/test.h"

#include "support/fleet.h"

#include <string.h>

static int64_t count_of(struct world *world, const char *member) {
  json_t *answer = expect(world->client, 200, "GET", tenant_path(world, "/counts"), NULL);
  assert_string_equal(json_string_value(json_object_get(answer, "tenant")), world->tenant);
  const json_t *value = json_object_get(answer, member);
  if (!json_is_integer(value)) fail_msg("%s is no integer", member);
  int64_t number = json_integer_value(value);
  json_decref(answer);
  return number;
}

static void expect_counts(struct world *world, int64_t online, int64_t offline) {
  assert_int_equal(count_of(world, "online"), online);
  assert_int_equal(count_of(world, "offline"), offline);
  assert_int_equal(count_of(world, "known"), online + offline);
}

static int64_t listed(struct world *world, const char *state) {
  int64_t count = 0;
  const char *cursor = "";
  while (cursor != NULL) {
    const char *path = tenant_path(world, text_format("/devices?state=%s&limit=1000%s", state, cursor));
    json_t *page = expect(world->client, 200, "GET", path, NULL);
    const char *next = json_string_value(json_object_get(page, "next"));
    count += (int64_t)json_array_size(json_object_get(page, "devices"));
    cursor = next != NULL ? text_format("&cursor=%s", next) : NULL;
    json_decref(page);
  }
  return count;
}

static void test_p6_at_rest_all_say_the_same(void **state) {
  struct world *world = world_begin(state);
  expect_counts(world, 0, 0);
  fleet_beat(world, 0, 700, 600000);
  fleet_beat(world, 700, 300, 100);
  for (int i = 0; i < 50; i++)
    expect_status(world->client, 204, "POST", device_path(world, text_format("d%d", i), "/disconnect"), NULL);
  WAIT_UNTIL(count_of(world, "online") == 650, 10000);
  world_drain(world);
  expect_counts(world, 650, 350);
  assert_int_equal(listed(world, "online"), 650);
  assert_int_equal(listed(world, "offline"), 350);
  assert_int_equal(listed(world, "unknown"), 0);
  fleet_beat(world, 0, 50, 600000);
  expect_counts(world, 700, 300);
  world_check(world);
}

static void test_when_and_how_it_was_compared(void **state) {
  struct world *world = world_begin(state);
  struct client *admin = client_open_as(world->service->address, world_token(world, NULL, NULL));
  beat(world, "d", 60000);
  int64_t before_ms = redis_now_ms(&world->redis);
  int64_t as_of_ms = count_of(world, "as_of_ms");
  assert_in_range(as_of_ms, before_ms, redis_now_ms(&world->redis));
  json_decref(expect(admin, 200, "POST", tenant_path(world, "/counts/recalibrate"), NULL));
  int64_t recalibrated_ms = count_of(world, "recalibrated_ms");
  assert_in_range(recalibrated_ms, before_ms, redis_now_ms(&world->redis));
  assert_int_equal(count_of(world, "last_drift"), 0);
  redis_text(&world->redis, "HINCRBY prod:presence:count:v1:{0} %s 5", world->tenant);
  assert_int_equal(count_of(world, "online"), 6);
  json_decref(expect(admin, 200, "POST", tenant_path(world, "/counts/recalibrate"), NULL));
  assert_int_equal(count_of(world, "online"), 1);
  assert_int_equal(count_of(world, "last_drift"), 5);
  client_close(admin);
  world_check(world);
}

static void test_never_compared(void **state) {
  struct world *world = world_begin(state);
  json_t *answer = expect(world->client, 200, "GET", tenant_path(world, "/counts"), NULL);
  assert_true(json_is_null(json_object_get(answer, "recalibrated_ms")));
  assert_int_equal(json_integer_value(json_object_get(answer, "last_drift")), 0);
  json_decref(answer);
  world_check(world);
}

static void test_what_is_asked_is_checked(void **state) {
  struct world *world = world_begin(state);
  expect_error(world->client, 400, "unknown_parameter", "GET", tenant_path(world, "/counts?state=online"), NULL);
  expect_error(world->client, 405, NULL, "POST", tenant_path(world, "/counts"), NULL);
  world_check(world);
}

/* PostgreSQL away: counting goes on in Redis, and no rows are made meanwhile. Redis away: 503. */
static void test_p5_what_is_left_when_a_server_is_away(void **state) {
  struct world *world = world_start(state, &(struct world_options){.proxies = true});
  fleet_beat(world, 0, 20, 600000);
  expect_status(world->client, 204, "POST", device_path(world, "d0", "/disconnect"), NULL);
  world_drain(world);
  expect_counts(world, 19, 1);
  proxy_refuse(world->postgres_proxy, true);
  beat(world, "d0", 600000);
  WAIT_UNTIL(count_of(world, "known") == 20, 10000); /* from the directory, which looks each second */
  expect_counts(world, 20, 0);
  proxy_refuse(world->redis_proxy, true);
  WAIT_UNTIL(client_call(world->client, "GET", tenant_path(world, "/counts"), NULL)->status == 503, 5000);
  expect_error(world->client, 503, "redis_unavailable", "GET", tenant_path(world, "/counts"), NULL);
  proxy_refuse(world->redis_proxy, false);
  proxy_refuse(world->postgres_proxy, false);
  WAIT_UNTIL(client_call(world->client, "GET", tenant_path(world, "/counts"), NULL)->status == 200, 10000);
  world_end(world);
}

/* Recalibration only when it is asked for. */
static int start_without_recalibration(void **state) {
  static const char *const environment[] = {"PRESENCE_RECALIBRATE_MS=86400000", NULL};
  struct world *world = world_start(state, &(struct world_options){.environment = environment});
  world->begun = 0;
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_p6_at_rest_all_say_the_same),
      cmocka_unit_test(test_never_compared),
      cmocka_unit_test(test_when_and_how_it_was_compared),
      cmocka_unit_test(test_what_is_asked_is_checked),
  };
  const struct CMUnitTest alone[] = {cmocka_unit_test_teardown(test_p5_what_is_left_when_a_server_is_away, world_teardown)};
  return cmocka_run_group_tests(tests, start_without_recalibration, world_teardown) + cmocka_run_group_tests(alone, NULL, NULL);
}
