/* presencectl tenant delete: nothing of the tenant is left but its history, whenever it was interrupted; others notice nothing.
 */
#include "support/test.h"

#include "failpoint.h"
#include "support/fleet.h"

#include <string.h>

static int start(void **state) {
  world_start(state, &(struct world_options){0})->begun = 0;
  return 0;
}

/* Six buckets, so that there is something in most partitions. */
static const char *const of_200[] = {"--max-devices", "200", NULL};

static struct world *begin(void **state) {
  struct world *world = world_begin(state);
  world_new_tenant(world, of_200);
  return world;
}

static struct outcome delete_with(struct world *world, const char *failpoint, const char *action) {
  const char *environment[60];
  size_t count = 0;
  for (const char *const *each = world_environment(world); *each != NULL; each++) environment[count++] = *each;
  if (failpoint != NULL) environment[count++] = text_format("PRESENCE_FAILPOINT=%s", failpoint);
  if (failpoint != NULL) environment[count++] = text_format("PRESENCE_FAILPOINT_ACTION=%s", action);
  environment[count] = NULL;
  const char *const words[] = {"tenant", "delete", world->tenant, NULL};
  return run_program("presencectl", environment, words);
}

static struct outcome delete_tenant(struct world *world) { return delete_with(world, NULL, NULL); }

static int64_t keys_left(struct world *world) {
  return redis_integer(&world->redis, "EVAL %s 0 %s", "return #redis.call('KEYS', ARGV[1])",
                       text_format("*:presence:*:%s:*", world->tenant));
}

/* In which of the partitions' hashes does the tenant still stand? */
static int64_t fields_left(struct world *world, const char *resource) {
  return redis_integer(&world->redis, "EVAL %s 0 %s %s",
                       "local n = 0 for _, key in ipairs(redis.call('KEYS', ARGV[1])) do"
                       " n = n + redis.call('HEXISTS', key, ARGV[2]) end return n",
                       text_format("*:presence:%s:v1:*", resource), world->tenant);
}

static int64_t rows_left(struct world *world, const char *table) {
  return sql_integer(&world->database, text_format("SELECT count(*) FROM presence.%s WHERE tenant = $1", table), world->tenant,
                     NULL);
}

static void expect_gone(struct world *world) {
  assert_int_equal(keys_left(world), 0);
  assert_int_equal(fields_left(world, "count"), 0);
  assert_int_equal(fields_left(world, "recount"), 0);
  assert_int_equal(fields_left(world, "tenant"), 8);
  assert_int_equal(rows_left(world, "device"), 0);
  assert_int_equal(rows_left(world, "tenant_stats"), 0);
  assert_int_equal(rows_left(world, "token"), 0);
  assert_int_equal(sql_integer(&world->database, "SELECT count(*) FROM presence.tenant WHERE id = $1", world->tenant, NULL), 0);
}

static int status_of(struct world *world, struct client *client) {
  return client_call(client, "POST", device_path(world, "d0", "/heartbeat"), NULL)->status;
}

static void again(struct world *world, const char *tenant) {
  world_control(world, "tenant", "create", tenant, "--max-devices", "200", NULL);
  world->token = world_token(world, tenant, "device,read");
  client_close(world->client);
  world->client = client_open_as(world->service->address, world->token);
}

static void test_a_tenant_is_deleted_and_made_again(void **state) {
  struct world *world = world_begin(state);
  const char *neighbour = world->tenant;
  struct client *neighbours = client_open_as(world->service->address, world->token);
  fleet_beat(world, 0, 50, 600000);
  world_new_tenant(world, of_200);
  fleet_beat(world, 0, 200, 600000);
  expect_status(world->client, 204, "POST", device_path(world, "d7", "/heartbeat"), "{\"meta\":{\"a\":1}}");
  expect_status(world->client, 204, "POST", device_path(world, "d8", "/disconnect"), NULL);
  world_drain(world);
  const char *answer = world_control(world, "tenant", "delete", world->tenant, "--json", NULL);
  assert_non_null(strstr(answer, "\"sessions_ended\":199"));
  assert_non_null(strstr(answer, "\"devices_removed\":200"));
  expect_gone(world);
  assert_int_equal(fleet_with_history(world, "online offline(disconnect)"), 200);
  WAIT_UNTIL(status_of(world, world->client) == 401, 5000);
  struct client *admin = client_open_as(world->service->address, world_token(world, NULL, NULL));
  expect_status(admin, 404, "GET", tenant_path(world, "/counts"), NULL);
  client_close(admin);
  json_t *counts = expect(neighbours, 200, "GET", text_format("/v1/tenants/%s/counts", neighbour), NULL);
  assert_int_equal(json_integer_value(json_object_get(counts, "online")), 50);
  json_decref(counts);
  client_close(neighbours);

  again(world, world->tenant);
  assert_string_equal(device_state(world, "d7"), "404");
  beat(world, "d7", 600000);
  assert_string_equal(device_state(world, "d7"), "online");
  expect_history(world, "d7", "online offline(disconnect) online");
  world_check(world);
}

