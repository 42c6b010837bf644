/* GET …/events as pages and long polls: order, cursors, bounds, retention, isolation. */
#include "support/test.h"

#include "support/fleet.h"

#include <string.h>

static json_t *events(struct world *world, const char *query) {
  return expect(world->client, 200, "GET", tenant_path(world, text_format("/events%s", query)), NULL);
}

static size_t count_of(const json_t *page) { return json_array_size(json_object_get(page, "events")); }
static int64_t next_of(const json_t *page) {
  assert_true(json_is_integer(json_object_get(page, "next")));
  return json_integer_value(json_object_get(page, "next"));
}
static const json_t *event_at(const json_t *page, size_t i) { return json_array_get(json_object_get(page, "events"), i); }
static const char *text_of(const json_t *event, const char *name) { return json_string_value(json_object_get(event, name)); }

static int64_t newest_seq(struct world *world) { return sql_integer(&world->database, "SELECT presence.newest_seq()", NULL); }

/* What the rows are, in their order: "d1 online, d1 offline". */
static void test_p4_a_walk_by_pages_sees_each_event_once(void **state) {
  struct world *world = world_begin(state);
  fleet_beat(world, 0, 25, 60000);
  for (int i = 0; i < 25; i++)
    expect_status(world->client, 204, "POST", device_path(world, text_format("d%d", i), "/disconnect"), NULL);
  fleet_wait(world, 25, "online offline(disconnect)", 10000);
  int64_t after = -1, seen = 0;
  for (;;) {
    json_t *page = events(world, after < 0 ? "?limit=7" : text_format("?limit=7&after=%lld", (long long)after));
    size_t count = count_of(page);
    for (size_t i = 0; i < count; i++) {
      int64_t seq = strtoll(text_of(event_at(page, i), "sequence"), NULL, 10);
      assert_true(seq > after);
      after = seq;
      const char *id =
          sql_text(&world->database, "SELECT id FROM presence.outbox WHERE seq = $1", text_format("%lld", (long long)seq), NULL);
      assert_string_equal(text_of(event_at(page, i), "id"), id);
      seen++;
    }
    assert_true(count == 0 || next_of(page) == after);
    assert_true(next_of(page) >= after);
    json_decref(page);
    if (count == 0) break;
    assert_true(count <= 7);
  }
  assert_int_equal(seen, 50);
  world_check(world);
}

static void test_what_an_event_says(void **state) {
  struct world *world = world_begin(state);
  expect_status(world->client, 204, "POST", device_path(world, "<b> ü", "/heartbeat"),
                "{\"ttl_ms\":150,\"meta\":{\"fw\":\"1\\n2\"}}");
  history_wait(&world->database, world->tenant, "<b> ü", "online offline(timeout)");
  json_t *page = events(world, "");
  assert_int_equal(count_of(page), 2);
  const json_t *offline = event_at(page, 1), *data = json_object_get(offline, "data");
  assert_string_equal(text_of(offline, "specversion"), "1.0");
  assert_string_equal(text_of(offline, "type"), "presence.device.offline");
  assert_string_equal(text_of(offline, "source"), text_format("/tenants/%s", world->tenant));
  assert_string_equal(text_of(offline, "subject"), "<b> ü");
  assert_string_equal(text_of(data, "reason"), "timeout");
  assert_string_equal(text_of(json_object_get(data, "meta"), "fw"), "1\n2");
  assert_int_equal(json_integer_value(json_object_get(data, "offline_at_ms")), device_number(world, "<b> ü", "offline_at_ms"));
  json_decref(page);
  world_check(world);
}

static void test_what_is_asked_is_checked(void **state) {
  struct world *world = world_begin(state);
  static const char *const bad[] = {"?limit=0",
                                    "?limit=1001",
                                    "?limit=x",
                                    "?wait_ms=-1",
                                    "?wait_ms=30001",
                                    "?wait_ms=",
                                    "?after=-1",
                                    "?after=x",
                                    "?after=1.0",
                                    "?after=",
                                    "?nothing=1",
                                    "?after=1&after=2",
                                    "?after=99999999999999999999"};
  for (size_t i = 0; i < LENGTH(bad); i++)
    expect_error(world->client, 400, NULL, "GET", tenant_path(world, text_format("/events%s", bad[i])), NULL);
  world->client->headers = "Accept: text/event-stream\r\nLast-Event-ID: x\r\n";
  expect_error(world->client, 400, NULL, "GET", tenant_path(world, "/events"), NULL);
  world->client->headers = NULL;
  json_decref(events(world, "?limit=1000&wait_ms=0&after=0"));
  world->client->token = world_token(world, world->tenant, "device,read");
  expect_error(world->client, 403, "missing_scope", "GET", tenant_path(world, "/events"), NULL);
  world->client->token = world->token;
  world_check(world);
}

