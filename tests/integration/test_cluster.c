/* A Redis Cluster of three primaries, the first with a replica (P2, P3, P5, P7): partitions are spread over the nodes, a slot
 * moves under load, a node hangs, fails over, is away. No event is false, lost or doubled, and nobody waits for another's node.
 */
#include "support/test.h"

#include "support/fleet.h"
#include "support/redis_group.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "keys.h"
#include "redis/slot.h"

enum { DEVICES = 60, PRIMARIES = 3, PARTITIONS = 8 };

static struct redis_group group;
static size_t owners[PRIMARIES] = {0, 1, 2}; /* of each third of the slots */

static int start(void **state) {
  cluster_start(&group, PRIMARIES, 1, NULL);
  group_world_start(state, &group);
  return 0;
}

static int stop(void **state) { return group_world_stop(state, &group); }

static int64_t sum(int64_t (*figure)(struct redis_server *)) {
  int64_t total = 0;
  for (size_t i = 0; i < PRIMARIES; i++) total += figure(&group.servers[owners[i]]);
  return total;
}

static void drain(struct world *world) {
  WAIT_UNTIL(sum(keyspace_unpublished) == 0, 20000);
  for (size_t i = 0; i < PRIMARIES; i++) keyspace_check(&group.servers[owners[i]]);
  world_check(world);
}

static const char *readyz(struct world *world, int wanted) {
  const struct response *response = client_call(world->client, "GET", "/readyz", NULL);
  if (response->status != wanted) fail_msg("readyz: %d %s", response->status, response->body);
  return response->body;
}

static void wait_all_ok(struct world *world) { WAIT_UNTIL(strstr(readyz(world, 200), "\"redis\":\"ok\"") != NULL, 20000); }

static int slot_of_partition(uint32_t partition) {
  struct buf key = {0};
  assert_int_equal(keys_append_partition(&key, STR_LIT("prod"), PARTITION_CLOCK, partition), STATUS_OK);
  int slot = slot_of(buf_str(&key));
  assert_int_equal(slot, redis_integer(&group.servers[0], "CLUSTER KEYSLOT %b", key.data, key.len));
  buf_free(&key);
  return slot;
}

static bool is_there(struct redis_server *server, const struct world *world, const char *device) {
  return keyspace_session_key(server, world->tenant, device) != NULL;
}

static void test_partitions_are_spread(void **state) {
  struct world *world = world_begin(state);
  wait_all_ok(world);
  fleet_beat(world, 0, DEVICES, 60000);
  for (size_t i = 0; i < PRIMARIES; i++) assert_true(keyspace_open_sessions(&group.servers[owners[i]]) > 0);
  assert_int_equal(sum(keyspace_open_sessions), DEVICES);
  const char *status = world_control(world, "status", "--json", NULL), *hot = world_control(world, "hot", "--json", NULL);
  for (size_t i = 0; i < PRIMARIES; i++) {
    const char *address = text_format("127.0.0.1:%d", group.ports[owners[i]]);
    assert_non_null(strstr(status, address));
    assert_non_null(strstr(hot, address));
    assert_non_null(strstr(readyz(world, 200), address));
  }
  assert_non_null(strstr(world_control(world, "recalibrate", world->tenant, NULL), world->tenant));
  expect_status(world->client, 204, "POST", device_path(world, "d0", "/disconnect"), NULL);
  fleet_beat(world, 1, DEVICES - 1, 500);
  WAIT_UNTIL(fleet_with_history(world, "online offline(timeout)") == DEVICES - 1, 20000);
  history_wait(&world->database, world->tenant, "d0", "online offline(disconnect)");
  drain(world);
  fleet_beat(world, 0, DEVICES, 60000);
  (void)world_control(world, "tenant", "delete", world->tenant, NULL); /* visits every primary */
  assert_int_equal(sum(keyspace_open_sessions), 0);
  drain(world);
}

