/* Who may do what: tokens, scopes, tenants (P7). Whatever is refused has changed nothing. */
#include "support/test.h"

#include "support/world.h"

#include <string.h>

static int start(void **state) {
  world_start(state, &(struct world_options){.proxies = true})->begun = 0;
  return 0;
}

static void use(struct world *world, const char *token) { world->client->token = token; }

/* The heartbeat is refused with this status, and the device stays unseen. */
static void expect_no_entry(struct world *world, int status, const char *token) {
  use(world, token);
  expect_error(world->client, status, NULL, "POST", device_path(world, "refused", "/heartbeat"), NULL);
  expect_error(world->client, status, NULL, "POST", tenant_path(world, "/heartbeats"), "[\"refused\"]");
  expect_error(world->client, status, NULL, "POST", device_path(world, "refused", "/disconnect"), NULL);
  use(world, world->token);
  assert_string_equal(device_state(world, "refused"), "404");
}

static void test_no_or_unknown_token(void **state) {
  struct world *world = world_begin(state);
  expect_no_entry(world, 401, NULL);
  expect_no_entry(world, 401, "");
  expect_no_entry(world, 401, "nonsense");
  expect_no_entry(world, 401, text_format("%sx", world->token));
  expect_no_entry(world, 401, text_format("%.*s", (int)strlen(world->token) - 1, world->token));
  use(world, NULL);
  world->client->headers = text_format("Authorization: Basic %s\r\n", world->token);
  expect_error(world->client, 401, NULL, "GET", device_path(world, "d", ""), NULL);
  world->client->headers = text_format("Authorization: %s\r\n", world->token);
  expect_error(world->client, 401, NULL, "GET", device_path(world, "d", ""), NULL);
  world->client->headers = text_format("Authorization: bearer %s\r\n", world->token); /* RFC 9110: the scheme in any case */
  expect_error(world->client, 404, NULL, "GET", device_path(world, "d", ""), NULL);
  world->client->headers = NULL;
  world_check(world);
}

static void test_p7_another_tenants_token(void **state) {
  struct world *world = world_begin(state);
  const char *first = world->tenant, *first_token = world->token;
  beat(world, "d", 60000);
  world_new_tenant(world, NULL);
  expect_no_entry(world, 403, first_token);
  const char *second_token = world->token;
  world->tenant = first;
  use(world, second_token);
  expect_error(world->client, 403, NULL, "GET", device_path(world, "d", ""), NULL);
  expect_error(world->client, 403, NULL, "POST", device_path(world, "d", "/disconnect"), NULL);
  use(world, first_token);
  assert_string_equal(device_state(world, "d"), "online");
  world_check(world);
}

static void test_a_tenant_that_does_not_exist(void **state) {
  struct world *world = world_begin(state);
  expect_error(world->client, 403, NULL, "POST", "/v1/tenants/nobody/devices/d/heartbeat", NULL);
  expect_error(world->client, 403, NULL, "GET", "/v1/tenants/nobody/devices/d", NULL);
  expect_error(world->client, 403, NULL, "GET", "/v1/tenants/NOT%20A%20NAME/devices/d", NULL);
  use(world, world_token(world, NULL, NULL));
  expect_error(world->client, 404, NULL, "POST", "/v1/tenants/nobody/devices/d/heartbeat", NULL);
  expect_error(world->client, 404, NULL, "GET", "/v1/tenants/nobody/devices/d", NULL);
  world_check(world);
}

static void test_scopes(void **state) {
  struct world *world = world_begin(state);
  const char *heartbeat = device_path(world, "d", "/heartbeat"), *device = device_path(world, "d", "");
  expect_no_entry(world, 403, world_token(world, world->tenant, "read"));
  expect_no_entry(world, 403, world_token(world, world->tenant, "read,events"));
  use(world, world_token(world, world->tenant, "device"));
  expect_status(world->client, 204, "POST", heartbeat, NULL);
  expect_error(world->client, 403, NULL, "GET", device, NULL);
  use(world, world_token(world, world->tenant, "read"));
  expect_status(world->client, 200, "GET", device, NULL);
  use(world, world_token(world, NULL, NULL)); /* admin: every scope on every tenant */
  expect_status(world->client, 204, "POST", heartbeat, NULL);
  expect_status(world->client, 200, "GET", device, NULL);
  world_check(world);
}

