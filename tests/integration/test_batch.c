/* Batches of heartbeats: each item counts on its own, and the answer says exactly which did not. */
#include "support/test.h"

#include "support/world.h"

#include <stdlib.h>
#include <string.h>

#define MIB 1048576

/* "accepted 2; 1 bad-one; 3 (null)": the counts, and index and device of each rejected item. */
static const char *summary(json_t *answer) {
  assert_int_equal(json_object_size(answer), 2);
  assert_true(json_is_integer(json_object_get(answer, "accepted")));
  const char *text = text_format("accepted %lld", (long long)json_integer_value(json_object_get(answer, "accepted")));
  size_t i;
  json_t *item;
  json_array_foreach(json_object_get(answer, "rejected"), i, item) {
    assert_int_equal(json_object_size(item), 4);
    json_t *device = json_object_get(item, "device");
    assert_true(json_is_string(device) || json_is_null(device));
    assert_true(json_string_length(json_object_get(item, "error")) > 0);
    assert_true(json_string_length(json_object_get(item, "message")) > 0);
    text = text_format("%s; %lld %s", text, (long long)json_integer_value(json_object_get(item, "index")),
                       json_is_null(device) ? "(null)" : json_string_value(device));
  }
  json_decref(answer);
  return text;
}

static void expect_batch(struct world *world, const char *body, const char *wanted) {
  assert_string_equal(summary(expect(world->client, 200, "POST", tenant_path(world, "/heartbeats"), body)), wanted);
}

static void expect_lines(struct world *world, const char *body, const char *wanted) {
  world->client->headers = "Content-Type: application/x-ndjson\r\n";
  expect_batch(world, body, wanted);
  world->client->headers = NULL;
}

static void expect_refused(struct world *world, int status, const char *body) {
  expect_error(world->client, status, NULL, "POST", tenant_path(world, "/heartbeats"), body);
}

static void test_objects_and_plain_ids(void **state) {
  struct world *world = world_begin(state);
  expect_batch(world, "[\"a\",{\"device\":\"b\"},{\"device\":\"c\",\"ttl_ms\":5000,\"meta\":{\"n\":1}}]", "accepted 3");
  assert_int_equal(device_number(world, "a", "ttl_ms"), 90000);
  assert_int_equal(device_number(world, "c", "ttl_ms"), 5000);
  history_wait(&world->database, world->tenant, "c", "online");
  assert_string_equal(history_payload(&world->database, world->tenant, "c", 0, "meta"), "{\"n\": 1}");
  world_check(world);
}

static void test_the_last_of_a_device_wins(void **state) {
  struct world *world = world_begin(state);
  expect_batch(world,
               "[{\"device\":\"d1\",\"ttl_ms\":5000,\"meta\":{\"first\":1}},\"d2\",{\"device\":\"d1\",\"ttl_ms\":7000,\"meta\":{"
               "\"last\":1}}]",
               "accepted 2");
  assert_int_equal(device_number(world, "d1", "ttl_ms"), 7000);
  world_drain(world);
  expect_history(world, "d1", "online");
  assert_string_equal(history_payload(&world->database, world->tenant, "d1", 0, "meta"), "{\"last\": 1}");
  expect_batch(world, "[{\"device\":\"d1\",\"ttl_ms\":8000},{\"device\":\"d1\",\"ttl_ms\":0}]", "accepted 1; 1 d1");
  assert_int_equal(device_number(world, "d1", "ttl_ms"), 8000); /* of the valid ones */
  world_check(world);
}

static void test_a_bad_item_in_the_middle(void **state) {
  struct world *world = world_begin(state);
  expect_batch(world,
               "[\"a\",7,{\"device\":\"b\",\"ttl_ms\":1.5},{\"ttl_ms\":5000},\"\",{\"device\":\"c\",\"other\":1},"
               "{\"device\":\"e\",\"meta\":[]},null,[],{\"device\":null},\"z\"]",
               "accepted 2; 1 (null); 2 b; 3 (null); 4 (null); 5 c; 6 e; 7 (null); 8 (null); 9 (null)");
  assert_string_equal(device_state(world, "a"), "online");
  assert_string_equal(device_state(world, "z"), "online");
  assert_string_equal(device_state(world, "b"), "404");
  world_check(world);
}

