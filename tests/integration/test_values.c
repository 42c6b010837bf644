/* What a heartbeat may carry: every value is taken exactly or refused with 400, and a refused one changes nothing. */
#include "support/test.h"

#include "support/scratch.h"
#include "support/world.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

static int start(void **state) {
  world_start(state, &(struct world_options){0})->begun = 0;
  return 0;
}

static void post(struct world *world, int status, const char *body) {
  const char *path = device_path(world, "d", "/heartbeat");
  if (status == 400)
    expect_error(world->client, 400, NULL, "POST", path, body);
  else
    expect_status(world->client, status, "POST", path, body);
}

static void test_ttl_values_that_are_taken(void **state) {
  struct world *world = world_begin(state);
  static const int64_t values[] = {100, 101, 90000, 2147483647, 2147483648, 2592000000};
  for (size_t i = 0; i < LENGTH(values); i++) {
    beat(world, "d", values[i]);
    assert_int_equal(device_number(world, "d", "ttl_ms"), values[i]);
    assert_int_equal(device_number(world, "d", "deadline_ms"), device_number(world, "d", "last_seen_ms") + values[i]);
    expect_status(world->client, 204, "POST", device_path(world, "d", "/disconnect"), NULL);
  }
  world_check(world);
}

static const char *const refused_ttls[] = {
    "0",
    "-1",
    "1.5",
    "\"50\"",
    "\"5000\"",
    "null",
    "99",
    "2592000001",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551616",
    "1e300",
    "1e3",
    "5e3",
    "5000.0",
    "true",
    "false",
    "[]",
    "{}",
    "[5000]",
    "-5000",
    "05000",
    "0x1388",
    "+5000",
    "NaN",
    "99999999999999999999999999999999999999999999999999999999999999999999999999999999",
};

static void test_ttl_values_that_are_refused_change_nothing(void **state) {
  struct world *world = world_begin(state);
  for (size_t i = 0; i < LENGTH(refused_ttls); i++) post(world, 400, text_format("{\"ttl_ms\":%s}", refused_ttls[i]));
  post(world, 400, "{\"ttl_ms\":5000,\"ttl_ms\":5000}");
  assert_string_equal(device_state(world, "d"), "404");
  post(world, 204, "{\"ttl_ms\":60000,\"meta\":{\"a\":1}}");
  json_t *before = device_object(world, "d");
  for (size_t i = 0; i < LENGTH(refused_ttls); i++)
    post(world, 400, text_format("{\"meta\":null,\"ttl_ms\":%s}", refused_ttls[i]));
  json_t *after = device_object(world, "d");
  assert_true(json_equal(before, after));
  json_decref(before);
  json_decref(after);
  world_check(world);
}

static void test_ttl_keeps_to_the_tenants_bounds(void **state) {
  struct world *world = world_begin(state);
  static const char *const bounds[] = {"--min-ttl-ms", "2000", "--max-ttl-ms", "10000", "--default-ttl-ms", "3000", NULL};
  world_new_tenant(world, bounds);
  post(world, 400, "{\"ttl_ms\":1999}");
  post(world, 400, "{\"ttl_ms\":10001}");
  post(world, 204, "{\"ttl_ms\":2000}");
  post(world, 204, "{\"ttl_ms\":10000}");
  post(world, 204, NULL);
  assert_int_equal(device_number(world, "d", "ttl_ms"), 3000);
  world_check(world);
}

static void test_bodies_that_are_refused(void **state) {
  struct world *world = world_begin(state);
  static const char *const bodies[] = {
      "{",
      "}",
      "[]",
      "7",
      "\"d\"",
      "null",
      "true",
      "{} {}",
      "{}x",
      "{\"ttl_ms\":5000,}",
      "{'ttl_ms':5000}",
      "{\"ttl_ms\"}",
      "{\"ttl\":5000}",
      "{\"device\":\"d\"}",
      "{\"TTL_MS\":5000}",
      "{\"ttl_ms\":5000,\"extra\":1}",
      "\xef\xbb\xbf{}",
      "{\"meta\":{\"a\":\"\xff\"}}",
      "/* */ {}",
      "{\"meta\":{\"a\":1,\"a\":2}}",
      "{\"meta\":{},\"meta\":{}}",
      "{\"meta\":{\"a\":\"\\ud800\"}}",
      "{\"meta\":{\"a\":\"\\udc00\\ud800\"}}",
      "{\"meta\":{\"a\":\"\\u0000\"}}",
      "{\"meta\":{\"\\u0000\":1}}",
      "{\"meta\":{\"a\":9223372036854775808}}",
      "{\"meta\":{\"a\":-9223372036854775809}}",
      "{\"meta\":{\"a\":1e400}}",
      "{\"meta\":{\"a\":.5}}",
      "{\"meta\":{\"a\":01}}",
      "{\"meta\":{\"a\":\"\x01\"}}",
      "{\"meta\":[]}",
      "{\"meta\":7}",
      "{\"meta\":\"x\"}",
      "{\"meta\":true}",
  };
  for (size_t i = 0; i < LENGTH(bodies); i++) post(world, 400, bodies[i]);
  assert_string_equal(device_state(world, "d"), "404");
  world_check(world);
}

