/* The shape of every answer of the whole service: members, types, headers, metrics. HTTP itself is in test_http_contract.c and
 * test_http_hostile.c. */
#include "support/test.h"

#include "support/world.h"

#include <stdlib.h>
#include <string.h>

static int start(void **state) {
  world_start(state, &(struct world_options){0})->begun = 0;
  return 0;
}

/* The members' names in order of the alphabet: "a b c". */
static const char *members(json_t *object) {
  assert_true(json_is_object(object));
  char *dumped = json_dumps(object, JSON_SORT_KEYS | JSON_COMPACT);
  json_t *sorted = json_loads(dumped, 0, NULL);
  free(dumped);
  const char *text = "";
  const char *name;
  json_t *value;
  json_object_foreach(sorted, name, value) text = text_format("%s%s%s", text, *text != '\0' ? " " : "", name);
  json_decref(sorted);
  json_decref(object);
  return text;
}

#define ONLINE_MEMBERS(between) "deadline_ms device last_seen_ms meta online_since_ms session state" between " ttl_ms"

static void test_the_device_object(void **state) {
  struct world *world = world_begin(state);
  beat(world, "d", 60000);
  const struct response *response = client_call(world->client, "GET", device_path(world, "d", ""), NULL);
  assert_string_equal(response_header(response, "Content-Type"), "application/json");
  json_t *object = device_object(world, "d");
  assert_true(json_is_string(json_object_get(object, "session")));
  assert_true(json_is_null(json_object_get(object, "meta")));
  static const char *const integers[] = {"online_since_ms", "last_seen_ms", "deadline_ms", "ttl_ms"};
  for (size_t i = 0; i < LENGTH(integers); i++) assert_true(json_is_integer(json_object_get(object, integers[i])));
  assert_string_equal(members(object), ONLINE_MEMBERS(""));
  expect_status(world->client, 204, "POST", device_path(world, "d", "/disconnect"), NULL);
  assert_string_equal(members(device_object(world, "d")),
                      "deadline_ms device last_seen_ms meta offline_at_ms online_since_ms reason session state ttl_ms");
  world_drain(world); /* … and from the row alone */
  object = device_object(world, "d");
  assert_string_equal(json_string_value(json_object_get(object, "reason")), "disconnect");
  assert_string_equal(members(object),
                      "deadline_ms device last_seen_ms meta offline_at_ms online_since_ms reason session state ttl_ms");
  world_check(world);
}

static void test_the_answer_to_a_heartbeat(void **state) {
  struct world *world = world_begin(state);
  const struct response *response = client_call(world->client, "POST", device_path(world, "d", "/heartbeat"), NULL);
  assert_int_equal(response->status, 204);
  assert_int_equal(response->body_length, 0);
  world->client->headers = "Prefer: return=representation\r\n";
  json_t *object = expect(world->client, 200, "POST", device_path(world, "d", "/heartbeat"), "{\"meta\":{\"a\":1}}");
  assert_true(json_is_false(json_object_get(object, "transition")));
  assert_int_equal(json_integer_value(json_object_get(json_object_get(object, "meta"), "a")), 1);
  assert_string_equal(members(object), ONLINE_MEMBERS(" transition"));
  world->client->headers = "Prefer: respond-async, return=minimal\r\n";
  expect_status(world->client, 204, "POST", device_path(world, "d", "/heartbeat"), NULL);
  world->client->headers = NULL;
  world_check(world);
}

static void test_health_and_metrics_need_no_token(void **state) {
  struct world *world = world_begin(state);
  world->client->token = NULL;
  json_decref(expect(world->client, 200, "GET", "/healthz", NULL));
  json_t *ready = expect(world->client, 200, "GET", "/readyz", NULL);
  /* The tests' Redis writes nothing to disk. */
  assert_non_null(strstr(json_string_value(json_object_get(ready, "redis_persistence")), "a restart loses all open sessions"));
  assert_true(json_is_object(ready));
  json_decref(ready);
  const struct response *response = client_call(world->client, "GET", "/metrics", NULL);
  assert_int_equal(response->status, 200);
  assert_int_equal(strncmp(response_header(response, "Content-Type"), "text/plain", 10), 0);
  world_check(world);
}

