/* A device's life as its owner sees it, on every Redis dialect: heartbeats open and renew a session, silence or a disconnect ends
 * it, and the outbox tells each end once, with the right time. */
#include "support/test.h"

#include "support/world.h"

#include <stdlib.h>
#include <string.h>

static json_t *beat_for_object(struct world *world, const char *device, const char *body) {
  world->client->headers = "Prefer: return=representation\r\n";
  json_t *object = expect(world->client, 200, "POST", device_path(world, device, "/heartbeat"), body);
  world->client->headers = NULL;
  return object;
}

static const char *session_of(struct world *world, const char *device) {
  json_t *object = device_object(world, device);
  const char *session = text_format("%s", json_string_value(json_object_get(object, "session")));
  json_decref(object);
  return session;
}

static int64_t member(const json_t *object, const char *name) {
  const json_t *value = json_object_get(object, name);
  if (!json_is_integer(value)) fail_msg("%s is no integer", name);
  return json_integer_value(value);
}

static void test_a_heartbeat_opens_a_session(void **state) {
  struct world *world = world_begin(state);
  assert_string_equal(device_state(world, "d"), "404");
  int64_t before = redis_now_ms(&world->redis);
  json_t *object = beat_for_object(world, "d", "{\"ttl_ms\":60000}");
  int64_t after = redis_now_ms(&world->redis);
  assert_true(json_is_true(json_object_get(object, "transition")));
  assert_in_range(member(object, "last_seen_ms"), before, after);
  assert_int_equal(member(object, "online_since_ms"), member(object, "last_seen_ms"));
  assert_int_equal(member(object, "deadline_ms"), member(object, "last_seen_ms") + 60000);
  json_decref(object);
  assert_string_equal(device_state(world, "d"), "online");
  history_wait(&world->database, world->tenant, "d", "online");
  world_check(world);
}

static void test_the_default_ttl_is_the_tenants(void **state) {
  struct world *world = world_begin(state);
  beat(world, "d", 0);
  assert_int_equal(device_number(world, "d", "ttl_ms"), 90000);
  world_check(world);
}

static void test_silence_ends_the_session_at_its_deadline(void **state) {
  struct world *world = world_begin(state);
  beat(world, "d", 150);
  int64_t last_seen = device_number(world, "d", "last_seen_ms");
  history_wait(&world->database, world->tenant, "d", "online offline(timeout)");
  assert_int_equal(device_number(world, "d", "offline_at_ms"), last_seen + 150);
  assert_int_equal(device_number(world, "d", "last_seen_ms"), last_seen);
  assert_string_equal(history_payload(&world->database, world->tenant, "d", 1, "offline_at_ms"),
                      text_format("%lld", (long long)last_seen + 150));
  world_check(world);
}

static void test_renewals_keep_the_session(void **state) {
  struct world *world = world_begin(state);
  beat(world, "d", 1500);
  const char *session = session_of(world, "d");
  int64_t start = wait_now_ms();
  int64_t seen = 0;
  while (wait_now_ms() - start < 2000) { /* longer than the ttl: without the renewals it would be over */
    json_t *object = beat_for_object(world, "d", "{\"ttl_ms\":1500}");
    assert_true(json_is_false(json_object_get(object, "transition")));
    assert_true(member(object, "last_seen_ms") >= seen);
    seen = member(object, "last_seen_ms");
    json_decref(object);
    wait_pause();
  }
  assert_string_equal(session_of(world, "d"), session);
  expect_history(world, "d", "online");
  world_check(world);
}

/* A device whose end shows that the detector has passed a moment. */
static void wait_for_end_of(struct world *world, const char *device) {
  history_wait(&world->database, world->tenant, device, "online offline(timeout)");
}

static void test_p1_a_grown_ttl_counts_from_the_heartbeat_that_brought_it(void **state) {
  struct world *world = world_begin(state);
  beat(world, "grows", 1000);
  beat(world, "grows", 60000);
  beat(world, "witness", 1000);
  wait_for_end_of(world, "witness");
  assert_string_equal(device_state(world, "grows"), "online");
  expect_history(world, "grows", "online");
  world_check(world);
}