static void test_an_empty_array(void **state) {
  struct world *world = world_begin(state);
  const struct response *response = client_call(world->client, "POST", tenant_path(world, "/heartbeats"), "[]");
  assert_int_equal(response->status, 200);
  assert_string_equal(response->body, "{\"accepted\":0,\"rejected\":[]}");
  world_check(world);
}

static void test_what_is_no_array_is_refused_whole(void **state) {
  struct world *world = world_begin(state);
  static const char *const bodies[] = {"{}",     "\"a\"",    "7",        "null",      "",
                                       "[\"a\"", "[\"a\",]", "[\"a\"]]", "[\"a\"] x", "\xef\xbb\xbf[\"a\"]"};
  for (size_t i = 0; i < LENGTH(bodies); i++) expect_refused(world, 400, bodies[i]);
  assert_string_equal(device_state(world, "a"), "404");
  world_check(world);
}

/* ["d0","d1",…] */
static const char *many(int count) {
  char *text = malloc((size_t)count * 16 + 3), *at = text;
  assert_non_null(text);
  *at++ = '[';
  for (int i = 0; i < count; i++) at += sprintf(at, "%s\"d%d\"", i > 0 ? "," : "", i);
  strcpy(at, "]");
  const char *kept = text_format("%s", text);
  free(text);
  return kept;
}

static void test_p8_at_most_1000_items(void **state) {
  struct world *world = world_begin(state);
  expect_refused(world, 413, many(1001));
  assert_string_equal(device_state(world, "d0"), "404");
  expect_batch(world, many(1000), "accepted 1000");
  assert_string_equal(device_state(world, "d999"), "online");
  world_check(world);
}

static void test_p8_at_most_a_mebibyte(void **state) {
  struct world *world = world_begin(state);
  expect_batch(world, text_format("[\"a\"%*s]", MIB - 5, ""), "accepted 1");
  struct client *client = client_open_as(world->service->address, world->token);
  const char *body = text_format("[\"b\"%*s]", MIB - 4, "");
  client_ask(client, "POST", tenant_path(world, "/heartbeats"), body);
  assert_int_equal(client_read(client)->status, 413);
  client_close(client);
  assert_string_equal(device_state(world, "b"), "404");
  world_check(world);
}

static void test_lines(void **state) {
  struct world *world = world_begin(state);
  expect_lines(world, "{\"device\":\"a\",\"ttl_ms\":5000}\r\n\"b\"\n{\"device\":\n{\"device\":\"c\"}\n\r\n\n\"e\"",
               "accepted 4; 2 (null)");
  assert_int_equal(device_number(world, "a", "ttl_ms"), 5000);
  assert_string_equal(device_state(world, "e"), "online");
  expect_lines(world, "", "accepted 0");
  expect_lines(world, "\n\r\n\n", "accepted 0");
  expect_lines(world, "[\"x\"]\n", "accepted 0; 0 (null)");
  world_check(world);
}

static void test_p8_at_most_1000_lines(void **state) {
  struct world *world = world_begin(state);
  char *text = malloc(1001 * 8), *at = text;
  assert_non_null(text);
  for (int i = 0; i < 1001; i++) at += sprintf(at, "\"d%d\"\n", i);
  world->client->headers = "Content-Type: application/x-ndjson\r\n";
  expect_refused(world, 413, text);
  world->client->headers = NULL;
  free(text);
  assert_string_equal(device_state(world, "d0"), "404");
  world_check(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_objects_and_plain_ids),
      cmocka_unit_test(test_the_last_of_a_device_wins),
      cmocka_unit_test(test_a_bad_item_in_the_middle),
      cmocka_unit_test(test_an_empty_array),
      cmocka_unit_test(test_what_is_no_array_is_refused_whole),
      cmocka_unit_test(test_p8_at_most_1000_items),
      cmocka_unit_test(test_p8_at_most_a_mebibyte),
      cmocka_unit_test(test_lines),
      cmocka_unit_test(test_p8_at_most_1000_lines),
  };
  int failures = 0;
  RUN_IN_ALL_DIALECTS(tests, failures);
  return failures;
}