static void test_a_token_made_a_moment_ago_works_at_once(void **state) {
  struct world *world = world_begin(state);
  for (int i = 0; i < 3; i++) {
    use(world, world_token(world, world->tenant, "device"));
    expect_status(world->client, 204, "POST", device_path(world, "d", "/heartbeat"), NULL);
  }
  world_new_tenant(world, NULL); /* the tenant as well */
  beat(world, "d", 60000);
  world_check(world);
}

static int status_of_heartbeat(struct world *world) {
  return client_call(world->client, "POST", device_path(world, "d", "/heartbeat"), NULL)->status;
}

static void test_a_revoked_token_stops_within_5_s(void **state) {
  struct world *world = world_begin(state);
  json_t *made = json_loads(
      world_control(world, "token", "create", "--tenant", world->tenant, "--scope", "device", "--json", NULL), 0, NULL);
  assert_non_null(made);
  const json_t *id = json_object_get(made, "id");
  const char *id_text =
      json_is_string(id) ? text_format("%s", json_string_value(id)) : text_format("%lld", (long long)json_integer_value(id));
  use(world, text_format("%s", json_string_value(json_object_get(made, "secret"))));
  json_decref(made);
  assert_int_equal(status_of_heartbeat(world), 204);
  world_control(world, "token", "revoke", id_text, NULL);
  WAIT_UNTIL(status_of_heartbeat(world) == 401, 5000);
  world_check(world);
}

static void test_a_token_expires(void **state) {
  struct world *world = world_begin(state);
  json_t *made = json_loads(world_control(world, "token", "create", "--tenant", world->tenant, "--scope", "device",
                                          "--expires-in-s", "1", "--json", NULL),
                            0, NULL);
  assert_non_null(made);
  assert_true(json_integer_value(json_object_get(made, "expires_ms")) > 0);
  use(world, text_format("%s", json_string_value(json_object_get(made, "secret"))));
  json_decref(made);
  WAIT_UNTIL(status_of_heartbeat(world) == 401, 5000);
  world_check(world);
}

static void test_known_tokens_outlive_postgres(void **state) {
  struct world *world = world_begin(state);
  const char *unseen = world_token(world, world->tenant, "device");
  assert_int_equal(status_of_heartbeat(world), 204);
  proxy_refuse(world->postgres_proxy, true);
  int64_t start = wait_now_ms();
  use(world, "unknown-to-everybody");
  WAIT_UNTIL(status_of_heartbeat(world) == 503, 5000);
  const struct response *response = client_call(world->client, "POST", device_path(world, "d", "/heartbeat"), NULL);
  assert_int_equal(response->status, 503);
  assert_non_null(response_header(response, "Retry-After"));
  use(world, world->token);
  while (wait_now_ms() - start < 3000) { /* longer than any refresh */
    assert_int_equal(status_of_heartbeat(world), 204);
    wait_pause();
  }
  proxy_refuse(world->postgres_proxy, false);
  use(world, unseen);
  WAIT_UNTIL(status_of_heartbeat(world) == 204, 5000);
  use(world, "unknown-to-everybody");
  WAIT_UNTIL(status_of_heartbeat(world) == 401, 5000);
  world_check(world);
}

/* It accepts, and never answers: a request that needs it has its answer all the same, before its own time is up. */
static void test_postgres_that_hangs(void **state) {
  struct world *world = world_begin(state);
  assert_int_equal(status_of_heartbeat(world), 204);
  proxy_blackhole(world->postgres_proxy, true);
  use(world, "unknown-to-everybody");
  int64_t start = wait_now_ms();
  assert_int_equal(status_of_heartbeat(world), 503);
  assert_in_range(wait_now_ms() - start, 0, 9000);
  use(world, world->token);
  assert_int_equal(status_of_heartbeat(world), 204);
  assert_non_null(strstr(client_call(world->client, "GET", "/readyz", NULL)->body, "\"postgres\":\"degraded\""));
  proxy_blackhole(world->postgres_proxy, false);
  use(world, "unknown-to-everybody");
  WAIT_UNTIL(status_of_heartbeat(world) == 401, 15000);
  world_check(world);
}