static void test_p7_only_the_tenants_events(void **state) {
  struct world *world = world_begin(state);
  const char *first = world->tenant, *first_token = world->token;
  beat(world, "mine", 60000);
  history_wait(&world->database, first, "mine", "online");
  world_new_tenant(world, NULL);
  beat(world, "theirs", 60000);
  history_wait(&world->database, world->tenant, "theirs", "online");
  json_t *page = events(world, "");
  assert_int_equal(count_of(page), 1);
  assert_string_equal(text_of(event_at(page, 0), "subject"), "theirs");
  json_decref(page);
  world->client->token = first_token;
  expect_error(world->client, 403, "forbidden", "GET", tenant_path(world, "/events"), NULL);
  world->client->token = world_token(world, NULL, NULL); /* an admin's: any tenant */
  page = expect(world->client, 200, "GET", text_format("/v1/tenants/%s/events", first), NULL);
  assert_string_equal(text_of(event_at(page, 0), "subject"), "mine");
  json_decref(page);
  expect_error(world->client, 404, "tenant_not_found", "GET", "/v1/tenants/nobody/events", NULL);
  world->client->token = world->token;
  world_check(world);
}

/* ---- Long polls */

static void ask_to_wait(struct world *world, struct client *client, int64_t after, int wait_ms) {
  client_ask(client, "GET", tenant_path(world, text_format("/events?after=%lld&wait_ms=%d", (long long)after, wait_ms)), NULL);
}

static const char *answer_of(struct client *client) {
  const struct response *response = client_read(client);
  assert_int_equal(response->status, 200);
  return response->body;
}

static void test_a_long_poll_wakes_at_once(void **state) {
  struct world *world = world_begin(state);
  struct client *client = client_open_as(world->service->address, world->token);
  for (int round = 0; round < 3; round++) {
    int64_t since_ms = wait_now_ms();
    ask_to_wait(world, client, newest_seq(world), 30000);
    const char *device = text_format("d%d", round);
    beat(world, device, 60000);
    assert_non_null(strstr(answer_of(client), text_format("\"subject\":\"%s\"", device)));
    assert_true(wait_now_ms() - since_ms < wait_limit_ms(5000));
  }
  client_close(client);
  world_check(world);
}

static void test_a_long_poll_ends_with_its_time(void **state) {
  struct world *world = world_begin(state);
  beat(world, "d", 60000);
  history_wait(&world->database, world->tenant, "d", "online");
  int64_t newest = newest_seq(world), since_ms = wait_now_ms();
  json_t *page = events(world, text_format("?after=%lld&wait_ms=300", (long long)newest));
  assert_true(wait_now_ms() - since_ms >= 300);
  assert_int_equal(count_of(page), 0);
  assert_true(next_of(page) >= newest);
  json_decref(page);
  since_ms = wait_now_ms(); /* where there is something it does not wait */
  page = events(world, text_format("?after=%lld&wait_ms=30000", (long long)newest - 1));
  assert_int_equal(count_of(page), 1);
  json_decref(page);
  page = events(world, "?wait_ms=30000");
  assert_int_equal(count_of(page), 1);
  json_decref(page);
  assert_true(wait_now_ms() - since_ms < wait_limit_ms(5000));
  world_check(world);
}

/* Another tenant's events neither wake it nor are shown. */
static void test_p7_a_long_poll_hears_its_tenant_only(void **state) {
  struct world *world = world_begin(state);
  struct client *client = client_open_as(world->service->address, world->token);
  const char *first = world->tenant;
  ask_to_wait(world, client, newest_seq(world), 1500);
  world_new_tenant(world, NULL);
  beat(world, "theirs", 60000);
  history_wait(&world->database, world->tenant, "theirs", "online");
  assert_non_null(strstr(answer_of(client), "{\"events\":[],"));
  client_close(client);
  world->tenant = first;
  world_check(world);
}

static void test_a_token_revoked_while_it_waits(void **state) {
  struct world *world = world_begin(state);
  const char *created = world_control(world, "token", "create", "--tenant", world->tenant, "--scope", "events", "--json", NULL);
  json_t *token = json_loads(created, 0, NULL);
  struct client *client = client_open_as(world->service->address, text_format("%s", text_of(token, "secret")));
  expect_status(client, 200, "GET", tenant_path(world, "/events"), NULL); /* known here */
  int64_t since_ms = wait_now_ms();
  ask_to_wait(world, client, newest_seq(world), 30000);
  json_t *id = json_object_get(token, "id");
  world_control(world, "token", "revoke",
                json_is_integer(id) ? text_format("%lld", (long long)json_integer_value(id)) : json_string_value(id), NULL);
  assert_int_equal(client_read(client)->status, 401);
  assert_true(wait_now_ms() - since_ms < wait_limit_ms(5000));
  json_decref(token);
  client_close(client);
  world_check(world);
}