/* {"a":{"a":…}} of this depth. */
static const char *nested(int depth) {
  const char *text = "1";
  for (int i = 0; i < depth; i++) text = text_format("{\"a\":%s}", text);
  return text;
}

static void test_metadata_limits(void **state) {
  struct world *world = world_begin(state);
  post(world, 204, text_format("{\"meta\":%s}", nested(32)));
  post(world, 400, text_format("{\"meta\":%s}", nested(33)));
  post(world, 204, text_format("{\"meta\":{\"a\":\"%04088d\"}}", 0)); /* 4096 bytes: {"a":""} and 4088 digits */
  post(world, 400, text_format("{\"meta\":{\"a\":\"%04089d\"}}", 0));
  post(world, 204, "{\"meta\":{\"a\":9223372036854775807,\"b\":-9223372036854775808,\"c\":1e308,\"d\":-1.5e-300}}");
  post(world, 204, "{\"meta\":{}}");
  expect_error(world->client, 413, NULL, "POST", device_path(world, "d", "/heartbeat"), text_format("{}%8191s", ""));
  post(world, 204, text_format("{}%8190s", ""));
  world_check(world);
}

static void take_payload(struct world *world, const char *name, const char *bytes) {
  json_t *json = json_loads(bytes, JSON_DECODE_ANY, NULL);
  const char *device = text_format("from-%s", name), *path = device_path(world, device, "/heartbeat");
  const char *body = text_format("{\"ttl_ms\":60000,\"meta\":%s}", bytes);
  if (!json_is_object(json)) {
    json_decref(json);
    expect_error(world->client, 400, NULL, "POST", path, body);
    assert_string_equal(device_state(world, device), "404");
    return;
  }
  json_decref(json);
  expect_status(world->client, 204, "POST", path, body);
  const struct response *response = client_call(world->client, "GET", device_path(world, device, ""), NULL);
  size_t end = strlen(bytes);
  while (end > 0 && strchr(" \r\n\t", bytes[end - 1]) != NULL) end--; /* space after the object is not the object's */
  if (strstr(response->body, text_format("\"meta\":%.*s", (int)end, bytes)) == NULL)
    fail_msg("%s does not come back as it was sent: %s", name, response->body);
  history_wait(&world->database, world->tenant, device, "online");
  assert_string_equal(sql_text(&world->database,
                               "SELECT payload->'meta' = $3::jsonb FROM presence.outbox WHERE tenant = $1 AND device = $2",
                               world->tenant, device, bytes, NULL),
                      "t");
}

static void test_bodies_of_real_devices(void **state) {
  const char *folder = place_shared("payloads");
  if (folder == NULL) {
    print_message("skipped: no payloads in the shared test data (PRESENCE_SHARED)\n");
    skip();
  }
  struct world *world = world_begin(state);
  DIR *listing = opendir(folder);
  assert_non_null(listing);
  size_t count = 0;
  for (struct dirent *entry; (entry = readdir(listing)) != NULL;) {
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
    char *bytes = place_read(text_format("%s/%s", folder, entry->d_name), NULL);
    take_payload(world, entry->d_name, bytes);
    free(bytes);
    count++;
  }
  closedir(listing);
  assert_true(count >= 20);
  world_check(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ttl_values_that_are_taken),
      cmocka_unit_test(test_ttl_values_that_are_refused_change_nothing),
      cmocka_unit_test(test_ttl_keeps_to_the_tenants_bounds),
      cmocka_unit_test(test_bodies_that_are_refused),
      cmocka_unit_test(test_metadata_limits),
      cmocka_unit_test(test_bodies_of_real_devices),
  };
  return cmocka_run_group_tests(tests, start, world_teardown);
}
