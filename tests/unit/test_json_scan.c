/* json_scan: its verdicts one by one, and beside an independent parser's. */
#include "json_scan.h"

#include "support/json_oracle.h"
#include "support/test.h"

static struct json_scan scan;

static enum status read_text(struct str text, struct json_scan_value *value) {
  json_scan_begin(&scan, text);
  enum status status = json_scan_value(&scan, value);
  return status == STATUS_OK ? json_scan_end(&scan) : status;
}

static void agree(const char *text) {
  const char *difference = oracle_compare(str_from(text));
  if (difference != NULL) fail_msg("%s: %s", text, difference);
}

static void refuses(const char *text, const char *error) {
  struct json_scan_value value;
  if (read_text(str_from(text), &value) != STATUS_INVALID) fail_msg("taken: %s", text);
  if (strstr(scan.error, error) == NULL) fail_msg("%s: %s, not %s", text, scan.error, error);
  agree(text);
}

static void takes(const char *text, enum json_scan_type type, unsigned faults) {
  struct json_scan_value value;
  if (read_text(str_from(text), &value) != STATUS_OK) fail_msg("%s: refused: %s", text, scan.error);
  assert_int_equal(value.type, type);
  if (value.faults != faults) fail_msg("%s: faults %u, not %u", text, value.faults, faults);
  agree(text);
}

static void test_scalars(void **state) {
  (void)state;
  takes("null", JSON_SCAN_NULL, 0);
  takes(" true\r\n", JSON_SCAN_TRUE, 0);
  takes("\tfalse ", JSON_SCAN_FALSE, 0);
  takes("0", JSON_SCAN_INTEGER, 0);
  takes("-0", JSON_SCAN_INTEGER, 0);
  takes("0.0", JSON_SCAN_REAL, 0);
  takes("5e3", JSON_SCAN_REAL, 0);
  takes("5E+3", JSON_SCAN_REAL, 0);
  takes("-5.25e-3", JSON_SCAN_REAL, 0);
  takes("\"\"", JSON_SCAN_STRING, 0);
  takes("\"\\\"\\\\\\/\\b\\f\\n\\r\\t\\u00e9\\ud83d\\ude00\"", JSON_SCAN_STRING, 0);
  takes("\"\x7f\xc3\xa9\xf0\x9f\x98\x80\"", JSON_SCAN_STRING, 0);
  takes("[]", JSON_SCAN_ARRAY, 0);
  takes("{}", JSON_SCAN_OBJECT, 0);
  takes("{\"a\":[1,{\"b\":null}],\"\":\"x\"}", JSON_SCAN_OBJECT, 0);
}

static void test_ranges(void **state) {
  (void)state;
  takes("9223372036854775807", JSON_SCAN_INTEGER, 0);
  takes("-9223372036854775808", JSON_SCAN_INTEGER, 0);
  takes("9223372036854775808", JSON_SCAN_INTEGER, JSON_SCAN_FAULT_INTEGER);
  takes("-9223372036854775809", JSON_SCAN_INTEGER, JSON_SCAN_FAULT_INTEGER);
  takes("99999999999999999999999999", JSON_SCAN_INTEGER, JSON_SCAN_FAULT_INTEGER);
  takes("1.7976931348623157e308", JSON_SCAN_REAL, 0);
  takes("1.7976931348623159e308", JSON_SCAN_REAL, JSON_SCAN_FAULT_REAL);
  takes("1e400", JSON_SCAN_REAL, JSON_SCAN_FAULT_REAL);
  takes("[1,{\"a\":-1e400}]", JSON_SCAN_ARRAY, JSON_SCAN_FAULT_REAL);
  takes("1e-400", JSON_SCAN_REAL, 0);
  takes("0e400", JSON_SCAN_REAL, 0);
  takes("1e-9999", JSON_SCAN_REAL, 0);
  takes("1e-10000", JSON_SCAN_REAL, JSON_SCAN_FAULT_REAL);
  takes("0e99999999999999999999", JSON_SCAN_REAL, JSON_SCAN_FAULT_REAL);
  takes("1e-00000000400", JSON_SCAN_REAL, 0);
  takes("\"\\u0000\"", JSON_SCAN_STRING, JSON_SCAN_FAULT_NUL);
  takes("{\"a\\u0000\":1}", JSON_SCAN_OBJECT, JSON_SCAN_FAULT_NUL);
  takes("[\"\\u0000\",1e400,9223372036854775808]", JSON_SCAN_ARRAY,
        JSON_SCAN_FAULT_NUL | JSON_SCAN_FAULT_REAL | JSON_SCAN_FAULT_INTEGER);
}

