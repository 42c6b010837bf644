/* A tenant's limits (P7, P8): they hold for it, and its neighbours notice nothing. */
#include "support/test.h"

#include "support/fleet.h"

#include <string.h>

static int start(void **state) {
  world_start(state, &(struct world_options){0})->begun = 0;
  return 0;
}

/* A tenant with one more setting than a plain one. */
static void make_tenant(struct world *world, const char *option, const char *value) {
  world->tenant = text_format("%s-limited", world->tenant);
  world_control(world, "tenant", "create", world->tenant, "--min-ttl-ms", "100", option, value, NULL);
  world->token = world_token(world, world->tenant, "device,read");
  world_talk_to(world, world->service);
}

static int status_of(struct world *world, const char *device) {
  return client_call(world->client, "POST", device_path(world, device, "/heartbeat"), NULL)->status;
}

/* A newcomer each time: those of the last seconds are not counted yet. */
static const char *a_newcomer(void) {
  static unsigned newcomers;
  return text_format("newcomer-%u", newcomers++);
}

static void test_p7_new_devices_over_the_limit_are_refused(void **state) {
  struct world *world = world_begin(state);
  make_tenant(world, "--max-devices", "3");
  for (int i = 0; i < 3; i++) beat(world, text_format("d%d", i), 60000);
  WAIT_UNTIL(status_of(world, a_newcomer()) == 403, 10000);
  expect_error(world->client, 403, "device_limit", "POST", device_path(world, "refused", "/heartbeat"), NULL);
  assert_string_equal(device_state(world, "refused"), "404");
  beat(world, "d0", 60000); /* known ones are let in, */
  expect_status(world->client, 204, "POST", device_path(world, "d1", "/disconnect"), NULL);
  world_drain(world);
  beat(world, "d1", 60000); /* also with a new session, */
  json_t *answer = expect(world->client, 200, "POST", tenant_path(world, "/heartbeats"), "[\"refused\",\"d2\"]");
  assert_int_equal(json_integer_value(json_object_get(answer, "accepted")), 1);
  json_t *rejected = json_array_get(json_object_get(answer, "rejected"), 0);
  assert_int_equal(json_integer_value(json_object_get(rejected, "index")), 0);
  assert_string_equal(json_string_value(json_object_get(rejected, "error")), "device_limit");
  json_decref(answer);
  world_control(world, "tenant", "set", world->tenant, "--max-devices", "100000", NULL);
  WAIT_UNTIL(status_of(world, "refused") == 204, 5000); /* and everybody once there is room */
  world_check(world);
}

static void test_p7_a_tenant_over_its_rate_slows_itself_down_only(void **state) {
  struct world *world = world_begin(state);
  struct client *neighbour = client_open_as(world->service->address, world->token);
  const char *neighbours_path = device_path(world, "d", "/heartbeat");
  make_tenant(world, "--heartbeats-per-second", "20");
  fleet_beat(world, 0, 1000, 60000); /* a burst of a thousand at least */
  WAIT_UNTIL(status_of(world, "d0") == 429, 5000);
  const struct response *response = client_call(world->client, "POST", device_path(world, "d0", "/heartbeat"), NULL);
  if (response->status == 429) assert_non_null(response_header(response, "Retry-After"));
  expect_error(world->client, 429, NULL, "POST", tenant_path(world, "/heartbeats"),
               "[\"d1\",\"d2\",\"d3\",\"d4\",\"d5\",\"d6\",\"d7\"]");
  expect_status(neighbour, 204, "POST", neighbours_path, NULL);
  expect_error(world->client, 400, NULL, "POST", device_path(world, "d0", "/heartbeat"), "{\"ttl_ms\":0}"); /* 400 before 429 */
  WAIT_UNTIL(status_of(world, "d0") == 204, 5000);
  client_close(neighbour);
  world_check(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_p7_new_devices_over_the_limit_are_refused),
      cmocka_unit_test(test_p7_a_tenant_over_its_rate_slows_itself_down_only),
  };
  return cmocka_run_group_tests(tests, start, world_teardown);
}
