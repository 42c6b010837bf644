/* POST …/devices/query: many devices in one question, in the order asked. */
#include "support/test.h"

#include "support/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct response *query(struct world *world, const char *body) {
  return client_call(world->client, "POST", tenant_path(world, "/devices/query"), body);
}

static void expect_refused(struct world *world, int status, const char *word, const char *body) {
  expect_error(world->client, status, word, "POST", tenant_path(world, "/devices/query"), body);
}

/* "a online, b never_seen" */
static const char *states_of(struct world *world, const char *body) {
  json_t *answer = expect(world->client, 200, "POST", tenant_path(world, "/devices/query"), body);
  const char *text = "";
  size_t i;
  json_t *device;
  json_array_foreach(json_object_get(answer, "devices"), i, device) {
    text = text_format("%s%s%s %s", text, i > 0 ? ", " : "", json_string_value(json_object_get(device, "device")),
                       json_string_value(json_object_get(device, "state")));
  }
  json_decref(answer);
  return text;
}

static void test_answers_come_in_the_order_asked(void **state) {
  struct world *world = world_begin(state);
  beat(world, "on", 60000);
  beat(world, "off", 60000);
  expect_status(world->client, 204, "POST", device_path(world, "off", "/disconnect"), NULL);
  beat(world, "late", 100);
  history_wait(&world->database, world->tenant, "late", "online offline(timeout)");
  assert_string_equal(states_of(world, "{\"devices\":[\"late\",\"on\",\"never\",\"off\",\"on\"]}"),
                      "late offline, on online, never never_seen, off offline, on online");
  assert_string_equal(states_of(world, "{\"devices\":[]}"), "");
  assert_string_equal(states_of(world, " { \"devices\" : [ \"\\u006fn\" ] } "), "on online");
  world_check(world);
}

static void test_each_is_the_object_that_a_single_read_gives(void **state) {
  struct world *world = world_begin(state);
  expect_status(world->client, 204, "POST", device_path(world, "a", "/heartbeat"), "{\"ttl_ms\":60000,\"meta\":{\"v\": 1.50}}");
  const char *alone = text_format("%s", client_call(world->client, "GET", device_path(world, "a", ""), NULL)->body);
  const char *together = query(world, "{\"devices\":[\"a\",\"x\"]}")->body;
  assert_string_equal(together, text_format("{\"devices\":[%.*s,{\"device\":\"x\",\"state\":\"never_seen\"}]}\n",
                                            (int)strcspn(alone, "\n"), alone));
  world_check(world);
}

static const char *many(int count, const char *last) {
  char *body = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&body, &length);
  assert_non_null(out);
  fputs("{\"devices\":[", out);
  for (int i = 0; i < count; i++) fprintf(out, "%s\"d%d\"", i > 0 ? "," : "", i);
  fprintf(out, "%s]}", last);
  fclose(out);
  const char *kept = text_format("%s", body);
  free(body);
  return kept;
}

static void test_at_most_a_thousand(void **state) {
  struct world *world = world_begin(state);
  beat(world, "d999", 60000);
  json_t *answer = expect(world->client, 200, "POST", tenant_path(world, "/devices/query"), many(1000, ""));
  json_t *devices = json_object_get(answer, "devices");
  assert_int_equal(json_array_size(devices), 1000);
  for (size_t i = 0; i < 1000; i++) {
    const json_t *device = json_array_get(devices, i);
    assert_string_equal(json_string_value(json_object_get(device, "device")), text_format("d%zu", i));
    assert_string_equal(json_string_value(json_object_get(device, "state")), i == 999 ? "online" : "never_seen");
  }
  json_decref(answer);
  expect_refused(world, 413, "too_large", many(1001, ""));
  expect_refused(world, 413, "too_large", many(1000, ",\"\""));
  world_check(world);
}

static void test_bad_questions(void **state) {
  struct world *world = world_begin(state);
  static const struct {
    const char *body, *word;
  } bad[] = {
      {"", "malformed_json"},
      {"{", "malformed_json"},
      {"{\"devices\":[\"a\",]}", "malformed_json"},
      {"{\"devices\":[\"a\"]} x", "malformed_json"},
      {"{\"devices\":[\"a\"],\"devices\":[\"b\"]}", "malformed_json"},
      {"[\"a\"]", "wrong_type"},
      {"null", "wrong_type"},
      {"{}", "wrong_type"},
      {"{\"devices\":\"a\"}", "wrong_type"},
      {"{\"devices\":null}", "wrong_type"},
      {"{\"devices\":[\"a\"],\"more\":1}", "wrong_type"},
      {"{\"devices\":[\"a\",7]}", "bad_id"},
      {"{\"devices\":[null]}", "bad_id"},
      {"{\"devices\":[[\"a\"]]}", "bad_id"},
      {"{\"devices\":[\"\"]}", "bad_id"},
      {"{\"devices\":[\"a\\u0000b\"]}", "bad_id"},
      {"{\"devices\":[\"\\u0085\"]}", "bad_id"},
      {"{\"devices\":[\"\\ud800\"]}", "malformed_json"},
  };
  for (size_t i = 0; i < LENGTH(bad); i++) expect_refused(world, 400, bad[i].word, bad[i].body);
  char long_id[160];
  memset(long_id, 'x', sizeof long_id);
  expect_refused(world, 400, "bad_id", text_format("{\"devices\":[\"%.129s\"]}", long_id));
  assert_int_equal(query(world, text_format("{\"devices\":[\"%.128s\"]}", long_id))->status, 200);
  expect_error(world->client, 400, "unknown_parameter", "POST", tenant_path(world, "/devices/query?x=1"), "{\"devices\":[]}");
  world_check(world);
}

/* The ids of another tenant are as unknown as any. */
static void test_p7_only_the_own_tenant(void **state) {
  struct world *world = world_begin(state);
  const char *first = world->tenant;
  beat(world, "d", 60000);
  world_new_tenant(world, NULL);
  assert_string_equal(states_of(world, "{\"devices\":[\"d\"]}"), "d never_seen");
  expect_error(world->client, 403, "forbidden", "POST", text_format("/v1/tenants/%s/devices/query", first),
               "{\"devices\":[\"d\"]}");
  world_check(world);
}

/* "query" is also a device's name. */
static void test_a_device_called_query(void **state) {
  struct world *world = world_begin(state);
  beat(world, "query", 60000);
  assert_string_equal(device_state(world, "query"), "online");
  assert_string_equal(states_of(world, "{\"devices\":[\"query\"]}"), "query online");
  world_check(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_answers_come_in_the_order_asked),
      cmocka_unit_test(test_each_is_the_object_that_a_single_read_gives),
      cmocka_unit_test(test_at_most_a_thousand),
      cmocka_unit_test(test_bad_questions),
      cmocka_unit_test(test_p7_only_the_own_tenant),
      cmocka_unit_test(test_a_device_called_query),
  };
  return cmocka_run_group_tests(tests, world_group_start, world_teardown);
}