static void test_nobody_writes_while_it_is_being_deleted(void **state) {
  struct world *world = begin(state);
  fleet_beat(world, 0, 200, 600000);
  assert_int_equal(delete_with(world, "tenant_delete_step", "kill").code, 128 + 9);
  int64_t open = redis_integer(&world->redis, "EVAL %s 0 %s",
                               "local n = 0 for _, key in ipairs(redis.call('KEYS', ARGV[1])) do"
                               " n = n + redis.call('HLEN', key) end return n",
                               text_format("*:presence:session:v1:*:%s:*", world->tenant));
  assert_true(open < 200);
  assert_int_equal(status_of(world, world->client), 403);
  struct outcome second = delete_tenant(world);
  assert_int_equal(second.code, 0);
  expect_gone(world);
  assert_int_equal(fleet_with_history(world, "online offline(disconnect)"), 200);
  struct outcome third = delete_tenant(world);
  assert_int_equal(third.code, 1);
  assert_string_equal(third.err, "presencectl: no such tenant\n");
  world_check(world);
}

/* At every place of the table that is one of tenant delete. */
static void at_each_place(void **state, const char *action) {
  for (int i = 0; i < FAILPOINT_COUNT; i++) {
    const char *name = failpoint_names()[i];
    if (strncmp(name, "tenant_delete_", 14) != 0) continue;
    print_message("%s at %s\n", action, name);
    struct world *world = begin(state);
    fleet_beat(world, 0, 200, 600000);
    if (strcmp(name, "tenant_delete_step") == 0) name = "tenant_delete_step:3"; /* the first: see above */
    struct outcome first = delete_with(world, name, action);
    bool killed = strcmp(action, "kill") == 0;
    if (killed) assert_int_equal(first.code, 128 + 9);
    if (!killed) assert_non_null(strstr(first.err, "event=failpoint"));
    if (first.code != 0) { /* with its last reply lost it had done all */
      struct outcome second = delete_tenant(world);
      if (killed || strcmp(second.err, "presencectl: no such tenant\n") != 0) assert_int_equal(second.code, 0);
    }
    expect_gone(world);
    assert_int_equal(fleet_with_history(world, "online offline(disconnect)"), 200);
    world_check(world);
  }
}

static void test_it_goes_on_wherever_it_was_killed(void **state) { at_each_place(state, "kill"); }
static void test_it_goes_on_wherever_a_reply_is_lost(void **state) { at_each_place(state, "cut"); }

/* Keys of a layout that today's settings do not name, and sessions that Redis has lost. */
static void test_what_is_left_behind_goes_too(void **state) {
  struct world *world = begin(state);
  fleet_beat(world, 0, 200, 600000);
  world_drain(world);
  const char *lost = keyspace_session_key(&world->redis, world->tenant, "d0");
  int64_t sessions = redis_integer(&world->redis, "HLEN %s", lost);
  for (int i = 0; i < 4; i++) {
    static const char *const kinds[] = {"session", "live", "due", "meta"};
    redis_text(&world->redis, "DEL prod:presence:%s:v1:%s", kinds[i], strchr(lost, '{'));
  }
  redis_text(&world->redis, "HSET prod:presence:session:v1:{3}:%s:4711 stray mubbs7i8,60000,0", world->tenant);
  redis_text(&world->redis, "ZADD prod:presence:due:v1:{3}:%s:4711 %lld stray", world->tenant,
             (long long)redis_now_ms(&world->redis) + 60000);
  redis_text(&world->redis, "SET prod:presence:meta:v1:{3}:%s-2:1 other", world->tenant);
  world_control(world, "tenant", "delete", world->tenant, NULL);
  expect_gone(world);
  assert_int_equal(redis_integer(&world->redis, "DEL prod:presence:meta:v1:{3}:%s-2:1", world->tenant), 1);
  assert_int_equal(fleet_with_history(world, "online offline(state_lost)"), sessions);
  assert_int_equal(fleet_with_history(world, "online offline(disconnect)"), 200 - sessions + 1);
  world_check(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_tenant_is_deleted_and_made_again), cmocka_unit_test(test_nobody_writes_while_it_is_being_deleted),
      cmocka_unit_test(test_it_goes_on_wherever_it_was_killed),  cmocka_unit_test(test_it_goes_on_wherever_a_reply_is_lost),
      cmocka_unit_test(test_what_is_left_behind_goes_too),
  };
  return cmocka_run_group_tests(tests, start, world_teardown);
}