static void test_secrets_are_kept_nowhere(void **state) {
  struct world *world = world_begin(state);
  beat(world, "d", 60000);
  expect_no_entry(world, 401, "a-secret-that-is-refused");
  assert_int_equal(
      sql_integer(&world->database, "SELECT count(*) FROM presence.token t WHERE strpos(t::text, $1) > 0", world->token, NULL),
      0);
  assert_int_equal(sql_integer(&world->database, "SELECT count(*) FROM presence.token WHERE sha256 = sha256($1::text::bytea)",
                               world->token, NULL),
                   1);
  assert_false(presenced_logged(world->service, world->token));
  assert_false(presenced_logged(world->service, "a-secret-that-is-refused"));
  assert_null(strstr(world_control(world, "token", "list", "--json", NULL), world->token));
  world_check(world);
}

static int heartbeat_status(struct world *world, const char *device, const char *body) {
  return client_call(world->client, "POST", device_path(world, device, "/heartbeat"), body)->status;
}

static void test_settings_are_in_force_within_5_s(void **state) {
  struct world *world = world_begin(state);
  beat(world, "d", 60000);
  world_control(world, "tenant", "set", world->tenant, "--default-ttl-ms", "45000", NULL);
  WAIT_UNTIL((beat(world, "d", 0), device_number(world, "d", "ttl_ms") == 45000), 5000);
  world_control(world, "tenant", "set", world->tenant, "--min-ttl-ms", "40000", "--max-ttl-ms", "50000", NULL);
  WAIT_UNTIL(heartbeat_status(world, "d", "{\"ttl_ms\":60000}") == 400, 5000);
  assert_int_equal(heartbeat_status(world, "d", "{\"ttl_ms\":39999}"), 400);
  assert_int_equal(heartbeat_status(world, "d", "{\"ttl_ms\":50000}"), 204);
  world_control(world, "tenant", "set", world->tenant, "--max-devices", "1", NULL);
  WAIT_UNTIL(heartbeat_status(world, text_format("new %lld", (long long)wait_now_ms()), NULL) == 403, 5000);
  assert_int_equal(heartbeat_status(world, "d", NULL), 204);
  world_control(world, "tenant", "set", world->tenant, "--heartbeats-per-second", "1", NULL);
  static char burst[4002] = "["; /* a thousand items: all that may come at once */
  for (int i = 0; i < 4000; i++) burst[1 + i] = "\"d\","[i % 4];
  burst[4000] = ']';
  WAIT_UNTIL(client_call(world->client, "POST", tenant_path(world, "/heartbeats"), burst)->status == 429, 5000);
  world_control(world, "tenant", "set", world->tenant, "--heartbeats-per-second", "0", NULL);
  WAIT_UNTIL(heartbeat_status(world, "d", NULL) == 204, 5000);
  world_check(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_no_or_unknown_token),
      cmocka_unit_test(test_p7_another_tenants_token),
      cmocka_unit_test(test_a_tenant_that_does_not_exist),
      cmocka_unit_test(test_scopes),
      cmocka_unit_test(test_a_token_made_a_moment_ago_works_at_once),
      cmocka_unit_test(test_a_revoked_token_stops_within_5_s),
      cmocka_unit_test(test_a_token_expires),
      cmocka_unit_test(test_known_tokens_outlive_postgres),
      cmocka_unit_test(test_postgres_that_hangs),
      cmocka_unit_test(test_secrets_are_kept_nowhere),
      cmocka_unit_test(test_settings_are_in_force_within_5_s),
  };
  return cmocka_run_group_tests(tests, start, world_teardown);
}
