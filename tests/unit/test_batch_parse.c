/* What a batch may say, item by item. */
#include "heartbeat/parse.h"

#include "support/test.h"

static const struct parse_limits limits = {.default_ttl_ms = 90000, .min_ttl_ms = 1000, .max_ttl_ms = TTL_MAX_MS};

enum { ITEMS_MAX = 16 };
struct item {
  enum parse_error error;
  char device[DEVICE_ID_MAX + 1];
  int64_t ttl_ms;
  enum meta_action meta_action;
  struct str meta;
};
static struct item items[ITEMS_MAX];
static size_t count;
static struct parse_batch batch;
static struct parse_verdict verdict;

static enum status read_batch(struct str body, bool lines) {
  struct parse_fields fields;
  count = 0;
  enum status status = parse_batch_begin(&batch, body, lines, &limits, &verdict);
  while (status == STATUS_OK) {
    bool more = false;
    status = parse_batch_next(&batch, &more, &fields, &verdict);
    if (status != STATUS_OK || !more) break;
    assert_true(count < ITEMS_MAX);
    struct item *item = &items[count++];
    *item =
        (struct item){.error = verdict.error, .ttl_ms = fields.ttl_ms, .meta_action = fields.meta_action, .meta = fields.meta};
    if (fields.device.len > 0) memcpy(item->device, fields.device.data, fields.device.len);
  }
  return status;
}

static void takes(const char *body, size_t expected) {
  if (read_batch(str_from(body), false) != STATUS_OK) fail_msg("%s: %s", body, verdict.detail);
  assert_int_equal(count, expected);
}

static void refuses(const char *body) {
  if (read_batch(str_from(body), false) != STATUS_INVALID) fail_msg("taken: %s", body);
  assert_int_equal(verdict.error, PARSE_MALFORMED);
}

static void expect_item(size_t index, enum parse_error error, const char *device) {
  if (items[index].error != error) fail_msg("item %zu: error %d, not %d", index, items[index].error, error);
  assert_string_equal(items[index].device, device);
}

static void test_ids_and_objects_may_be_mixed(void **state) {
  (void)state;
  takes("[\"a\", {\"device\":\"b\"},{\"ttl_ms\":5000,\"device\":\"c\",\"meta\":{\"x\":[1]}} , {\"meta\":null,\"device\":\"d\"}]",
        4);
  expect_item(0, PARSE_OK, "a");
  expect_item(1, PARSE_OK, "b");
  expect_item(2, PARSE_OK, "c");
  expect_item(3, PARSE_OK, "d");
  assert_int_equal(items[0].ttl_ms, 90000);
  assert_int_equal(items[2].ttl_ms, 5000);
  assert_int_equal(items[1].meta_action, META_KEEP);
  assert_true(str_equal(items[2].meta, STR_LIT("{\"x\":[1]}")));
  assert_int_equal(items[3].meta_action, META_REMOVE);
  takes("[]", 0);
  takes(" [ ] ", 0);
}

static void test_ids_with_escapes(void **state) {
  (void)state;
  takes("[\"\\u0061\\/\\u00e9\\ud83d\\ude00\",{\"\\u0064evice\":\"\\\"\"},\"\xf0\x9f\x98\x80\"]", 3);
  expect_item(0, PARSE_OK, "a/\xc3\xa9\xf0\x9f\x98\x80");
  expect_item(1, PARSE_OK, "\"");
  expect_item(2, PARSE_OK, "\xf0\x9f\x98\x80");
}

static void test_bad_ids_are_said_per_item(void **state) {
  (void)state;
  const char *long_id = text_format("%0129d", 0);
  takes(text_format("[\"\",\"\\u0000\",\"\\u001f\",\"\\u007f\",\"\\u0085\",\"%s\",\"%s\",{\"device\":7},{\"device\":null},{}]",
                    long_id, long_id + 1),
        10);
  for (size_t i = 0; i < 6; i++) expect_item(i, PARSE_DEVICE, "");
  expect_item(6, PARSE_OK, long_id + 1);
  expect_item(7, PARSE_DEVICE, "");
  expect_item(8, PARSE_DEVICE, "");
  expect_item(9, PARSE_NO_DEVICE, "");
  struct buf body = {0}; /* 128 bytes, each sent as an escape of six; and one more */
  assert_int_equal(buf_append(&body, "[\"", 2), STATUS_OK);
  for (int i = 0; i < DEVICE_ID_MAX; i++) assert_int_equal(buf_append(&body, "\\u0078", 6), STATUS_OK);
  assert_int_equal(buf_append(&body, "\",\"x", 4), STATUS_OK);
  for (int i = 0; i < DEVICE_ID_MAX; i++) assert_int_equal(buf_append(&body, "\\u0078", 6), STATUS_OK);
  assert_int_equal(buf_append(&body, "\"]", 2), STATUS_OK);
  assert_int_equal(read_batch(buf_str(&body), false), STATUS_OK);
  assert_int_equal(items[0].error, PARSE_OK);
  assert_int_equal(strlen(items[0].device), DEVICE_ID_MAX);
  expect_item(1, PARSE_DEVICE, "");
  buf_free(&body);
}