static const char *const metric_names[] = {
    "presence_heartbeats_total",
    "presence_http_requests_total",
    "presence_http_request_seconds",
    "presence_batch_size",
    "presence_online",
    "presence_transitions_total",
    "presence_detection_lag_seconds",
    "presence_due_oldest_age_seconds",
    "presence_expire_batch",
    "presence_publish_backlog",
    "presence_publish_lag_seconds",
    "presence_outbox_repeats_total",
    "presence_rejected_total",
    "presence_count_drift",
    "presence_facts_due_mismatch",
    "presence_field_ttl_replies_total",
    "presence_listeners",
    "presence_adoptions_total",
    "presence_audit_findings_total",
    "presence_redis_up",
    "presence_postgres_up",
    "presence_deaf_seconds_total",
    "presence_build_info",
};

static void test_all_metrics_are_there(void **state) {
  struct world *world = world_begin(state);
  beat(world, "d", 100);
  history_wait(&world->database, world->tenant, "d", "online offline(timeout)");
  const struct response *response = client_call(world->client, "GET", "/metrics", NULL);
  for (size_t i = 0; i < LENGTH(metric_names); i++)
    if (strstr(response->body, text_format("# TYPE %s ", metric_names[i])) == NULL) fail_msg("no metric %s", metric_names[i]);
  assert_true(metric(world, "presence_redis_up") == 1);
  assert_true(metric(world, "presence_postgres_up") == 1);
  WAIT_UNTIL(metric(world, "presence_listeners") == 1, 5000); /* 0 while this machine stands still */
  assert_true(metric(world, "presence_adoptions_total") >= 1);
  /* Counted after the row can be seen. */
  WAIT_UNTIL(metric(world, "presence_transitions_total{type=\"offline\",reason=\"timeout\"}") >= 1, 5000);
  assert_true(metric(world, "presence_detection_lag_seconds_count") >= 1);
  WAIT_UNTIL(metric(world, text_format("presence_online{tenant=\"%s\"}", world->tenant)) <= 0, 5000);
  beat(world, "e", 60000);
  WAIT_UNTIL(metric(world, text_format("presence_online{tenant=\"%s\"}", world->tenant)) == 1, 5000);
  world_check(world);
}

static void test_pipelined_requests_are_answered_in_order(void **state) {
  struct world *world = world_begin(state);
  for (int i = 0; i < 50; i++) {
    if (i % 2 == 0)
      client_ask(world->client, "POST", device_path(world, "d", "/heartbeat"), "{\"ttl_ms\":60000}");
    else
      client_ask(world->client, "GET", device_path(world, text_format("never-%d", i), ""), NULL);
  }
  for (int i = 0; i < 50; i++) assert_int_equal(client_read(world->client)->status, i % 2 == 0 ? 204 : 404);
  world_check(world);
}

static void test_any_content_type_but_ndjson_is_json(void **state) {
  struct world *world = world_begin(state);
  static const char *const types[] = {"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "x"};
  for (size_t i = 0; i < LENGTH(types); i++) {
    world->client->headers = text_format("Content-Type: %s\r\n", types[i]);
    expect_status(world->client, 204, "POST", device_path(world, "d", "/heartbeat"), "{\"ttl_ms\":60000}");
    expect_status(world->client, 200, "POST", tenant_path(world, "/heartbeats"), "[\"d\"]");
  }
  world->client->headers = NULL;
  world_check(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_device_object),
      cmocka_unit_test(test_the_answer_to_a_heartbeat),
      cmocka_unit_test(test_health_and_metrics_need_no_token),
      cmocka_unit_test(test_all_metrics_are_there),
      cmocka_unit_test(test_pipelined_requests_are_answered_in_order),
      cmocka_unit_test(test_any_content_type_but_ndjson_is_json),
  };
  return cmocka_run_group_tests(tests, start, world_teardown);
}