static void test_a_shrunk_ttl_ends_earlier(void **state) {
  struct world *world = world_begin(state);
  beat(world, "shrinks", 60000);
  beat(world, "shrinks", 200);
  int64_t last_seen = device_number(world, "shrinks", "last_seen_ms");
  wait_for_end_of(world, "shrinks");
  assert_int_equal(device_number(world, "shrinks", "offline_at_ms"), last_seen + 200);
  assert_int_equal(device_number(world, "shrinks", "ttl_ms"), 200);
  world_check(world);
}

static void test_metadata_belongs_to_the_session(void **state) {
  struct world *world = world_begin(state);
  struct client *client = world->client;
  const char *path = device_path(world, "d", "/heartbeat");
  expect_status(client, 204, "POST", path, "{\"ttl_ms\":60000,\"meta\":{\"v\": 1.50}}");
  expect_status(client, 204, "POST", path, "{\"ttl_ms\":60000}"); /* absent: kept */
  const struct response *response = client_call(client, "GET", device_path(world, "d", ""), NULL);
  assert_non_null(strstr(response->body, "{\"v\": 1.50}"));                          /* the bytes sent */
  expect_status(client, 204, "POST", path, "{\"ttl_ms\":60000,\"meta\":{\"w\":2}}"); /* replaced, not merged */
  response = client_call(client, "GET", device_path(world, "d", ""), NULL);
  assert_non_null(strstr(response->body, "\"meta\":{\"w\":2}"));
  expect_status(client, 204, "POST", device_path(world, "d", "/disconnect"), NULL);
  response = client_call(client, "GET", device_path(world, "d", ""), NULL);
  assert_non_null(strstr(response->body, "\"meta\":{\"w\":2}"));  /* the close carries it on */
  expect_status(client, 204, "POST", path, "{\"ttl_ms\":60000}"); /* a new session starts without */
  response = client_call(client, "GET", device_path(world, "d", ""), NULL);
  assert_non_null(strstr(response->body, "\"meta\":null"));
  expect_status(client, 204, "POST", path, "{\"ttl_ms\":60000,\"meta\":{\"x\":3}}");
  expect_status(client, 204, "POST", path, "{\"ttl_ms\":60000,\"meta\":null}"); /* removed */
  expect_status(client, 204, "POST", device_path(world, "d", "/disconnect"), NULL);
  history_wait(&world->database, world->tenant, "d", "online offline(disconnect) online offline(disconnect)");
  assert_string_equal(history_payload(&world->database, world->tenant, "d", 0, "meta"), "{\"v\": 1.50}");
  assert_string_equal(history_payload(&world->database, world->tenant, "d", 1, "meta"), "{\"w\": 2}");
  assert_string_equal(history_payload(&world->database, world->tenant, "d", 2, "meta"), "");
  assert_string_equal(history_payload(&world->database, world->tenant, "d", 3, "meta"), "");
  expect_status(client, 204, "POST", device_path(world, "closed", "/heartbeat"), "{\"meta\":{\"y\":4}}");
  expect_status(client, 204, "POST", device_path(world, "closed", "/disconnect"), NULL); /* leaves none behind in Redis */
  world_check(world);
}

static void test_disconnect_ends_the_current_session(void **state) {
  struct world *world = world_begin(state);
  const char *path = device_path(world, "d", "/disconnect");
  beat(world, "d", 60000);
  const char *session = session_of(world, "d");
  int64_t last_seen = device_number(world, "d", "last_seen_ms");
  int64_t before = redis_now_ms(&world->redis);
  expect_status(world->client, 204, "POST", path, text_format("{\"session\":\"%s\"}", session));
  assert_string_equal(device_state(world, "d"), "offline"); /* visible to the very next read */
  int64_t offline_at = device_number(world, "d", "offline_at_ms");
  assert_in_range(offline_at, before, redis_now_ms(&world->redis));
  assert_int_equal(device_number(world, "d", "last_seen_ms"), last_seen);
  history_wait(&world->database, world->tenant, "d", "online offline(disconnect)");
  assert_int_equal(device_number(world, "d", "offline_at_ms"), offline_at); /* the row says the same */
  world_check(world);
}