static void test_what_an_item_says_wrong_is_its_own_affair(void **state) {
  (void)state;
  takes("[\"a\",{\"device\":\"b\",\"ttl_ms\":0},{\"device\":\"c\",\"ttl_ms\":5e3},{\"device\":\"d\",\"x\":1},7,null,[\"e\"],"
        "{\"device\":\"f\",\"meta\":{\"n\":1e400}},{\"device\":\"g\",\"meta\":{\"n\":9223372036854775808}},"
        "{\"device\":\"h\",\"meta\":{\"n\":\"\\u0000\"}},{\"device\":\"i\",\"meta\":[]},\"j\"]",
        12);
  expect_item(0, PARSE_OK, "a");
  expect_item(1, PARSE_TTL_RANGE, "b");
  expect_item(2, PARSE_TTL_TYPE, "c");
  expect_item(3, PARSE_UNKNOWN_FIELD, "d");
  expect_item(4, PARSE_NOT_ITEM, "");
  expect_item(5, PARSE_NOT_ITEM, "");
  expect_item(6, PARSE_NOT_ITEM, "");
  expect_item(7, PARSE_META_REAL, "f");
  expect_item(8, PARSE_META_INTEGER, "g");
  expect_item(9, PARSE_META_NUL, "h");
  expect_item(10, PARSE_META_TYPE, "i");
  expect_item(11, PARSE_OK, "j");
}

static void test_the_first_fault_of_an_item_counts_and_the_id_is_told(void **state) {
  (void)state;
  takes("[{\"ttl_ms\":0,\"x\":1,\"device\":\"a\"}]", 1);
  expect_item(0, PARSE_TTL_RANGE, "a");
}

static void test_what_is_no_json_array_is_refused_as_a_whole(void **state) {
  (void)state;
  static const char *const bad[] = {"",
                                    " ",
                                    "{}",
                                    "\"a\"",
                                    "null",
                                    "1",
                                    "[",
                                    "[\"a\"",
                                    "[\"a\",]",
                                    "[\"a\"]x",
                                    "[\"a\"][]",
                                    "[\"a\" \"b\"]",
                                    "[\"\xff\"]",
                                    "[\"\\ud800\"]",
                                    "[{\"device\":\"a\",\"device\":\"b\"}]",
                                    "[{\"device\":\"a\",\"meta\":{\"x\":1,\"x\":2}}]",
                                    "[{\"device\":\"a\",\"meta\":{\"n\":1e400}},]",
                                    "\xef\xbb\xbf[]",
                                    "[{\"x\":01}]",
                                    "[\"a\n\"]"};
  for (size_t i = 0; i < LENGTH(bad); i++) refuses(bad[i]);
}

static void takes_lines(const char *body, size_t expected) {
  assert_int_equal(read_batch(str_from(body), true), STATUS_OK);
  if (count != expected) fail_msg("%zu items, not %zu, in: %s", count, expected, body);
}

static void test_lines(void **state) {
  (void)state;
  takes_lines("", 0);
  takes_lines("\n\r\n \t\n", 0);
  takes_lines("{\"device\":\"a\"}", 1);
  takes_lines("\"a\"\n\n{\"device\":\"b\",\"ttl_ms\":5000}\r\n  \"c\"  \r\n\n", 3);
  expect_item(0, PARSE_OK, "a");
  expect_item(1, PARSE_OK, "b");
  expect_item(2, PARSE_OK, "c");
  assert_int_equal(items[1].ttl_ms, 5000);
}

static void test_a_bad_line_stands_alone(void **state) {
  (void)state;
  takes_lines("a\n\"b\"\n{\"device\":\"c\"\n\"d\" "
              "\"e\"\n\"\xff\"\n[\"f\"]\n{\"device\":\"g\",\"device\":\"g\"}\n\"\\ud800\"\n\"h\"\rx\n\"i\"",
              10);
  expect_item(0, PARSE_MALFORMED, "");
  expect_item(1, PARSE_OK, "b");
  expect_item(2, PARSE_MALFORMED, "");
  expect_item(3, PARSE_MALFORMED, "");
  expect_item(4, PARSE_MALFORMED, "");
  expect_item(5, PARSE_NOT_ITEM, "");
  expect_item(6, PARSE_MALFORMED, "");
  expect_item(7, PARSE_MALFORMED, "");
  expect_item(8, PARSE_MALFORMED, "");
  expect_item(9, PARSE_OK, "i");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ids_and_objects_may_be_mixed),
      cmocka_unit_test(test_ids_with_escapes),
      cmocka_unit_test(test_bad_ids_are_said_per_item),
      cmocka_unit_test(test_what_an_item_says_wrong_is_its_own_affair),
      cmocka_unit_test(test_the_first_fault_of_an_item_counts_and_the_id_is_told),
      cmocka_unit_test(test_what_is_no_json_array_is_refused_as_a_whole),
      cmocka_unit_test(test_lines),
      cmocka_unit_test(test_a_bad_line_stands_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