/* Whoever left does not keep a connection for the rest of the wait. */
static void test_p8_a_client_that_goes_while_it_waits(void **state) {
  struct world *world = world_begin(state);
  static const char series[] = "presence_http_requests_total{route=\"events\",status=\"200\"}";
  json_decref(events(world, ""));
  double before = metric(world, series);
  for (int i = 0; i < 3; i++) {
    struct client *client = client_open_as(world->service->address, world->token);
    ask_to_wait(world, client, newest_seq(world), 30000);
    client_close(client);
  }
  WAIT_UNTIL(metric(world, series) >= before + 3, 10000);
  world_check(world);
}

/* ---- What is no longer kept; servers that go */

static void test_p5_a_cursor_that_is_too_old(void **state) {
  struct world *world = world_start(state, &(struct world_options){0});
  fleet_beat(world, 0, 5, 600000);
  fleet_wait(world, 5, "online", 10000);
  PQclear(sql_query(&world->database, "DELETE FROM presence.outbox WHERE seq <= 3", NULL));
  PQclear(sql_query(&world->database, "SELECT presence.raise_horizon(3)", NULL));
  static const char *const old[] = {"?after=0", "?after=2", "?after=2&wait_ms=1000"};
  for (size_t i = 0; i < LENGTH(old); i++) {
    const struct response *response =
        client_call(world->client, "GET", tenant_path(world, text_format("/events%s", old[i])), NULL);
    assert_int_equal(response->status, 410);
    assert_non_null(strstr(response->body, "\"error\":\"cursor_expired\""));
    assert_non_null(strstr(response->body, "oldest seq is 4"));
  }
  json_t *page = events(world, "");
  assert_int_equal(count_of(page), 2);
  json_decref(page);
  page = events(world, "?after=3");
  assert_int_equal(count_of(page), 2);
  json_decref(page);
  world->checked = world->begun;
}

static void test_postgres_away(void **state) {
  struct world *world = world_start(state, &(struct world_options){.proxies = true});
  beat(world, "d", 600000);
  world_drain(world);
  proxy_refuse(world->postgres_proxy, true);
  expect_error(world->client, 503, "postgres_unavailable", "GET", tenant_path(world, "/events"), NULL);
  expect_error(world->client, 503, "postgres_unavailable", "GET", tenant_path(world, "/events?after=0&wait_ms=1000"), NULL);
  world->client->headers = "Accept: text/event-stream\r\n";
  expect_error(world->client, 503, "postgres_unavailable", "GET", tenant_path(world, "/events"), NULL);
  world->client->headers = NULL;
  proxy_refuse(world->postgres_proxy, false);
  WAIT_UNTIL(client_call(world->client, "GET", tenant_path(world, "/events"), NULL)->status == 200, 10000);
  world_end(world);
}

/* SIGTERM: who waits is answered with what there is. */
static void test_the_service_stops_while_they_wait(void **state) {
  struct world *world = world_start(state, &(struct world_options){0});
  beat(world, "d", 600000);
  world_drain(world);
  struct client *clients[5];
  for (size_t i = 0; i < LENGTH(clients); i++) {
    clients[i] = client_open_as(world->service->address, world->token);
    ask_to_wait(world, clients[i], newest_seq(world), 30000);
  }
  expect_status(world->client, 200, "GET", "/healthz", NULL); /* a pass later they have been read */
  int64_t since_ms = wait_now_ms();
  assert_int_equal(presenced_stop(world->service), 0);
  assert_true(wait_now_ms() - since_ms < wait_limit_ms(3000));
  for (size_t i = 0; i < LENGTH(clients); i++) {
    assert_non_null(strstr(answer_of(clients[i]), "{\"events\":[],\"next\":"));
    client_close(clients[i]);
  }
  world->checked = world->begun;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_p4_a_walk_by_pages_sees_each_event_once),
      cmocka_unit_test(test_what_an_event_says),
      cmocka_unit_test(test_what_is_asked_is_checked),
      cmocka_unit_test(test_p7_only_the_tenants_events),
      cmocka_unit_test(test_a_long_poll_wakes_at_once),
      cmocka_unit_test(test_a_long_poll_ends_with_its_time),
      cmocka_unit_test(test_p7_a_long_poll_hears_its_tenant_only),
      cmocka_unit_test(test_a_token_revoked_while_it_waits),
      cmocka_unit_test(test_p8_a_client_that_goes_while_it_waits),
  };
  const struct CMUnitTest alone[] = {
      cmocka_unit_test_teardown(test_p5_a_cursor_that_is_too_old, world_teardown),
      cmocka_unit_test_teardown(test_postgres_away, world_teardown),
      cmocka_unit_test_teardown(test_the_service_stops_while_they_wait, world_teardown),
  };
  return cmocka_run_group_tests(tests, world_group_start, world_teardown) + cmocka_run_group_tests(alone, NULL, NULL);
}
