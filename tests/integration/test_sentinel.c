/* A primary with replicas and Sentinels (P2, P3, P5): whichever server is the primary, the service finds it; a fail-over makes no
 * event, loses no row and doubles none, also where the replica lacked the last seconds. */
#include "support/test.h"

#include "support/fleet.h"
#include "support/redis_group.h"

#include <string.h>

#define DEVICES 40

static struct redis_group group;
static size_t primary; /* of the group, now */

static int start(void **state) {
  sentinel_group_start(&group, 2, NULL);
  group_world_start(state, &group);
  return 0;
}

static int stop(void **state) { return group_world_stop(state, &group); }

static void check(struct world *world) {
  WAIT_UNTIL(keyspace_unpublished(&group.servers[primary]) == 0, 20000);
  keyspace_check(&group.servers[primary]);
  world_check(world);
}

static const char *session_of(struct world *world, const char *device) {
  json_t *object = device_object(world, device);
  const char *session = text_format("%s", json_string_value(json_object_get(object, "session")));
  json_decref(object);
  return session;
}

static const char *run_id_of(struct redis_server *server) {
  const char *info = redis_text(server, "INFO server"), *at = strstr(info, "run_id:");
  assert_non_null(at);
  return text_format("%.40s", at + 7);
}

static void test_p5_a_planned_failover(void **state) {
  struct world *world = world_begin(state);
  fleet_beat(world, 0, DEVICES, 60000);
  group_wait_in_step(&group, primary, 2);
  group_fail_over(&group);
  size_t before = primary;
  primary = group_wait_promoted(&group, before);
  WAIT_UNTIL(!group_is_primary(&group.servers[before]), 40000);
  fleet_beat_until_taken(world, DEVICES, 60000);
  const char *adopted = redis_text(&group.servers[primary], "HGET prod:presence:clock:v1:{0} run_id");
  assert_string_equal(adopted, run_id_of(&group.servers[primary]));
  check(world);
  fleet_expect(world, DEVICES, "online");
  assert_int_equal(world_presencectl(world, "status", NULL).code, 0);
}

static void test_p5_the_primary_dies(void **state) {
  struct world *world = world_begin(state);
  fleet_beat(world, 0, DEVICES, 60000);
  const char *session = session_of(world, "d0");
  group_wait_in_step(&group, primary, 2);
  size_t dead = primary;
  redis_server_kill(&group.servers[dead]);
  WAIT_UNTIL(fleet_try_beat(world, "d0", 60000) == 503, 10000); /* nobody else takes it yet */
  fleet_beat_until_taken(world, DEVICES, 60000);
  primary = group_wait_promoted(&group, dead);
  assert_string_equal(session_of(world, "d0"), session);
  beat(world, "new", 60000); /* a session id after all that PostgreSQL knows */
  history_wait(&world->database, world->tenant, "new", "online");
  fleet_beat(world, 0, DEVICES, 500); /* and then they are silent while we listen */
  WAIT_UNTIL(fleet_with_history(world, "online offline(timeout)") == DEVICES, 10000);
  check(world);
  redis_server_restart(&group.servers[dead]);
}

/* The replicas hear nothing more; then one of them becomes the primary. */
static void test_p2_the_promoted_replica_lacks_the_last_seconds(void **state) {
  struct world *world = world_begin(state);
  fleet_beat(world, 0, DEVICES, 60000);
  beat(world, "closed", 60000);
  group_wait_in_step(&group, primary, 1);
  for (size_t i = 0; i < group.count; i++) {
    if (i != primary) group_cut_off(&group, i);
  }
  beat(world, "late", 60000);
  const char *late = session_of(world, "late");
  history_wait(&world->database, world->tenant, "late", "online");
  expect_status(world->client, 204, "POST", device_path(world, "closed", "/disconnect"), NULL);
  history_wait(&world->database, world->tenant, "closed", "online offline(disconnect)");
  size_t dead = primary;
  redis_server_kill(&group.servers[dead]);
  fleet_beat_until_taken(world, DEVICES, 60000);
  primary = group_wait_promoted(&group, dead);
  WAIT_UNTIL(strcmp(device_state(world, "closed"), "offline") == 0, 20000); /* the audit's work */
  WAIT_UNTIL(fleet_try_beat(world, "late", 60000) == 204, 10000);
  WAIT_UNTIL(strcmp(session_of(world, "late"), late) == 0, 20000);
  check(world);
  assert_int_equal(fleet_with_history(world, "online"), DEVICES + 1);
  history_wait(&world->database, world->tenant, "closed", "online offline(disconnect)");
}

/* A URL of a single server that is a replica: said in one line. */
static void test_a_replica_is_refused_at_start(void **state) {
  struct world *world = world_begin(state);
  size_t replica = 0;
  while (replica == primary || group.servers[replica].child.pid == 0) replica++;
  const char *const environment[] = {text_format("PRESENCE_REDIS_URL=redis://127.0.0.1:%d", group.ports[replica]),
                                     text_format("PRESENCE_POSTGRES_URL=%s", world->database.url), "PRESENCE_STARTUP_WAIT_MS=100",
                                     NULL};
  struct outcome outcome = run_program("presenced", environment, (const char *const[]){NULL});
  assert_int_equal(outcome.code, 1);
  assert_non_null(strstr(outcome.err, "this server is a replica, a primary is needed"));
  check(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_replica_is_refused_at_start),
      cmocka_unit_test(test_p5_a_planned_failover),
      cmocka_unit_test(test_p5_the_primary_dies),
      cmocka_unit_test(test_p2_the_promoted_replica_lacks_the_last_seconds),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
