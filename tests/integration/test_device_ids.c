/* Device ids are 1 to 128 bytes of UTF-8, compared byte for byte: what looks like a separator, a path, a pattern or a command is
 * an id like any other. */
#include "support/test.h"

#include "support/world.h"

#include <stdlib.h>
#include <string.h>

#define BYTES_128                                                                                                                \
  "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef0123456789ab" \
  "cdef"

static const char *const ids[] = {
    "a/b",
    "a//b",
    "/",
    ":",
    "a:b:c",
    "#",
    "a#b",
    "+",
    "a+b",
    "%",
    "%2F",
    "%25",
    "100%",
    "{t}",
    "{0}",
    "{3}:t1:0",
    "|",
    "a|b",
    "..",
    ".",
    "../..",
    " ",
    " a b ",
    "?",
    "a?b=c&d=e",
    "\"",
    "\\",
    "\\u0000",
    "'",
    "''; DROP TABLE x; --",
    "*",
    "[a-z]*",
    "$1",
    "\xc3\xa9",
    "e\xcc\x81",
    "\xf0\x9f\x9a\xb2",
    "\xe2\x80\x8b",
    "\xe2\x80\xa8",
    "\xef\xbb\xbf",
    "\xf4\x8f\xbf\xbf",
    "A",
    "a",
    "null",
    "0",
    "-1",
    "heartbeat",
    "<b>&amp;</b>",
    BYTES_128,
    "\xf0\x9f\x9a\xb2\xf0\x9f\x9a\xb2",
};

static int start(void **state) {
  world_start(state, &(struct world_options){0})->begun = 0;
  return 0;
}

static void check_object(struct world *world, const char *id) {
  json_t *object = device_object(world, id);
  const json_t *device = json_object_get(object, "device");
  assert_string_equal(json_string_value(device), id);
  assert_string_equal(json_string_value(json_object_get(object, "state")), "online");
  json_decref(object);
}

static void check_row(struct world *world, const char *id) {
  history_wait(&world->database, world->tenant, id, "online");
  assert_string_equal(history_payload(&world->database, world->tenant, id, 0, "device"), id);
}

static void test_ids_come_back_byte_for_byte(void **state) {
  struct world *world = world_begin(state);
  for (size_t i = 0; i < LENGTH(ids); i++) beat(world, ids[i], 60000);
  for (size_t i = 0; i < LENGTH(ids); i++) check_object(world, ids[i]);
  for (size_t i = 0; i < LENGTH(ids); i++) check_row(world, ids[i]);
  world_check(world);
}

static void test_ids_come_back_from_a_batch(void **state) {
  struct world *world = world_begin(state);
  json_t *items = json_array();
  for (size_t i = 0; i < LENGTH(ids); i++) json_array_append_new(items, json_string(ids[i]));
  char *body = json_dumps(items, 0);
  json_decref(items);
  json_t *answer = expect(world->client, 200, "POST", tenant_path(world, "/heartbeats"), body);
  free(body);
  assert_int_equal(json_integer_value(json_object_get(answer, "accepted")), LENGTH(ids));
  json_decref(answer);
  for (size_t i = 0; i < LENGTH(ids); i++) check_object(world, ids[i]);
  for (size_t i = 0; i < LENGTH(ids); i++)
    expect_status(world->client, 204, "POST", device_path(world, ids[i], "/disconnect"), NULL);
  for (size_t i = 0; i < LENGTH(ids); i++) history_wait(&world->database, world->tenant, ids[i], "online offline(disconnect)");
  world_check(world);
}

/* A path's segment as it stands in the request line, not encoded by the client. */
static void post_raw(struct world *world, int status, const char *segment) {
  const char *path = text_format("/v1/tenants/%s/devices/%s/heartbeat", world->tenant, segment);
  if (status == 204)
    expect_status(world->client, 204, "POST", path, "{\"ttl_ms\":60000}");
  else
    expect_error(world->client, status, NULL, "POST", path, "{\"ttl_ms\":60000}");
}

static void test_a_segment_is_decoded_once(void **state) {
  struct world *world = world_begin(state);
  static const struct {
    const char *segment, *id;
  } cases[] = {
      {"..", ".."},         {".", "."},     {"%2e%2E", ".."},       {"a%2Fb", "a/b"},
      {"a%252Fb", "a%2Fb"}, {"a+b", "a+b"}, {"%2B", "+"},           {"a%20b", "a b"},
      {"a;b=c", "a;b=c"},   {"a,b", "a,b"}, {"%41", "A"},           {"%c3%A9", "\xc3\xa9"},
      {"a@b:1", "a@b:1"},   {"%7e", "~"},   {"!$&'()*", "!$&'()*"},
  };
  for (size_t i = 0; i < LENGTH(cases); i++) {
    post_raw(world, 204, cases[i].segment);
    check_object(world, cases[i].id);
  }
  world_check(world);
}

static void test_ids_that_are_refused(void **state) {
  struct world *world = world_begin(state);
  static const char *const segments[] = {
      "",    "%00", "a%00b",  "%01",    "%1F",       "%0A",       "%7F",       "%C2%80",       "%C2%9F",          "a%C2%85",
      "%80", "%FF", "%C0%80", "%C0%AF", "%E0%80%80", "%ED%A0%80", "%ED%BF%BF", "%F4%90%80%80", "%F8%88%80%80%80", "%E2%82",
      "%",   "a%",  "%4",     "%zz",    "%g0",       "%0",        "%%",        BYTES_128 "x",  BYTES_128 "%20",   "\xff",
  };
  for (size_t i = 0; i < LENGTH(segments); i++) post_raw(world, 400, segments[i]);
  static const char *const items[] = {"\"\"",        "\"\\u0000\"", "\"a\\u0001\"",      "\"\\u007f\"",
                                      "\"\\u0080\"", "\"\\u009f\"", "\"" BYTES_128 "x\""};
  for (size_t i = 0; i < LENGTH(items); i++) {
    json_t *answer = expect(world->client, 200, "POST", tenant_path(world, "/heartbeats"), text_format("[%s]", items[i]));
    assert_int_equal(json_integer_value(json_object_get(answer, "accepted")), 0);
    assert_int_equal(json_array_size(json_object_get(answer, "rejected")), 1);
    json_decref(answer);
  }
  world_drain(world);
  assert_int_equal(sql_integer(&world->database, "SELECT count(*) FROM presence.device WHERE tenant = $1", world->tenant, NULL),
                   0);
  world_check(world);
}

static void test_ids_are_no_labels(void **state) {
  struct world *world = world_begin(state);
  beat(world, "not-in-the-metrics", 60000);
  struct client *client = client_open(world->service->address);
  const struct response *response = client_call(client, "GET", "/metrics", NULL);
  assert_int_equal(response->status, 200);
  assert_null(strstr(response->body, "not-in-the-metrics"));
  client_close(client);
  world_check(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ids_come_back_byte_for_byte), cmocka_unit_test(test_ids_come_back_from_a_batch),
      cmocka_unit_test(test_a_segment_is_decoded_once),   cmocka_unit_test(test_ids_that_are_refused),
      cmocka_unit_test(test_ids_are_no_labels),
  };
  return cmocka_run_group_tests(tests, start, world_teardown);
}
