/* Heartbeats and the end of a session at the same moment (P1, P2, P3). Redis's clock stands still where the test puts it, so that
 * "the same millisecond" is exactly that. */
#include "support/test.h"

#include "support/world.h"

#include <string.h>

#define DEVICES 100

/* The worker apart from the API, so that it can be paused. The clock only goes forward, from test to test. */
static int start(void **state) {
  struct world *world =
      world_start(state, &(struct world_options){.dialect = world_dialect, .clock_ms = 1790000000000, .roles = "api"});
  world_process(world, "worker", NULL);
  presenced_wait_ready(world->service);
  world->begun = 0;
  return 0;
}

static const char *name(int i) { return text_format("d%03d", i); }

/* Answers, so that the detector's last look saw the clock as it stands now: a witness device goes the whole way. */
static void let_the_detector_pass(struct world *world, const char *witness) {
  history_wait(&world->database, world->tenant, witness, "online offline(timeout)");
}

static void test_p1_a_heartbeat_at_the_deadline_renews(void **state) {
  struct world *world = world_begin(state);
  for (int i = 0; i < DEVICES; i++) beat(world, name(i), 1000);
  beat(world, "witness", 999);
  world_move_clock(world, 1000); /* the last millisecond of all; the detector looks at them again and again */
  let_the_detector_pass(world, "witness");
  for (int i = 0; i < DEVICES; i++) beat(world, name(i), 1000);
  world_move_clock(world, 1000);
  for (int i = 0; i < DEVICES; i++) expect_history(world, name(i), "online");
  world_check(world);
}

/* Whether the detector or the heartbeat closes the old session: offline, then online, once each. */
static void test_p2_a_heartbeat_beside_the_detector(void **state) {
  struct world *world = world_begin(state);
  int64_t start_ms = world->clock_ms;
  for (int i = 0; i < DEVICES; i++) beat(world, name(i), 1000);
  world_move_clock(world, 1001);
  for (int i = DEVICES - 1; i >= 0; i--) beat(world, name(i), 60000);
  for (int i = 0; i < DEVICES; i++) history_wait(&world->database, world->tenant, name(i), "online offline(timeout) online");
  assert_string_equal(history_payload(&world->database, world->tenant, name(0), 1, "offline_at_ms"),
                      text_format("%lld", (long long)start_ms + 1000));
  world_check(world);
}

static void test_p3_a_return_that_no_worker_saw(void **state) {
  struct world *world = world_begin(state);
  struct presenced *worker = &world->processes[1];
  int64_t start_ms = world->clock_ms;
  beat(world, "d", 1000);
  beat(world, "stays", 1000);
  history_wait(&world->database, world->tenant, "stays", "online");
  presenced_pause(worker);
  world_move_clock(world, 1001);
  assert_string_equal(device_state(world, "d"), "offline"); /* no worker has looked */
  beat(world, "d", 60000);
  assert_string_equal(device_state(world, "d"), "online");
  presenced_resume(worker);
  history_wait(&world->database, world->tenant, "d", "online offline(timeout) online");
  history_wait(&world->database, world->tenant, "stays", "online offline(timeout)");
  assert_string_equal(history_payload(&world->database, world->tenant, "d", 2, "online_since_ms"),
                      text_format("%lld", (long long)start_ms + 1001));
  world_check(world);
}

static void test_p2_a_ttl_changed_near_the_deadline(void **state) {
  struct world *world = world_begin(state);
  int64_t start_ms = world->clock_ms;
  beat(world, "grows", 1000);
  beat(world, "shrinks", 5000);
  world_move_clock(world, 1000);
  beat(world, "grows", 5000);
  beat(world, "shrinks", 100);
  world_move_clock(world, 101);
  history_wait(&world->database, world->tenant, "shrinks", "online offline(timeout)");
  expect_history(world, "grows", "online");
  world_move_clock(world, 4899); /* grows: its last millisecond */
  beat(world, "witness", 100);
  assert_string_equal(device_state(world, "grows"), "online");
  world_move_clock(world, 1);
  history_wait(&world->database, world->tenant, "grows", "online offline(timeout)");
  assert_string_equal(history_payload(&world->database, world->tenant, "grows", 1, "offline_at_ms"),
                      text_format("%lld", (long long)start_ms + 6000));
  assert_string_equal(history_payload(&world->database, world->tenant, "shrinks", 1, "offline_at_ms"),
                      text_format("%lld", (long long)start_ms + 1100));
  world_check(world);
}

static bool is_heard_in_all_partitions(struct world *world) {
  for (int partition = 0; partition < 8; partition++)
    if (redis_integer(&world->redis, "HGET prod:presence:clock:v1:{%d} ingest_seen", partition) != world->clock_ms) return false;
  return true;
}

/* Less than an outage, and not further before every partition has been marked. */
static void listen_for(struct world *world, int64_t ms) {
  for (; ms > 0; ms -= 4000) {
    world_move_clock(world, ms < 4000 ? ms : 4000);
    WAIT_UNTIL(is_heard_in_all_partitions(world), 5000);
  }
}

/* 20 s of deafness move the deadline, which then holds to the millisecond; what is told is the time of the last heartbeat. */
static void test_p1_an_outage_does_not_count(void **state) {
  struct world *world = world_begin(state);
  int64_t start_ms = world->clock_ms;
  beat(world, "returns", 10000);
  beat(world, "dead", 10000);
  world_move_clock(world, 20000);
  WAIT_UNTIL(is_heard_in_all_partitions(world), 5000);
  assert_string_equal(device_state(world, "returns"), "unknown");
  listen_for(world, 10000); /* its last millisecond */
  assert_string_equal(device_state(world, "dead"), "unknown");
  beat(world, "returns", 10000);
  assert_string_equal(device_state(world, "returns"), "online");
  world_move_clock(world, 1);
  history_wait(&world->database, world->tenant, "dead", "online offline(timeout)");
  assert_string_equal(history_payload(&world->database, world->tenant, "dead", 1, "offline_at_ms"),
                      text_format("%lld", (long long)start_ms + 10000));
  expect_history(world, "returns", "online");
  world_check(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_p1_a_heartbeat_at_the_deadline_renews), cmocka_unit_test(test_p2_a_heartbeat_beside_the_detector),
      cmocka_unit_test(test_p3_a_return_that_no_worker_saw),        cmocka_unit_test(test_p2_a_ttl_changed_near_the_deadline),
      cmocka_unit_test(test_p1_an_outage_does_not_count),
  };
  int failures = 0;
  for (int dialect = 0; dialect < DIALECT_COUNT; dialect++) {
    world_dialect = (enum dialect)dialect;
    if (dialect_is_here(world_dialect))
      failures += cmocka_run_group_tests_name(dialect_name(world_dialect), tests, start, world_teardown);
  }
  return failures;
}
