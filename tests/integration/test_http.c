/* HTTP as in the contract: the shape of every answer, the order of the checks, limits, and clients that are slow, odd or hostile
 * (P8). */
#include "support/test.h"

#include "support/world.h"

#include <stdlib.h>
#include <string.h>

static const char *const environment[] = {"PRESENCE_REQUEST_TIMEOUT_MS=700", "PRESENCE_IDLE_TIMEOUT_MS=1500",
                                          "PRESENCE_MAX_CONNECTIONS=40", NULL};

static int start(void **state) {
  world_start(state, &(struct world_options){.environment = environment})->begun = 0;
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
  assert_true(metric(world, "presence_listeners") == 1);
  assert_true(metric(world, "presence_adoptions_total") >= 1);
  assert_true(metric(world, "presence_transitions_total{type=\"presence.device.offline\",reason=\"timeout\"}") >= 1 ||
              metric(world, "presence_transitions_total{type=\"offline\",reason=\"timeout\"}") >= 1);
  assert_true(metric(world, "presence_detection_lag_seconds_count") >= 1);
  WAIT_UNTIL(metric(world, text_format("presence_online{tenant=\"%s\"}", world->tenant)) <= 0, 5000);
  beat(world, "e", 60000);
  WAIT_UNTIL(metric(world, text_format("presence_online{tenant=\"%s\"}", world->tenant)) == 1, 5000);
  world_check(world);
}

static void test_paths_and_methods(void **state) {
  struct world *world = world_begin(state);
  static const char *const unknown[] = {"/v2",
                                        "/v1",
                                        "/v1/",
                                        "/v1/tenants",
                                        "/v1/tenants/t",
                                        "/healthz/",
                                        "/HEALTHZ",
                                        "//healthz",
                                        "/v1/tenants/t/devices/d/heartbeats",
                                        "/v1/tenants/t/devices/d/heartbeat/x",
                                        "/healthz%2F"};
  world->client->token = NULL; /* 404 and 405 come before 401 */
  for (size_t i = 0; i < LENGTH(unknown); i++) expect_error(world->client, 404, NULL, "GET", unknown[i], NULL);
  expect_error(world->client, 404, NULL, "DELETE", "/nothing", NULL);
  static const struct {
    const char *method, *path, *allow;
  } wrong[] = {
      {"GET", "/heartbeats", "POST"},
      {"PUT", "/heartbeats", "POST"},
      {"GET", "/devices/d/heartbeat", "POST"},
      {"GET", "/devices/d/disconnect", "POST"},
      {"PATCH", "/devices/d/heartbeat", "POST"},
  };
  for (size_t i = 0; i < LENGTH(wrong); i++) {
    const char *path = tenant_path(world, wrong[i].path);
    expect_error(world->client, 405, NULL, wrong[i].method, path, NULL);
    const struct response *response = client_call(world->client, wrong[i].method, path, NULL);
    assert_non_null(response_header(response, "Allow"));
    assert_non_null(strstr(response_header(response, "Allow"), wrong[i].allow));
  }
  expect_error(world->client, 405, NULL, "POST", "/healthz", NULL);
  expect_error(world->client, 405, NULL, "DELETE", "/metrics", NULL);
  world_check(world);
}

