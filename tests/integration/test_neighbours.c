/* A tenant that reports too much is slowed down; its neighbours in the same process notice nothing (P7). */
#include "support/test.h"

#include "support/fleet.h"

#include <string.h>

static int start(void **state) {
  world_start(state, &(struct world_options){0})->begun = 0;
  return 0;
}

static int status_of(struct world *world, const char *device) {
  return client_call(world->client, "POST", device_path(world, device, "/heartbeat"), NULL)->status;
}

static void test_p7_a_tenant_over_its_rate_slows_itself_down_only(void **state) {
  struct world *world = world_begin(state);
  struct client *neighbour = client_open_as(world->service->address, world->token);
  const char *neighbours_path = device_path(world, "d", "/heartbeat");
  static const char *const limited[] = {"--heartbeats-per-second", "20", NULL};
  world_new_tenant(world, limited);
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
      cmocka_unit_test(test_p7_a_tenant_over_its_rate_slows_itself_down_only),
  };
  return cmocka_run_group_tests(tests, start, world_teardown);
}
