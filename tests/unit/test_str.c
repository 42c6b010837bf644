#include "support/unit.h"

#include <stdlib.h>

#include "support/alloc_fail.h"

static void every_status_has_its_own_word(void **state) {
  (void)state;
  for (int i = STATUS_OK; i <= STATUS_PROTOCOL; i++) {
    assert_string_not_equal(status_name((enum status)i), "unknown");
    for (int j = STATUS_OK; j < i; j++) assert_string_not_equal(status_name((enum status)i), status_name((enum status)j));
  }
  assert_string_equal(status_name((enum status)999), "unknown");
}

static void int64_takes_digits_only(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t value;
  } good[] = {{"0", 0}, {"7", 7}, {"007", 7}, {"2592000000", 2592000000}, {"9223372036854775807", INT64_MAX}};
  static const char *const bad[] = {"",
                                    "-1",
                                    "+1",
                                    " 1",
                                    "1 ",
                                    "1.0",
                                    "1e3",
                                    "0x1",
                                    "x",
                                    "9223372036854775808",
                                    "18446744073709551616",
                                    "92233720368547758070",
                                    "1/",
                                    "1:"};
  int64_t value = 0;
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    assert_status(STATUS_OK, str_to_int64(str_from(good[i].text), &value));
    assert_int_equal(value, good[i].value);
  }
  value = 42;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_status(STATUS_INVALID, str_to_int64(str_from(bad[i]), &value));
  assert_int_equal(value, 42);
}

static size_t encode_utf8(uint32_t code, char out[4]) {
  if (code < 0x80) {
    out[0] = (char)code;
    return 1;
  }
  size_t size = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
  static const unsigned char lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
  for (size_t i = size - 1; i > 0; i--) {
    out[i] = (char)(0x80 | (code & 0x3F));
    code >>= 6;
  }
  out[0] = (char)(lead[size] | code);
  return size;
}

static void utf8_accepts_every_scalar_value(void **state) {
  (void)state;
  for (uint32_t code = 0; code < 0x120000; code++) {
    char bytes[4];
    size_t size = encode_utf8(code, bytes);
    bool valid = code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
    assert_int_equal(str_is_utf8((struct str){bytes, size}), valid);
    assert_int_equal(str_utf8_sequence((struct str){bytes, size}), valid ? size : 0);
    if (size > 1) assert_false(str_is_utf8((struct str){bytes, size - 1}));
  }
}

static void utf8_refuses_malformed(void **state) {
  (void)state;
  static const char *const bad[] = {"\x80",
                                    "\xBF",
                                    "\xC0\x80",
                                    "\xC1\xBF",
                                    "\xE0\x80\x80",
                                    "\xE0\x9F\xBF",
                                    "\xF0\x80\x80\x80",
                                    "\xF0\x8F\xBF\xBF",
                                    "\xED\xA0\x80",
                                    "\xF4\x90\x80\x80",
                                    "\xF5\x80\x80\x80",
                                    "\xFF",
                                    "\xFE",
                                    "\xC3(",
                                    "\xE2\x82",
                                    "\xE2(\xA1",
                                    "\xE2\x82(",
                                    "\xF0\x90\x28\xBC",
                                    "ok\xC3",
                                    "\xC3\xA9\xA9"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_false(str_is_utf8(str_from(bad[i])));
  assert_true(str_is_utf8(STR_NONE));
  assert_true(str_is_utf8(STR_LIT("a\0b")));
  assert_true(str_is_utf8(STR_LIT("grün €😀")));
}

static void equality_compares_bytes(void **state) {
  (void)state;
  assert_true(str_equal(STR_NONE, STR_LIT("")));
  assert_true(str_equal(STR_LIT("a\0b"), STR_LIT("a\0b")));
  assert_false(str_equal(STR_LIT("a\0b"), STR_LIT("a\0c")));
  assert_false(str_equal(STR_LIT("a"), STR_LIT("ab")));
}

static void buf_grows_and_keeps_its_bytes(void **state) {
  (void)state;
  struct buf buf = {0};
  assert_status(STATUS_OK, buf_append(&buf, NULL, 0));
  assert_null(buf.data);
  for (int i = 0; i < 10000; i++) assert_status(STATUS_OK, buf_append_str(&buf, STR_LIT("0123456789")));
  assert_int_equal(buf.len, 100000);
  for (size_t i = 0; i < buf.len; i++) assert_int_equal(buf.data[i], '0' + (int)(i % 10));
  size_t capacity = buf.capacity;
  buf_clear(&buf);
  assert_int_equal(buf.capacity, capacity);
  buf_free(&buf);
  assert_null(buf.data);
  buf_free(&buf);
}

static void buf_refuses_sizes_that_overflow(void **state) {
  (void)state;
  struct buf buf = {0};
  assert_status(STATUS_OK, buf_append(&buf, "x", 1));
  assert_status(STATUS_NO_MEMORY, buf_reserve(&buf, SIZE_MAX));
  assert_status(STATUS_NO_MEMORY, buf_reserve(&buf, SIZE_MAX / 2 + 1));
  assert_status(STATUS_NO_MEMORY, buf_append_json_string(&buf, (struct str){"x", SIZE_MAX / 4}));
  assert_string_equal(buf_text(&buf), "x");
  buf_free(&buf);
}

static void buf_prints(void **state) {
  (void)state;
  struct buf buf = {0};
  assert_status(STATUS_OK, buf_printf(&buf, "%s=%d", "n", 5));
  assert_status(STATUS_OK, buf_printf(&buf, "%s", ""));
  assert_status(STATUS_OK, buf_printf(&buf, " %200s", "x"));
  assert_int_equal(buf.len, 3 + 201);
  buf_clear(&buf);
  static const int64_t numbers[] = {0, 1, -1, 42, INT64_MAX, INT64_MIN};
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
    assert_status(STATUS_OK, buf_append_int64(&buf, numbers[i]));
    assert_status(STATUS_OK, buf_append_str(&buf, STR_LIT(" ")));
  }
  assert_string_equal(buf_text(&buf), "0 1 -1 42 9223372036854775807 -9223372036854775808 ");
  buf_free(&buf);
}

