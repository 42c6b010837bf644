/* A Redis that answers, but takes no writes for a while (P5): too few replicas, no memory left. Heartbeats are refused, readyz
 * says so all the time, and nobody is declared offline for what was not heard. */
#include "support/test.h"

#include "support/fleet.h"

#include <string.h>

enum { DEVICES = 20 };

static int start(void **state) {
  static const char *const environment[] = {"PRESENCE_OUTAGE_MS=500", "PRESENCE_SETTLE_MS=1000", NULL};
  world_start(state, &(struct world_options){.environment = environment})->begun = 0;
  return 0;
}

static bool is_ready(struct world *world) {
  const struct response *response = client_call(world->client, "GET", "/readyz", NULL);
  assert_non_null(strstr(response->body, response->status == 200 ? "\"redis\":\"ok\"" : "\"redis\":\"unavailable\""));
  return response->status == 200;
}

static void lives_through(struct world *world, const char *setting, const char *refusing, const char *taking) {
  WAIT_UNTIL(is_ready(world), 20000);
  fleet_beat(world, 0, DEVICES, 60000);
  WAIT_UNTIL(fleet_try_beat(world, "short", 1000) == 204, 20000);
  history_wait(&world->database, world->tenant, "short", "online");
  redis_text(&world->redis, "CONFIG SET %s %s", setting, refusing);
  WAIT_UNTIL(fleet_try_beat(world, "d0", 60000) == 503, 20000);
  WAIT_UNTIL(!is_ready(world), 20000);
  int64_t until_ms = redis_now_ms(&world->redis) + 1500;
  while (redis_now_ms(&world->redis) < until_ms) { /* also where no heartbeat comes that would find out */
    assert_false(is_ready(world));
    wait_pause();
  }
  assert_int_equal(fleet_try_beat(world, "short", 1000), 503);
  redis_text(&world->redis, "CONFIG SET %s %s", setting, taking);
  WAIT_UNTIL(fleet_try_beat(world, "short", 60000) == 204, 20000);
  fleet_beat_until_taken(world, DEVICES, 60000);
  WAIT_UNTIL(is_ready(world), 20000);
  world_check(world);
  assert_int_equal(fleet_with_history(world, "online"), DEVICES + 1);
}

static void test_p5_too_few_replicas(void **state) { lives_through(world_begin(state), "min-replicas-to-write", "1", "0"); }

static void test_p5_no_memory_left(void **state) { lives_through(world_begin(state), "maxmemory", "1", "0"); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_p5_too_few_replicas),
      cmocka_unit_test(test_p5_no_memory_left),
  };
  return cmocka_run_group_tests(tests, start, world_teardown);
}