static void test_long_numbers(void **state) {
  (void)state;
  char text[5001];
  memset(text, '1', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  text[1] = '.'; /* 1.111…: short in value, however many digits */
  takes(text + 4000, JSON_SCAN_INTEGER, JSON_SCAN_FAULT_INTEGER);
  text[2000] = '\0';
  takes(text, JSON_SCAN_REAL, 0);
  memset(text, '1', 400);
  text[400] = '.'; /* 400 digits before the point */
  takes(text, JSON_SCAN_REAL, JSON_SCAN_FAULT_REAL);
}

static void test_malformed(void **state) {
  (void)state;
  static const struct {
    const char *text, *error;
  } cases[] = {
      {"", "a value is needed"},
      {" ", "a value is needed"},
      {"nul", "a value is needed"},
      {"True", "a value is needed"},
      {"NaN", "a value is needed"},
      {"\xef\xbb\xbf{}", "a value is needed"}, /* BOM */
      {"01", "leading zero"},
      {"-", "digit is missing"},
      {"+1", "a value is needed"},
      {".5", "a value is needed"},
      {"1.", "digit is missing"},
      {"1.e5", "digit is missing"},
      {"1e", "digit is missing"},
      {"0x10", "bytes after the end"},
      {"1 2", "bytes after the end"},
      {"{} x", "bytes after the end"},
      {"[1,]", "a value is needed"},
      {"[1 2]", "comma"},
      {"[,1]", "a value is needed"},
      {"[1", "does not end"},
      {"{\"a\":1", "does not end"},
      {"{\"a\":1,}", "name in quotes"},
      {"{a:1}", "name in quotes"},
      {"{\"a\" 1}", "colon"},
      {"{\"a\":}", "a value is needed"},
      {"[1}", "comma"},
      {"{\"a\":1]", "comma"},
      {"'a'", "a value is needed"},
      {"\"abc", "does not end"},
      {"\"abc\\", "does not end"},
      {"\"\\x\"", "unknown escape"},
      {"\"\\u12g4\"", "four hexadecimal"},
      {"\"\\u12", "four hexadecimal"},
      {"\"a\nb\"", "control character"},
      {"\"\\ud800\"", "lone surrogate"},
      {"\"\\udc00\"", "lone surrogate"},
      {"\"\\ud800\\u0041\"", "lone surrogate"},
      {"\"\\ud800\\ud800\"", "lone surrogate"},
      {"\"\\ud800x\"", "lone surrogate"},
      {"\"\\udc00\\ud800\"", "lone surrogate"},
      {"\"\xff\"", "UTF-8"},
      {"\"\xc0\xaf\"", "UTF-8"},         /* overlong */
      {"\"\xed\xa0\x80\"", "UTF-8"},     /* a surrogate */
      {"\"\xf4\x90\x80\x80\"", "UTF-8"}, /* beyond U+10FFFF */
      {"\"\xe2\x82\"", "UTF-8"},         /* cut off */
      {"{\"a\":1,\"a\":1}", "twice"},
      {"{\"a\":1,\"\\u0061\":1}", "twice"},
      {"{\"\\u0061\":1,\"a\":1}", "twice"},
      {"[{\"x\":{\"a\":1,\"b\":2,\"a\":3}}]", "twice"},
      {"{\"\":1,\"\":1}", "twice"},
      {"{\"c\":1,\"b\":1,\"a\":1,\"d\":1,\"c\":1}", "twice"},
      {"// x\n1", "a value is needed"},
  };
  for (size_t i = 0; i < LENGTH(cases); i++) refuses(cases[i].text, cases[i].error);
}

static void test_a_nul_byte_is_no_end(void **state) {
  (void)state;
  struct json_scan_value value;
  assert_int_equal(read_text(STR_LIT("{}\0"), &value), STATUS_INVALID);
  assert_int_equal(read_text(STR_LIT("\"a\0b\""), &value), STATUS_INVALID);
  assert_null(oracle_compare(STR_LIT("{}\0")));
}

static void test_names_in_different_objects_may_repeat(void **state) {
  (void)state;
  takes("{\"a\":{\"a\":{\"a\":1}},\"b\":{\"a\":1}}", JSON_SCAN_OBJECT, 0);
  takes("[{\"a\":1},{\"a\":1}]", JSON_SCAN_ARRAY, 0);
}

/* "[[[…]]]" */
static char *nested(size_t levels) {
  char *text = malloc(2 * levels + 1);
  memset(text, '[', levels);
  memset(text + levels, ']', levels);
  text[2 * levels] = '\0';
  return text;
}

static void test_depth(void **state) {
  (void)state;
  static const size_t levels[] = {1, 32, 33, 2000, JSON_SCAN_NESTING_MAX};
  for (size_t i = 0; i < LENGTH(levels); i++) {
    struct json_scan_value value;
    char *text = nested(levels[i]);
    assert_int_equal(read_text(str_from(text), &value), STATUS_OK);
    assert_int_equal(value.depth, levels[i]);
    free(text);
  }
  char *text = nested(JSON_SCAN_NESTING_MAX + 1);
  struct json_scan_value value;
  assert_int_equal(read_text(str_from(text), &value), STATUS_INVALID);
  assert_string_equal(scan.error, "nested too deeply");
  free(text);
  text = malloc(1000001); /* far more than any stack of calls would bear */
  memset(text, '[', 1000000);
  text[1000000] = '\0';
  assert_int_equal(read_text(str_from(text), &value), STATUS_INVALID);
  free(text);
}

static void test_many_names(void **state) {
  (void)state;
  struct buf text = {0};
  struct json_scan_value value;
  assert_int_equal(buf_append(&text, "{", 1), STATUS_OK);
  for (int i = 0; i < 900; i++) assert_int_equal(buf_printf(&text, "\"%x\":%d,", (i * 7919) % 100000, i), STATUS_OK);
  assert_int_equal(buf_append(&text, "\"z\":1}", 6), STATUS_OK);
  assert_int_equal(read_text(buf_str(&text), &value), STATUS_OK);
  text.len -= 6;
  assert_int_equal(buf_append(&text, "\"0\":1}", 6), STATUS_OK);
  assert_int_equal(read_text(buf_str(&text), &value), STATUS_INVALID);
  buf_free(&text);
}

static void test_spans(void **state) {
  (void)state;
  struct json_scan_value value;
  assert_int_equal(read_text(STR_LIT(" { \"a\" : [ 1.50 ] } "), &value), STATUS_OK);
  assert_true(str_equal(value.text, STR_LIT("{ \"a\" : [ 1.50 ] }")));
  assert_int_equal(read_text(STR_LIT(" \"x\\u0041\" "), &value), STATUS_OK);
  assert_true(str_equal(value.text, STR_LIT("x\\u0041")));
  assert_true(value.escaped);
  assert_true(json_scan_string_is(&value, STR_LIT("xA")));
  assert_false(json_scan_string_is(&value, STR_LIT("xB")));
  assert_int_equal(read_text(STR_LIT("-12"), &value), STATUS_OK);
  assert_int_equal(value.integer, -12);
}

/* Every text that differs from a good one in one byte, and every beginning of it. */
static void test_agrees_with_another_parser_on_mutants(void **state) {
  (void)state;
  static const char good[] =
      "{\"k\\u0041\":[0,-1.5e+3,\"\xc3\xa9\\ud83d\\ude00\",true,null,{\"k\":{}}],\"b\":9223372036854775807}";
  static const char bytes[] = "\"\\{}[]:,0-+.eEu\x80\xc3 \n\x01x";
  char text[sizeof good];
  for (size_t i = 0; i + 1 < sizeof good; i++) {
    for (size_t j = 0; j < sizeof bytes; j++) { /* the closing NUL too */
      memcpy(text, good, sizeof good);
      text[i] = bytes[j];
      const char *difference = oracle_compare((struct str){text, sizeof good - 1});
      if (difference != NULL) fail_msg("byte %zu as %d: %s", i, bytes[j], difference);
    }
    const char *difference = oracle_compare((struct str){good, i});
    if (difference != NULL) fail_msg("the first %zu bytes: %s", i, difference);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_scalars),
      cmocka_unit_test(test_ranges),
      cmocka_unit_test(test_long_numbers),
      cmocka_unit_test(test_malformed),
      cmocka_unit_test(test_a_nul_byte_is_no_end),
      cmocka_unit_test(test_names_in_different_objects_may_repeat),
      cmocka_unit_test(test_depth),
      cmocka_unit_test(test_many_names),
      cmocka_unit_test(test_spans),
      cmocka_unit_test(test_agrees_with_another_parser_on_mutants),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