static void test_the_order_of_the_checks(void **state) {
  struct world *world = world_begin(state);
  const char *path = device_path(world, "d", "/heartbeat");
  const char *large = text_format("{\"ttl_ms\":0}%9000s", "");
  struct client *client = client_open(world->service->address);
  client_ask(client, "POST", path, large); /* 401 before 413 */
  assert_int_equal(client_read(client)->status, 401);
  client_close(client);
  client = client_open_as(world->service->address, world->token);
  client_ask(client, "POST", path, large); /* 413 before 400 */
  assert_int_equal(client_read(client)->status, 413);
  client_close(client);
  expect_error(world->client, 400, NULL, "POST", text_format("/v1/tenants/%s/devices/%%00/heartbeat", world->tenant), NULL);
  world->client->token = NULL; /* 401 before 400 */
  expect_error(world->client, 401, NULL, "POST", text_format("/v1/tenants/%s/devices/%%00/heartbeat", world->tenant), NULL);
  expect_error(world->client, 401, NULL, "POST", path, "nonsense");
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

static void test_a_request_byte_by_byte(void **state) {
  struct world *world = world_begin(state);
  const char *request =
      text_format("POST %s HTTP/1.1\r\nHost: x\r\nauthorization: Bearer %s\r\ncontent-length: 15\r\n\r\n{\"ttl_ms\":60000}",
                  device_path(world, "d", "/heartbeat"), world->token);
  for (const char *at = request; *at != '\0'; at++) client_send(world->client, at, 1);
  assert_int_equal(client_read(world->client)->status, 400); /* one byte short of the object: not well-formed */
  struct client *client = client_open_as(world->service->address, world->token);
  request = text_format("POST %s HTTP/1.1\r\nHost: x\r\nauthorization: Bearer %s\r\ncontent-length: 16\r\n\r\n{\"ttl_ms\":60000}",
                        device_path(world, "d", "/heartbeat"), world->token);
  for (const char *at = request; *at != '\0'; at++) client_send(client, at, 1);
  assert_int_equal(client_read(client)->status, 204);
  client_close(client);
  world_talk_to(world, world->service);
  world_check(world);
}

static void test_chunked_bodies(void **state) {
  struct world *world = world_begin(state);
  world->client->headers = "Transfer-Encoding: chunked\r\n";
  client_ask(world->client, "POST", device_path(world, "d", "/heartbeat"), NULL);
  client_send_text(world->client, "7\r\n{\"ttl_m\r\n9\r\ns\":60000}\r\n0\r\n\r\n");
  assert_int_equal(client_read(world->client)->status, 204);
  world->client->headers = NULL;
  assert_int_equal(device_number(world, "d", "ttl_ms"), 60000);
  struct client *client =
      client_open_as(world->service->address, world->token); /* longer than allowed, without saying so first */
  client->headers = "Transfer-Encoding: chunked\r\n";
  client_ask(client, "POST", device_path(world, "e", "/heartbeat"), NULL);
  client_send_text(client, text_format("2800\r\n{}%10238s\r\n0\r\n\r\n", ""));
  assert_int_equal(client_read(client)->status, 413);
  client_close(client);
  assert_string_equal(device_state(world, "e"), "404");
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

/* The status of the answer to raw bytes on a connection of their own; 0: closed without one. */
static int status_of_raw(struct world *world, const char *bytes) {
  struct client *client = client_open(world->service->address);
  client_send_text(client, bytes);
  const struct response *response = client_read_or_end(client);
  int status = response != NULL ? response->status : 0;
  client_close(client);
  return status;
}

static void test_p8_odd_framing_is_refused(void **state) {
  struct world *world = world_begin(state);
  const char *head = text_format("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n",
                                 device_path(world, "d", "/heartbeat"), world->token);
  static const char *const rests[] = {
      "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{} ",
      "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
      "Content-Length: -1\r\n\r\n",
      "Content-Length: 2x\r\n\r\n{}",
      "Content-Length: 99999999999999999999999\r\n\r\n{}",
      "Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n",
      "Transfer-Encoding: gzip\r\n\r\n",
      "Bad Header: x\r\n\r\n",
      " folded: x\r\n\r\n",
  };
  for (size_t i = 0; i < LENGTH(rests); i++) {
    int status = status_of_raw(world, text_format("%s%s", head, rests[i]));
    if (status != 0 && (status < 400 || status == 500)) fail_msg("%d to %s", status, rests[i]);
  }
  assert_string_equal(device_state(world, "d"), "404");
  static const char *const requests[] = {"\r\n\r\n",
                                         "GET\r\n\r\n",
                                         "GET /healthz\r\n\r\n",
                                         "\x16\x03\x01\x02",
                                         "GET /healthz HTTP/9.9\r\n\r\n",
                                         "GET /healthz HTTP/1.1\r\n\r\n" /* no Host */};
  for (size_t i = 0; i < LENGTH(requests); i++) {
    int status = status_of_raw(world, requests[i]);
    if (status != 0 && status < 400) fail_msg("%d to %s", status, requests[i]);
  }
  expect_status(world->client, 200, "GET", "/healthz", NULL);
  world_check(world);
}

static void test_p8_headers_and_paths_have_limits(void **state) {
  struct world *world = world_begin(state);
  int status = status_of_raw(world, text_format("GET /healthz HTTP/1.1\r\nHost: x\r\nX: %0*d\r\n\r\n", 20000, 0));
  assert_true(status == 431 || status == 0);
  status = status_of_raw(world, text_format("GET /%0*d HTTP/1.1\r\nHost: x\r\n\r\n", 20000, 0));
  assert_true(status == 414 || status == 431 || status == 0);
  status = status_of_raw(world, text_format("GET /healthz HTTP/1.1\r\nHost: x\r\nX: %0*d\r\n\r\n", 7000, 0));
  assert_int_equal(status, 200);
  world_check(world);
}

static void test_p8_slow_requests_are_cut(void **state) {
  struct world *world = world_begin(state);
  struct client *silent = client_open(world->service->address);
  struct client *slow = client_open_as(world->service->address, world->token);
  expect_status(slow, 204, "POST", device_path(world, "d", "/heartbeat"), NULL);
  client_send_text(slow, "POST /v1/tenants/x/devices/d/heartbeat HTTP/1.1\r\nHost: x\r\nX: ");
  struct client *body = client_open_as(world->service->address, world->token);
  body->headers = "Content-Length: 20\r\n";
  client_ask(body, "POST", device_path(world, "d", "/heartbeat"), NULL);
  client_send_text(body, "{");
  int64_t start_ms = wait_now_ms();
  bool open = true;
  while (open) { /* a byte now and then does not help: the whole request has a limit */
    client_send_text(slow, "x");
    open = !client_sees_end(slow, 20);
    if (wait_now_ms() - start_ms > wait_limit_ms(5000)) fail_msg("a slow request is still being read");
  }
  assert_true(wait_now_ms() - start_ms >= 600);
  assert_true(client_sees_end(silent, 5000));
  const struct response *response = client_read_or_end(body);
  assert_true(response == NULL || response->status == 408);
  client_close(silent);
  client_close(slow);
  client_close(body);
  world_talk_to(world, world->service);
  world_check(world);
}

static void test_p8_idle_connections_are_closed(void **state) {
  struct world *world = world_begin(state);
  struct client *idle = client_open(world->service->address);
  expect_status(idle, 200, "GET", "/healthz", NULL);
  int64_t start_ms = wait_now_ms();
  assert_true(client_sees_end(idle, 10000));
  assert_true(wait_now_ms() - start_ms >= 1000); /* longer than a request may take: idle is something else */
  client_close(idle);
  world_talk_to(world, world->service);
  world_check(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_device_object),
      cmocka_unit_test(test_the_answer_to_a_heartbeat),
      cmocka_unit_test(test_health_and_metrics_need_no_token),
      cmocka_unit_test(test_all_metrics_are_there),
      cmocka_unit_test(test_paths_and_methods),
      cmocka_unit_test(test_the_order_of_the_checks),
      cmocka_unit_test(test_pipelined_requests_are_answered_in_order),
      cmocka_unit_test(test_a_request_byte_by_byte),
      cmocka_unit_test(test_chunked_bodies),
      cmocka_unit_test(test_any_content_type_but_ndjson_is_json),
      cmocka_unit_test(test_p8_odd_framing_is_refused),
      cmocka_unit_test(test_p8_headers_and_paths_have_limits),
      cmocka_unit_test(test_p8_slow_requests_are_cut),
      cmocka_unit_test(test_p8_idle_connections_are_closed),
  };
  return cmocka_run_group_tests(tests, start, world_teardown);
}