static void test_disconnect_of_another_session_is_refused(void **state) {
  struct world *world = world_begin(state);
  const char *path = device_path(world, "d", "/disconnect");
  beat(world, "d", 60000);
  expect_error(world->client, 409, NULL, "POST", path, "{\"session\":\"1-0\"}");
  assert_string_equal(device_state(world, "d"), "online");
  history_wait(&world->database, world->tenant, "d", "online");
  world_check(world);
}

static void test_disconnect_where_nothing_is_open_changes_nothing(void **state) {
  struct world *world = world_begin(state);
  const char *path = device_path(world, "d", "/disconnect");
  expect_status(world->client, 204, "POST", path, NULL);
  expect_status(world->client, 204, "POST", path, "{\"session\":\"1-0\"}");
  assert_string_equal(device_state(world, "d"), "404"); /* never seen: no row made */
  beat(world, "d", 60000);
  expect_status(world->client, 204, "POST", path, "");
  expect_status(world->client, 204, "POST", path, "{}");
  expect_status(world->client, 204, "POST", path, NULL);
  history_wait(&world->database, world->tenant, "d", "online offline(disconnect)");
  expect_status(world->client, 204, "POST", path, NULL);
  world_check(world);
  expect_history(world, "d", "online offline(disconnect)");
}

static void test_disconnect_refuses_malformed_bodies(void **state) {
  struct world *world = world_begin(state);
  const char *path = device_path(world, "d", "/disconnect");
  beat(world, "d", 60000);
  static const char *const bodies[] = {"[]",
                                       "{\"session\":7}",
                                       "{\"session\":null}",
                                       "{\"session\":\"\"}",
                                       "{\"other\":1}",
                                       "{\"session\"",
                                       "null",
                                       "{\"session\":\"x\"}",
                                       "{} {}"};
  for (size_t i = 0; i < LENGTH(bodies); i++) expect_error(world->client, 400, NULL, "POST", path, bodies[i]);
  assert_string_equal(device_state(world, "d"), "online");
  world_check(world);
}

/* Tenants whose names and devices would run together where a separator is forgotten. */
static void test_p7_the_same_id_in_two_tenants(void **state) {
  struct world *world = world_begin(state);
  const char *first = world->tenant;
  beat(world, "d", 60000);
  world_new_tenant(world, NULL);
  beat(world, "d", 150);
  wait_for_end_of(world, "d");
  world_drain(world);
  assert_string_equal(history_of(&world->database, first, "d"), "online");
  world_check(world);
}

static void test_p7_names_that_run_together(void **state) {
  struct world *world = world_begin(state);
  const char *long_name = text_format("%s-b", world->tenant), *short_name = world->tenant;
  world_control(world, "tenant", "create", long_name, "--min-ttl-ms", "100", NULL);
  beat(world, "b-c", 60000);
  world->tenant = long_name;
  world->token = world_token(world, long_name, "device,read");
  world_talk_to(world, world->service);
  assert_string_equal(device_state(world, "c"), "404");
  beat(world, "c", 150);
  wait_for_end_of(world, "c");
  world_drain(world);
  assert_string_equal(history_of(&world->database, short_name, "b-c"), "online");
  world_check(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_heartbeat_opens_a_session),
      cmocka_unit_test(test_the_default_ttl_is_the_tenants),
      cmocka_unit_test(test_silence_ends_the_session_at_its_deadline),
      cmocka_unit_test(test_renewals_keep_the_session),
      cmocka_unit_test(test_p1_a_grown_ttl_counts_from_the_heartbeat_that_brought_it),
      cmocka_unit_test(test_a_shrunk_ttl_ends_earlier),
      cmocka_unit_test(test_metadata_belongs_to_the_session),
      cmocka_unit_test(test_disconnect_ends_the_current_session),
      cmocka_unit_test(test_disconnect_of_another_session_is_refused),
      cmocka_unit_test(test_disconnect_where_nothing_is_open_changes_nothing),
      cmocka_unit_test(test_disconnect_refuses_malformed_bodies),
      cmocka_unit_test(test_p7_the_same_id_in_two_tenants),
      cmocka_unit_test(test_p7_names_that_run_together),
  };
  int failures = 0;
  RUN_IN_ALL_DIALECTS(tests, failures);
  return failures;
}
