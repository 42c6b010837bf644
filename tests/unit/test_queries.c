/* The body of a query, and cursors. */
#include "devices/cursor.h"
#include "devices/device_ids.h"

#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

static struct device_ids ids;
static char scratch[65536];

static enum device_ids_verdict parse(const char *body) { return device_ids_parse(str_from(body), scratch, &ids); }

static void expect_id(size_t i, const char *id) {
  assert_true(i < ids.count);
  assert_true(str_equal(ids.ids[i], str_from(id)));
}

static void test_ids_as_sent(void **state) {
  (void)state;
  assert_int_equal(parse("{\"devices\":[]}"), DEVICE_IDS_OK);
  assert_int_equal(ids.count, 0);
  assert_int_equal(parse(" {\"dev\\u0069ces\" : [\"a\", \"\\u0061\\ud83d\\ude00\", \"a\"] }\n"), DEVICE_IDS_OK);
  assert_int_equal(ids.count, 3);
  expect_id(0, "a");
  expect_id(1, "a\xf0\x9f\x98\x80");
  expect_id(2, "a");
}

static void test_what_is_wrong(void **state) {
  (void)state;
  assert_int_equal(parse(""), DEVICE_IDS_MALFORMED);
  assert_int_equal(ids.offset, 0);
  assert_int_equal(parse("{\"devices\":[\"a\",]}"), DEVICE_IDS_MALFORMED);
  assert_non_null(ids.detail);
  assert_int_equal(parse("{\"devices\":[7,\"a\""), DEVICE_IDS_MALFORMED); /* malformed goes before the bad id */
  assert_int_equal(parse("[]"), DEVICE_IDS_WRONG_TYPE);
  assert_int_equal(parse("{}"), DEVICE_IDS_WRONG_TYPE);
  assert_int_equal(parse("{\"devices\":{}}"), DEVICE_IDS_WRONG_TYPE);
  assert_int_equal(parse("{\"devices\":[],\"x\":0}"), DEVICE_IDS_WRONG_TYPE);
  assert_int_equal(parse("{\"devices\":[\"a\",\"\",3]}"), DEVICE_IDS_BAD_ID);
  assert_int_equal(ids.bad_index, 1);
}

static void test_how_many(void **state) {
  (void)state;
  char *body = malloc(8 * DEVICE_IDS_MAX);
  assert_non_null(body);
  size_t at = (size_t)sprintf(body, "{\"devices\":[\"a\"");
  for (int i = 1; i < DEVICE_IDS_MAX; i++) at += (size_t)sprintf(body + at, ",\"a\"");
  sprintf(body + at, "]}");
  assert_int_equal(parse(body), DEVICE_IDS_OK);
  assert_int_equal(ids.count, DEVICE_IDS_MAX);
  sprintf(body + at, ",\"\"]}"); /* too many goes before the bad id */
  assert_int_equal(parse(body), DEVICE_IDS_TOO_MANY);
  free(body);
}

static enum status back(const char *text, size_t len, const char *tenant, char device[DEVICE_ID_MAX], size_t *device_len) {
  return cursor_parse((struct str){text, len}, str_from(tenant), device, device_len);
}

static void test_a_cursor_comes_back_as_it_was(void **state) {
  (void)state;
  char long_id[DEVICE_ID_MAX];
  memset(long_id, 'z', sizeof long_id);
  const struct str devices[] = {STR_LIT("a"), STR_LIT("\xc3\xa9/%"), {long_id, sizeof long_id}};
  for (size_t i = 0; i < LENGTH(devices); i++) {
    char text[CURSOR_TEXT_MAX], device[DEVICE_ID_MAX];
    size_t device_len = 0, len = cursor_format(STR_LIT("t42"), devices[i], text);
    assert_int_equal(back(text, len, "t42", device, &device_len), STATUS_OK);
    assert_true(str_equal((struct str){device, device_len}, devices[i]));
    assert_int_equal(back(text, len, "t43", device, &device_len), STATUS_INVALID);
    assert_int_equal(back(text, len - 1, "t42", device, &device_len), STATUS_INVALID);
    assert_int_equal(back(text, len - 2, "t42", device, &device_len), STATUS_INVALID);
    text[len - 1] = text[len - 1] == '0' ? '1' : '0';
    assert_int_equal(back(text, len, "t42", device, &device_len), STATUS_INVALID);
  }
}

static void test_what_is_no_cursor(void **state) {
  (void)state;
  static const char *const texts[] = {"", "0", "00000000", "0000000000", "zzzzzzzzzz", "00000000 1"};
  char device[DEVICE_ID_MAX], too_long[CURSOR_TEXT_MAX + 2];
  size_t device_len = 0;
  for (size_t i = 0; i < LENGTH(texts); i++)
    assert_int_equal(back(texts[i], strlen(texts[i]), "t", device, &device_len), STATUS_INVALID);
  memset(too_long, '6', sizeof too_long);
  assert_int_equal(back(too_long, sizeof too_long, "t", device, &device_len), STATUS_INVALID);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_ids_as_sent),       cmocka_unit_test(test_what_is_wrong),
      cmocka_unit_test(test_how_many),          cmocka_unit_test(test_a_cursor_comes_back_as_it_was),
      cmocka_unit_test(test_what_is_no_cursor),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