static void json_strings_escape_what_rfc8259_demands(void **state) {
  (void)state;
  struct buf buf = {0};
  assert_status(STATUS_OK, buf_append_json_string(&buf, STR_LIT("")));
  assert_status(STATUS_OK, buf_append_json_string(&buf, STR_LIT("a\"\\/\b\f\n\r\t\0\x01\x1f\x7f é€😀")));
  assert_string_equal(buf_text(&buf), "\"\"\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u0001\\u001f\x7f é€😀\"");
  for (int byte = 0; byte < 0x80; byte++) {
    char escaped[6];
    size_t size = str_json_escape((unsigned char)byte, escaped);
    bool plain = byte >= 0x20 && byte != '"' && byte != '\\';
    assert_int_equal(size == 1, plain);
    assert_int_equal(escaped[0], plain ? byte : '\\');
  }
  buf_free(&buf);
}

/* A failed append leaves what was there. */
static bool unchanged_unless_ok(const struct buf *buf, size_t len_before, enum status status) {
  assert_true(status == STATUS_OK || buf->len == len_before);
  return status == STATUS_OK;
}

static bool append_everything(void *context) {
  (void)context;
  struct buf buf = {0};
  char controls[100];
  memset(controls, 1, sizeof controls);
  bool ok = unchanged_unless_ok(&buf, 0, buf_append(&buf, "0123456789", 10)) &&
            unchanged_unless_ok(&buf, 10, buf_printf(&buf, "%100d", 7)) &&
            unchanged_unless_ok(&buf, 110, buf_append_json_string(&buf, (struct str){controls, sizeof controls}));
  while (ok && buf.len + 10 <= buf.capacity) ok = buf_append_int64(&buf, 1000000000) == STATUS_OK;
  ok = ok && unchanged_unless_ok(&buf, buf.len, buf_append_int64(&buf, 1000000000));
  buf_free(&buf);
  return ok;
}

static void buf_survives_failed_allocations(void **state) {
  (void)state;
  assert_int_equal(alloc_fail_sweep(append_everything, NULL), 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_status_has_its_own_word),
      cmocka_unit_test(int64_takes_digits_only),
      cmocka_unit_test(utf8_accepts_every_scalar_value),
      cmocka_unit_test(utf8_refuses_malformed),
      cmocka_unit_test(equality_compares_bytes),
      cmocka_unit_test(buf_grows_and_keeps_its_bytes),
      cmocka_unit_test(buf_refuses_sizes_that_overflow),
      cmocka_unit_test(buf_prints),
      cmocka_unit_test(json_strings_escape_what_rfc8259_demands),
      cmocka_unit_test(buf_survives_failed_allocations),
  };
  return cmocka_run_group_tests_name("str", tests, NULL, NULL);
}
