/* DELETE …/devices/{d} and presencectl device forget: the session ends, the end is published, the row goes, and nothing comes
 * back by itself (P2). */
#include "support/test.h"

#include "outbox.h"
#include "support/world.h"

#include <string.h>

static int64_t rows_of(struct world *world, const char *device) {
  return sql_integer(&world->database, "SELECT count(*) FROM presence.device WHERE tenant = $1 AND device = $2", world->tenant,
                     device, NULL);
}

static int64_t known(struct world *world) {
  return sql_integer(&world->database, "SELECT coalesce(sum(known), 0) FROM presence.tenant_stats WHERE tenant = $1",
                     world->tenant, NULL);
}

static struct client *admin(struct world *world) {
  return client_open_as(world->service->address, world_token(world, NULL, NULL));
}

static void test_an_open_session_is_closed_as_by_disconnect(void **state) {
  struct world *world = world_begin(state);
  struct client *client = admin(world);
  beat(world, "d", 60000);
  beat(world, "other", 60000);
  expect_status(client, 204, "DELETE", device_path(world, "d", ""), NULL);
  assert_int_equal(rows_of(world, "d"), 0);
  assert_string_equal(device_state(world, "d"), "404");
  assert_string_equal(device_state(world, "other"), "online");
  expect_history(world, "d", "online offline(disconnect)");
  assert_int_equal(known(world), 1);
  expect_error(client, 404, "not_found", "DELETE", device_path(world, "d", ""), NULL);
  client_close(client);
  world_check(world);
}

static void test_one_that_is_offline(void **state) {
  struct world *world = world_begin(state);
  struct client *client = admin(world);
  beat(world, "d", 100);
  history_wait(&world->database, world->tenant, "d", "online offline(timeout)");
  expect_status(client, 204, "DELETE", device_path(world, "d", ""), NULL);
  assert_int_equal(rows_of(world, "d"), 0);
  expect_history(world, "d", "online offline(timeout)");
  client_close(client);
  world_check(world);
}

static void test_it_may_come_back(void **state) {
  struct world *world = world_begin(state);
  struct client *client = admin(world);
  for (int round = 0; round < 3; round++) {
    beat(world, "d", 60000);
    expect_status(client, 204, "DELETE", device_path(world, "d", ""), NULL);
    assert_int_equal(rows_of(world, "d"), 0);
  }
  beat(world, "d", 60000);
  expect_history(world, "d", "online offline(disconnect) online offline(disconnect) online offline(disconnect) online");
  assert_int_equal(known(world), 1);
  client_close(client);
  world_check(world);
}

static void test_who_may(void **state) {
  struct world *world = world_begin(state);
  struct client *client = admin(world);
  beat(world, "d", 60000);
  expect_error(world->client, 403, "missing_scope", "DELETE", device_path(world, "d", ""), NULL);
  expect_error(client, 404, "not_found", "DELETE", device_path(world, "never", ""), NULL);
  expect_error(client, 404, "tenant_not_found", "DELETE", "/v1/tenants/nobody/devices/d", NULL);
  expect_error(client, 400, "bad_id", "DELETE", device_path(world, "a\tb", ""), NULL);
  assert_string_equal(device_state(world, "d"), "online");
  client_close(client);
  world_check(world);
}

static void test_presencectl(void **state) {
  struct world *world = world_begin(state);
  beat(world, "d", 60000);
  world_control(world, "device", "forget", world->tenant, "d", NULL);
  assert_int_equal(rows_of(world, "d"), 0);
  assert_string_equal(device_state(world, "d"), "404");
  expect_history(world, "d", "online offline(disconnect)");
  assert_int_equal(world_presencectl(world, "device", "forget", world->tenant, "d", NULL).code, 1);
  assert_int_equal(world_presencectl(world, "device", "forget", "nobody", "d", NULL).code, 1);
  assert_int_equal(world_presencectl(world, "device", "forget", world->tenant, NULL).code, 2);
  world_check(world);
}