/* The slot stands half moved for longer than the devices' ttl. */
static void test_p5_a_slot_moves_under_load(void **state) {
  struct world *world = world_begin(state);
  struct slot_move move = {.group = &group, .slot = slot_of_partition(3), .from = 0, .to = 1};
  wait_all_ok(world);
  fleet_beat_until_taken(world, DEVICES, 3000);
  int inside = -1;
  for (int i = 0; i < DEVICES && inside < 0; i++) {
    const char *key = keyspace_session_key(&group.servers[0], world->tenant, text_format("d%d", i));
    if (key != NULL && strstr(key, "{3}") != NULL) inside = i;
  }
  assert_true(inside >= 0);
  const char *device = text_format("d%d", inside);
  slot_move_begin(&move);
  WAIT_UNTIL(fleet_try_beat(world, device, 3000) == 503, 10000);
  assert_true(slot_move_step(&move));
  int64_t until_ms = redis_now_ms(&group.servers[0]) + 4000;
  while (redis_now_ms(&group.servers[0]) < until_ms) {
    assert_int_equal(fleet_try_beat(world, device, 3000), 503); /* half a partition takes nothing */
    for (int i = 0; i < DEVICES; i++) {
      int status = fleet_try_beat(world, text_format("d%d", i), 3000);
      if (status != 204 && status != 503) fail_msg("a heartbeat was answered %d", status);
    }
  }
  while (slot_move_step(&move)) assert_int_equal(fleet_try_beat(world, device, 3000), 503);
  slot_move_end(&move);
  fleet_beat_until_taken(world, DEVICES, 60000);
  assert_true(is_there(&group.servers[1], world, device));
  assert_false(is_there(&group.servers[0], world, device));
  drain(world);
  for (int i = 0; i < DEVICES; i++) expect_history(world, text_format("d%d", i), "online");
  fleet_beat(world, 0, DEVICES, 500);
  WAIT_UNTIL(fleet_with_history(world, "online offline(timeout)") == DEVICES, 20000);
  drain(world);
}

/* Which devices are on this server; how many. */
static int find_devices(struct redis_server *server, const struct world *world, bool there[DEVICES]) {
  int count = 0;
  for (int i = 0; i < DEVICES; i++) count += there[i] = is_there(server, world, text_format("d%d", i));
  assert_true(count > 0 && count < DEVICES);
  return count;
}

static int first_where(const bool there[DEVICES], bool wanted) {
  int i = 0;
  while (there[i] != wanted) i++;
  return i;
}

/* All devices in one request: those of the server that hangs are refused one by one. */
static void expect_batch(struct world *world, int accepted) {
  const char *body = "[\"d0\"";
  for (int i = 1; i < DEVICES; i++) body = text_format("%s,\"d%d\"", body, i);
  json_t *answer = expect(world->client, 200, "POST", tenant_path(world, "/heartbeats"), text_format("%s]", body));
  assert_int_equal(json_integer_value(json_object_get(answer, "accepted")), accepted);
  assert_int_equal(json_array_size(json_object_get(answer, "rejected")), DEVICES - accepted);
  json_decref(answer);
}

/* It keeps its connections and answers nothing. Its devices are refused; the others' heartbeats, detection and publishing go on.
 * When it wakes up, it does what was sent to it meanwhile. */
static void test_p7_a_node_hangs(void **state) {
  struct world *world = world_begin(state);
  bool hung[DEVICES];
  wait_all_ok(world);
  fleet_beat_until_taken(world, DEVICES, 60000);
  int others = DEVICES - find_devices(&group.servers[2], world, hung);
  const char *inside = text_format("d%d", first_where(hung, true)), *silent = text_format("d%d", first_where(hung, false));
  child_signal(&group.servers[2].child, SIGSTOP);
  struct client *waiting = client_open_as(world->service->address, world->token);
  client_ask(waiting, "POST", device_path(world, inside, "/heartbeat"), "{\"ttl_ms\":60000}");
  for (int i = 0; i < DEVICES; i++) {
    if (!hung[i]) assert_int_equal(fleet_try_beat(world, text_format("d%d", i), 60000), 204);
  }
  assert_int_equal(client_read(waiting)->status, 503);
  client_close(waiting);
  assert_int_equal(fleet_try_beat(world, inside, 60000), 503);
  assert_non_null(strstr(readyz(world, 200), "\"redis\":\"degraded\""));
  expect_batch(world, others);
  assert_int_equal(fleet_try_beat(world, silent, 300), 204);
  history_wait(&world->database, world->tenant, silent, "online offline(timeout)");
  child_signal(&group.servers[2].child, SIGCONT);
  WAIT_UNTIL(fleet_try_beat(world, inside, 60000) == 204, 20000);
  for (int i = 0; i < DEVICES; i++) {
    if (hung[i]) WAIT_UNTIL(fleet_try_beat(world, text_format("d%d", i), 60000) == 204, 20000);
  }
  wait_all_ok(world);
  drain(world);
  assert_int_equal(fleet_with_history(world, "online"), DEVICES - 1);
}

