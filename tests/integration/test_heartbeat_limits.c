/* The tenant's limits, and settings that change under way, through the whole service. */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "str.h"

#include "support/world.h"

/* Settings and the number of known devices are looked at now and then; another device each time, since one that is let in is
 * known from then on. */
static bool limit_is_in_force(struct world *world) {
  static int tries;
  const char *newcomer = text_format("newcomer %d", ++tries);
  return client_call(world->client, "POST", device_path(world, newcomer, "/heartbeat"), NULL)->status == 403;
}

static void test_a_new_device_over_the_limit_is_refused_and_known_ones_go_on(void **state) {
  struct world *world = world_start(state, &(struct world_options){.tenant = (const char *const[]){"--max-devices", "2", NULL}});
  beat(world, "a", 60000);
  beat(world, "b", 60000);
  world_drain(world); /* both have rows */
  WAIT_UNTIL(limit_is_in_force(world), 15000);
  expect_error(world->client, 403, "device_limit", "POST", device_path(world, "c", "/heartbeat"), NULL);
  beat(world, "a", 60000);
  expect_status(world->client, 204, "POST", device_path(world, "b", "/disconnect"), NULL);
  beat(world, "b", 60000); /* a new session of a device whose row exists */
  json_t *answer = expect(world->client, 200, "POST", tenant_path(world, "/heartbeats"), "[\"a\",\"d\",\"b\",\"e\"]");
  assert_int_equal(json_integer_value(json_object_get(answer, "accepted")), 2);
  json_t *rejected = json_object_get(answer, "rejected");
  assert_int_equal(json_array_size(rejected), 2);
  assert_string_equal(json_string_value(json_object_get(json_array_get(rejected, 0), "device")), "d");
  assert_int_equal(json_integer_value(json_object_get(json_array_get(rejected, 0), "index")), 1);
  assert_string_equal(json_string_value(json_object_get(json_array_get(rejected, 1), "error")), "device_limit");
  assert_int_equal(json_integer_value(json_object_get(json_array_get(rejected, 1), "index")), 3);
  json_decref(answer);
  assert_string_equal(device_state(world, "c"), "404");
  world_end(world);
}

static void test_over_the_rate_is_429_with_retry_after(void **state) {
  struct world *world =
      world_start(state, &(struct world_options){.tenant = (const char *const[]){"--heartbeats-per-second", "10", NULL}});
  struct buf body = {0};
  assert_int_equal(buf_append(&body, "[\"d\"", 4), STATUS_OK);
  for (int i = 1; i < 1000; i++) assert_int_equal(buf_append(&body, ",\"d\"", 4), STATUS_OK);
  assert_int_equal(buf_append(&body, "]", 2), STATUS_OK);
  expect_status(world->client, 200, "POST", tenant_path(world, "/heartbeats"), body.data); /* the burst */
  const struct response *response = client_call(world->client, "POST", tenant_path(world, "/heartbeats"), body.data);
  assert_int_equal(response->status, 429);
  const char *retry_after = response_header(response, "Retry-After");
  assert_non_null(retry_after);
  long wait_s = strtol(retry_after, NULL, 10);
  assert_true(wait_s >= 90 && wait_s <= 100);
  assert_non_null(strstr(response->body, "rate_limited"));
  expect_status(world->client, 400, "POST", tenant_path(world, "/heartbeats"), "{}"); /* 400 comes before 429 */
  expect_status(world->client, 200, "GET", device_path(world, "d", ""), NULL);        /* reading is not limited */
  assert_true(metric(world, "presence_heartbeats_total{result=\"rate_limited\"}") == 1000);
  assert_true(metric(world, "presence_heartbeats_total{result=\"replaced\"}") == 999);
  buf_free(&body);
  world_end(world);
}

/* In all partitions of Redis: the tenant has been seen with this generation. */
static void make_redis_know(struct world *world, const char *generation) {
  for (int partition = 0; partition < 8; partition++)
    (void)redis_text(&world->redis, "HSET prod:presence:tenant:v1:{%d} %s %s:313", partition, world->tenant, generation);
}

static void test_old_settings_are_reloaded_and_tried_once_more(void **state) {
  struct world *world = world_start(state, &(struct world_options){0});
  beat(world, "d", 60000);
  make_redis_know(world, "1000000");
  expect_status(world->client, 503, "POST", device_path(world, "d", "/heartbeat"), NULL);
  expect_status(world->client, 503, "POST", tenant_path(world, "/heartbeats"), "[\"d\",\"e\"]");
  expect_status(world->client, 503, "POST", device_path(world, "d", "/disconnect"), NULL);
  expect_status(world->client, 503, "GET", device_path(world, "d", ""), NULL);
  PQclear(sql_query(&world->database, "UPDATE presence.tenant SET generation = 1000000", NULL));
  expect_status(world->client, 204, "POST", device_path(world, "d", "/heartbeat"), NULL);
  expect_status(world->client, 200, "GET", device_path(world, "d", ""), NULL);
  make_redis_know(world, "1000001");
  PQclear(sql_query(&world->database, "UPDATE presence.tenant SET generation = 1000001", NULL));
  json_t *answer = expect(world->client, 200, "POST", tenant_path(world, "/heartbeats"), "[\"d\",\"e\",\"f\",\"g\",\"h\"]");
  assert_int_equal(json_integer_value(json_object_get(answer, "accepted")), 5);
  json_decref(answer);
  make_redis_know(world, "1000002");
  PQclear(sql_query(&world->database, "UPDATE presence.tenant SET generation = 1000002", NULL));
  expect_status(world->client, 200, "GET", device_path(world, "d", ""), NULL);
  make_redis_know(world, "1000003");
  PQclear(sql_query(&world->database, "UPDATE presence.tenant SET generation = 1000003", NULL));
  expect_status(world->client, 204, "POST", device_path(world, "d", "/disconnect"), NULL);
  world_end(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_a_new_device_over_the_limit_is_refused_and_known_ones_go_on, world_teardown),
      cmocka_unit_test_teardown(test_over_the_rate_is_429_with_retry_after, world_teardown),
      cmocka_unit_test_teardown(test_old_settings_are_reloaded_and_tried_once_more, world_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