/* What a publisher still has in its hands when the row goes changes nothing: the guard stayed behind. */
static void test_p2_a_late_publisher_repeats_nothing(void **state) {
  struct world *world = world_begin(state);
  struct client *client = admin(world);
  beat(world, "d", 60000);
  expect_status(client, 204, "DELETE", device_path(world, "d", ""), NULL);
  const char *again =
      "SELECT presence.append(0, array_agg(tenant), array_agg(device), array_agg(split_part(session, '-', 1)::bigint),"
      " array_agg(split_part(session, '-', 2)::bigint), array_agg(split_part(type, '.', 3)),"
      " array_agg(coalesce(payload->>'reason', '')), array_agg((payload->>'online_since_ms')::bigint),"
      " array_agg((payload->>'ttl_ms')::bigint), array_agg((payload->>'last_seen_ms')::bigint),"
      " array_agg((payload->>'offline_at_ms')::bigint), array_agg((payload->>'detected_at_ms')::bigint),"
      " array_agg(NULL::text), array_agg(id), array_agg(id))"
      " FROM (SELECT * FROM presence.outbox WHERE tenant = $1 ORDER BY seq) o";
  assert_string_equal(sql_text(&world->database, again, world->tenant, NULL), "(0,0,0,0,2,0)");
  assert_int_equal(rows_of(world, "d"), 0);
  expect_history(world, "d", "online offline(disconnect)");
  client_close(client);
  world_check(world);
}

static void test_guards_go_with_the_retention(void **state) {
  struct world *world = world_start(state, &(struct world_options){0});
  struct client *client = admin(world);
  beat(world, "d", 60000);
  expect_status(client, 204, "DELETE", device_path(world, "d", ""), NULL);
  PQclear(sql_query(&world->database, "CALL presence.maintain(7, 0)", NULL));
  const char *guards = "SELECT count(*) FROM presence.forgotten WHERE tenant = $1";
  assert_int_equal(sql_integer(&world->database, guards, world->tenant, NULL), 1);
  PQclear(sql_query(&world->database, "UPDATE presence.forgotten SET forgotten_at = forgotten_at - interval '8 days'", NULL));
  PQclear(sql_query(&world->database, "CALL presence.maintain(7, 0)", NULL));
  assert_int_equal(sql_integer(&world->database, guards, world->tenant, NULL), 0);
  client_close(client);
  world->checked = world->begun; /* the rules would look for the guard */
}

/* Nobody publishes: the session is closed, the rest is to be repeated. Then it is published, and repeating removes the device. */
static void test_not_published_yet(void **state) {
  struct world *world = world_start(state, &(struct world_options){.roles = "api", .no_service = true});
  world_process(world, "api", NULL);
  struct presenced *worker = world_process(world, "worker", NULL);
  world_talk_to(world, world->service);
  presenced_wait_ready(world->service);
  struct client *client = admin(world);
  beat(world, "d", 60000);
  history_wait(&world->database, world->tenant, "d", "online");
  presenced_pause(worker);
  expect_error(client, 503, "not_published", "DELETE", device_path(world, "d", ""), NULL);
  assert_string_equal(device_state(world, "d"), "offline");
  assert_int_equal(rows_of(world, "d"), 1);
  presenced_resume(worker);
  WAIT_UNTIL(client_call(client, "DELETE", device_path(world, "d", ""), NULL)->status != 503, 20000);
  assert_string_equal(device_state(world, "d"), "404");
  expect_history(world, "d", "online offline(disconnect)");
  client_close(client);
  world_end(world);
}

static void test_servers_away(void **state) {
  struct world *world = world_start(state, &(struct world_options){.proxies = true});
  struct client *client = admin(world);
  beat(world, "d", 600000);
  beat(world, "off", 600000);
  expect_status(world->client, 204, "POST", device_path(world, "off", "/disconnect"), NULL);
  world_drain(world);
  proxy_refuse(world->redis_proxy, true);
  expect_error(client, 503, "redis_unavailable", "DELETE", device_path(world, "d", ""), NULL);
  proxy_refuse(world->redis_proxy, false);
  WAIT_UNTIL(client_call(world->client, "GET", device_path(world, "d", ""), NULL)->status == 200, 10000);
  proxy_refuse(world->postgres_proxy, true);
  expect_error(client, 503, "postgres_unavailable", "DELETE", device_path(world, "off", ""), NULL);
  proxy_refuse(world->postgres_proxy, false);
  WAIT_UNTIL(client_call(client, "DELETE", device_path(world, "off", ""), NULL)->status == 204, 10000);
  client_close(client);
  world_end(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_an_open_session_is_closed_as_by_disconnect),
      cmocka_unit_test(test_one_that_is_offline),
      cmocka_unit_test(test_it_may_come_back),
      cmocka_unit_test(test_who_may),
      cmocka_unit_test(test_presencectl),
      cmocka_unit_test(test_p2_a_late_publisher_repeats_nothing),
  };
  const struct CMUnitTest alone[] = {
      cmocka_unit_test_teardown(test_guards_go_with_the_retention, world_teardown),
      cmocka_unit_test_teardown(test_not_published_yet, world_teardown),
      cmocka_unit_test_teardown(test_servers_away, world_teardown),
  };
  return cmocka_run_group_tests(tests, world_group_start, world_teardown) + cmocka_run_group_tests(alone, NULL, NULL);
}