/* Of the first third of the slots: the primary before, and the replica that took over from it. */
static void take_over(size_t *before, size_t *after) {
  *before = owners[0];
  *after = *before == 0 ? PRIMARIES : 0;
  WAIT_UNTIL(group_is_primary(&group.servers[*after]), 40000);
  redis_server_reconnect(&group.servers[*after]);
  owners[0] = *after;
}

static void check_sessions_went_on(struct world *world) {
  fleet_beat_until_taken(world, DEVICES, 60000);
  drain(world);
  fleet_expect(world, DEVICES, "online");
  fleet_beat(world, 0, DEVICES, 500);
  WAIT_UNTIL(fleet_with_history(world, "online offline(timeout)") == DEVICES, 20000);
  drain(world);
}

/* Devices are online, and a replica of the node that owns the first partition has all of it. */
static struct world *begin_in_step(void **state) {
  struct world *world = world_begin(state);
  wait_all_ok(world);
  fleet_beat_until_taken(world, DEVICES, 60000);
  group_wait_in_step(&group, owners[0], 1);
  return world;
}

/* It wakes up when another one has its place. */
static void test_p5_a_hung_node_fails_over(void **state) {
  struct world *world = begin_in_step(state);
  size_t hung, replica;
  child_signal(&group.servers[owners[0]].child, SIGSTOP);
  take_over(&hung, &replica);
  fleet_beat_until_taken(world, DEVICES, 60000);
  child_signal(&group.servers[hung].child, SIGCONT);
  WAIT_UNTIL(!group_is_primary(&group.servers[hung]), 20000);
  check_sessions_went_on(world);
}

static void test_p5_a_node_fails_over(void **state) {
  struct world *world = begin_in_step(state);
  size_t dead, replica;
  redis_server_kill(&group.servers[owners[0]]);
  take_over(&dead, &replica);
  check_sessions_went_on(world);
}

/* Without a replica: its devices are refused, the others' go on; the process starts anew all the same. */
static void test_p7_a_node_is_away(void **state) {
  struct world *world = world_begin(state);
  wait_all_ok(world);
  fleet_beat_until_taken(world, DEVICES, 60000);
  bool lost[DEVICES];
  (void)find_devices(&group.servers[2], world, lost);
  redis_server_kill(&group.servers[2]);
  WAIT_UNTIL(strstr(readyz(world, 200), "\"redis\":\"degraded\"") != NULL, 20000); /* it is still ready */
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < DEVICES; i++) {
      assert_int_equal(fleet_try_beat(world, text_format("d%d", i), i % 2 == 0 ? 60000 : 500), lost[i] ? 503 : 204);
    }
    for (int i = 1; i < DEVICES; i += 2) { /* detection and publishing go on, too */
      if (!lost[i] && round == 0) history_wait(&world->database, world->tenant, text_format("d%d", i), "online offline(timeout)");
    }
    if (round > 0) continue;
    assert_int_equal(presenced_stop(world->service), 0);
    world_respawn(world, world->service, NULL, (const char *const[]){"PRESENCE_STARTUP_WAIT_MS=1000", NULL});
    presenced_wait_listening(world->service);
    presenced_wait_ready(world->service);
    world_talk_to(world, world->service);
    for (int i = 0; i < DEVICES; i++) {
      if (!lost[i]) WAIT_UNTIL(fleet_try_beat(world, text_format("d%d", i), 60000) == 204, 10000);
    }
  }
  struct outcome status = world_presencectl(world, "status", "--json", NULL);
  assert_non_null(strstr(status.out, text_format("127.0.0.1:%d (down)", group.ports[2])));
  redis_server_restart(&group.servers[2]);
  fleet_beat_until_taken(world, DEVICES, 60000);
  wait_all_ok(world);
  drain(world);
  for (int i = 0; i < DEVICES; i++) {
    if (lost[i]) expect_history(world, text_format("d%d", i), "online");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_partitions_are_spread), cmocka_unit_test(test_p5_a_slot_moves_under_load),
      cmocka_unit_test(test_p7_a_node_hangs),       cmocka_unit_test(test_p5_a_hung_node_fails_over),
      cmocka_unit_test(test_p5_a_node_fails_over),  cmocka_unit_test(test_p7_a_node_is_away),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
