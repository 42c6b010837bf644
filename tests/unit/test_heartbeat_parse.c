/* What a single heartbeat and a disconnect may say. */
#include "heartbeat/parse.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/alloc_fail.h"
#include "support/test.h"

static const struct parse_limits limits = {.default_ttl_ms = 90000, .min_ttl_ms = 1000, .max_ttl_ms = TTL_MAX_MS};
static const struct parse_limits wide = {.default_ttl_ms = 90000, .min_ttl_ms = 1, .max_ttl_ms = TTL_MAX_MS};

static struct parse_fields fields;
static struct parse_verdict verdict;

static void takes(const char *body) {
  if (parse_heartbeat(str_from(body), &limits, &fields, &verdict) != PARSE_OK)
    fail_msg("refused: %s: %s", body, parse_error_word(verdict.error));
}

static void refuses(enum parse_error error, const char *body) {
  enum parse_error found = parse_heartbeat(str_from(body), &limits, &fields, &verdict);
  if (found != error) fail_msg("%s: error %d, not %d", body, found, error);
  struct buf message = {0};
  assert_int_equal(parse_error_message(&message, &verdict, &limits), STATUS_OK);
  assert_true(message.len > 10 && str_is_utf8(buf_str(&message)));
  buf_free(&message);
}

static void test_an_empty_body_says_nothing(void **state) {
  (void)state;
  takes("");
  assert_int_equal(fields.ttl_ms, 90000);
  assert_int_equal(fields.meta_action, META_KEEP);
  takes("{}");
  takes(" { } \n");
  refuses(PARSE_MALFORMED, " ");
  refuses(PARSE_MALFORMED, "\r\n");
}

static void test_ttl(void **state) {
  (void)state;
  static const struct {
    const char *value;
    int64_t ttl_ms;
  } good[] = {
      {"1000", 1000}, {"90000", 90000}, {"2147483647", 2147483647}, {"2147483648", 2147483648}, {"2592000000", TTL_MAX_MS}};
  for (size_t i = 0; i < LENGTH(good); i++) {
    takes(text_format("{\"ttl_ms\":%s}", good[i].value));
    assert_int_equal(fields.ttl_ms, good[i].ttl_ms);
  }
  static const char *const out_of_range[] = {"0",
                                             "-1",
                                             "99",
                                             "999",
                                             "-0",
                                             "2592000001",
                                             "9223372036854775807",
                                             "9223372036854775808",
                                             "-9223372036854775809",
                                             "99999999999999999999999"};
  for (size_t i = 0; i < LENGTH(out_of_range); i++) refuses(PARSE_TTL_RANGE, text_format("{\"ttl_ms\":%s}", out_of_range[i]));
  static const char *const wrong_type[] = {"1.5",  "5000.0", "5e3",   "5E3",   "\"50\"", "\"5000\"",
                                           "null", "true",   "1e300", "1e400", "[]",     "{}"};
  for (size_t i = 0; i < LENGTH(wrong_type); i++) refuses(PARSE_TTL_TYPE, text_format("{\"ttl_ms\":%s}", wrong_type[i]));
  static const char *const malformed[] = {"05000", "+5000", "0x1388", "5000ms", "NaN", "", "5 000", "5_000"};
  for (size_t i = 0; i < LENGTH(malformed); i++) refuses(PARSE_MALFORMED, text_format("{\"ttl_ms\":%s}", malformed[i]));
  refuses(PARSE_MALFORMED, "{\"ttl_ms\":5000,\"ttl_ms\":5000}");
  refuses(PARSE_MALFORMED, "{\"ttl_ms\":5000,\"ttl\\u005fms\":5000}");
  refuses(PARSE_UNKNOWN_FIELD, "{\"TTL_MS\":5000}");
}

static void test_the_least_ttl_holds_whatever_the_tenant_allows(void **state) {
  (void)state;
  assert_int_equal(parse_heartbeat(STR_LIT("{\"ttl_ms\":99}"), &wide, &fields, &verdict), PARSE_TTL_RANGE);
  assert_int_equal(parse_heartbeat(STR_LIT("{\"ttl_ms\":100}"), &wide, &fields, &verdict), PARSE_OK);
  struct buf message = {0};
  verdict.error = PARSE_TTL_RANGE;
  assert_int_equal(parse_error_message(&message, &verdict, &wide), STATUS_OK);
  assert_true(str_equal(buf_str(&message), STR_LIT("ttl_ms must be from 100 to 2592000000")));
  buf_free(&message);
}

static void test_meta_is_kept_as_sent(void **state) {
  (void)state;
  takes("{ \"meta\" : { \"a\" : 1.50 , \"\\u00e9\":null } , \"ttl_ms\" : 2000 }");
  assert_int_equal(fields.meta_action, META_SET);
  assert_true(str_equal(fields.meta, STR_LIT("{ \"a\" : 1.50 , \"\\u00e9\":null }")));
  assert_int_equal(fields.ttl_ms, 2000);
  takes("{\"\\u006det\\u0061\":{\"x\":{}}}");
  assert_true(str_equal(fields.meta, STR_LIT("{\"x\":{}}")));
  takes("{\"meta\":null}");
  assert_int_equal(fields.meta_action, META_REMOVE);
  takes("{\"meta\":{}}");
  assert_true(str_equal(fields.meta, STR_LIT("{}")));
}

static void test_meta_rules(void **state) {
  (void)state;
  static const char *const no_object[] = {"[]", "\"x\"", "1", "true", "[{}]"};
  for (size_t i = 0; i < LENGTH(no_object); i++) refuses(PARSE_META_TYPE, text_format("{\"meta\":%s}", no_object[i]));
  refuses(PARSE_META_NUL, "{\"meta\":{\"a\":\"\\u0000\"}}");
  refuses(PARSE_META_NUL, "{\"meta\":{\"\\u0000\":1}}");
  refuses(PARSE_META_INTEGER, "{\"meta\":{\"a\":9223372036854775808}}");
  refuses(PARSE_META_INTEGER, "{\"meta\":{\"a\":-9223372036854775809}}");
  takes("{\"meta\":{\"a\":9223372036854775807,\"b\":-9223372036854775808}}");
  refuses(PARSE_META_REAL, "{\"meta\":{\"a\":1e400}}");
  refuses(PARSE_META_REAL, "{\"meta\":{\"a\":[0,{\"b\":-1e400}]}}");
  takes("{\"meta\":{\"a\":1e308,\"b\":0.1e-7,\"c\":27.299999999999997}}");
  refuses(PARSE_MALFORMED, "{\"meta\":{\"a\":1,\"a\":2}}");
  refuses(PARSE_MALFORMED, "{\"meta\":{\"a\":\"\\ud800\"}}");
  refuses(PARSE_MALFORMED, "{\"meta\":{\"a\":\"\xff\"}}");
  refuses(PARSE_MALFORMED, "{\"meta\":{},\"meta\":{}}");
}

/* {"meta":{"a":{"a":…1…}}}, so many levels deep */
static const char *deep_meta(int levels) {
  struct buf text = {0};
  assert_int_equal(buf_append(&text, "{\"meta\":", 8), STATUS_OK);
  for (int i = 0; i < levels; i++) assert_int_equal(buf_append(&text, "{\"a\":", 5), STATUS_OK);
  assert_int_equal(buf_append(&text, "1", 1), STATUS_OK);
  for (int i = 0; i < levels + 1; i++) assert_int_equal(buf_append(&text, "}", 1), STATUS_OK);
  const char *copy = text_format("%.*s", STR_ARG(buf_str(&text)));
  buf_free(&text);
  return copy;
}

static void test_meta_depth(void **state) {
  (void)state;
  takes(deep_meta(META_MAX_DEPTH));
  refuses(PARSE_META_DEPTH, deep_meta(META_MAX_DEPTH + 1));
}

static void test_meta_size_counts_bytes_as_sent(void **state) {
  (void)state;
  const char *filler = text_format("%4096s", "");
  takes(text_format("{\"meta\":{\"a\":1%.*s} %.*s}", META_MAX_BYTES - 7, filler, 100, filler));
  assert_int_equal(fields.meta.len, META_MAX_BYTES);
  refuses(PARSE_META_SIZE, text_format("{\"meta\":{\"a\":1%.*s}}", META_MAX_BYTES - 6, filler));
}

static void test_the_whole_must_be_an_object_with_known_fields(void **state) {
  (void)state;
  static const char *const no_object[] = {"[]", "null", "1", "\"x\"", "true", "[{}]"};
  for (size_t i = 0; i < LENGTH(no_object); i++) refuses(PARSE_NOT_OBJECT, no_object[i]);
  refuses(PARSE_UNKNOWN_FIELD, "{\"device\":\"x\"}");
  refuses(PARSE_UNKNOWN_FIELD, "{\"\":1}");
  refuses(PARSE_UNKNOWN_FIELD, "{\"meta \":{}}");
  static const char *const malformed[] = {"{",
                                          "}",
                                          "{}{}",
                                          "{} x",
                                          "\xef\xbb\xbf{}",
                                          "{\"ttl_ms\":5000,}",
                                          "{'ttl_ms':5000}",
                                          "nope",
                                          "{\"ttl_ms\":5000]",
                                          "// c\n{}",
                                          "{\"\xff\":1}"};
  for (size_t i = 0; i < LENGTH(malformed); i++) refuses(PARSE_MALFORMED, malformed[i]);
}

static void test_messages_name_the_field(void **state) {
  (void)state;
  struct buf message = {0};
  refuses(PARSE_UNKNOWN_FIELD, "{\"ttl\":5000}");
  assert_int_equal(parse_error_message(&message, &verdict, &limits), STATUS_OK);
  assert_true(
      str_equal(buf_str(&message), STR_LIT("unknown field \"ttl\"; known are device (in a batch only), ttl_ms and meta")));
  buf_clear(&message);
  const char *name = text_format("{\"%0500d\":1}", 0);
  refuses(PARSE_UNKNOWN_FIELD, name);
  assert_int_equal(parse_error_message(&message, &verdict, &limits), STATUS_OK);
  assert_true(message.len < 200);
  buf_clear(&message);
  refuses(PARSE_MALFORMED, "{\"ttl_ms\":5000,}");
  assert_int_equal(parse_error_message(&message, &verdict, &limits), STATUS_OK);
  assert_true(str_equal(buf_str(&message), STR_LIT("malformed JSON at byte 15: a name in quotes is missing")));
  buf_free(&message);
}

static bool explain_once(void *context) {
  struct buf message = {0};
  enum status status = parse_error_message(&message, context, &limits);
  buf_free(&message);
  return status == STATUS_OK;
}

static void test_short_memory_is_told(void **state) {
  (void)state;
  refuses(PARSE_UNKNOWN_FIELD, text_format("{\"%0100d\":1}", 0));
  assert_true(alloc_fail_sweep(explain_once, &verdict) > 0);
}

static void test_disconnect(void **state) {
  (void)state;
  bool has_session = true;
  struct session_id session = SESSION_ID_NONE;
  const char *message = NULL;
  assert_int_equal(parse_disconnect(STR_NONE, &has_session, &session, &message), STATUS_OK);
  assert_false(has_session);
  assert_int_equal(parse_disconnect(STR_LIT("{}"), &has_session, &session, &message), STATUS_OK);
  assert_false(has_session);
  assert_int_equal(parse_disconnect(STR_LIT(" {\"session\": \"1790000000000-7\"} "), &has_session, &session, &message),
                   STATUS_OK);
  assert_true(has_session);
  assert_int_equal(session.ms, 1790000000000);
  assert_int_equal(session.seq, 7);
  static const char *const bad[] = {" ",
                                    "[]",
                                    "null",
                                    "{\"session\":null}",
                                    "{\"session\":\"\"}",
                                    "{\"session\":1}",
                                    "{\"session\":\"x\"}",
                                    "{\"session\":\"1-0\",\"session\":\"1-0\"}",
                                    "{\"session\":\"1-0\",\"a\":1}",
                                    "{\"a\":\"1-0\"}",
                                    "{\"session\":\"1-0\"} x",
                                    "{\"session\":\"1-0\""};
  for (size_t i = 0; i < LENGTH(bad); i++)
    if (parse_disconnect(str_from(bad[i]), &has_session, &session, &message) != STATUS_INVALID) fail_msg("taken: %s", bad[i]);
}

/* ---- Status bodies of real devices */

static const char *payload_folder(void) {
  const char *given = getenv("PRESENCE_PAYLOADS");
  const char *root = getenv("PRESENCE_ROOT");
  return given != NULL ? given : text_format("%s/../shared/payloads", root != NULL ? root : ".");
}

static struct buf read_file(const char *path) {
  struct buf text = {0};
  FILE *file = fopen(path, "rb");
  if (file == NULL) fail_msg("cannot open %s", path);
  assert_int_equal(buf_reserve(&text, 65536), STATUS_OK);
  text.len = fread(text.data, 1, 65536, file);
  fclose(file);
  return text;
}

/* Files 20 to 24 and 34 are no JSON objects. */
static bool is_no_object(const char *name) {
  long number = strtol(name, NULL, 10);
  return (number >= 20 && number <= 24) || number == 34;
}

static void try_payload(const char *folder, const char *name) {
  struct buf payload = read_file(text_format("%s/%s", folder, name));
  struct buf body = {0};
  while (payload.len > 0 && payload.data[payload.len - 1] == '\n') payload.len--;
  assert_int_equal(buf_append(&body, "{\"meta\":", 8), STATUS_OK);
  assert_int_equal(buf_append_str(&body, buf_str(&payload)), STATUS_OK);
  assert_int_equal(buf_append(&body, "}", 1), STATUS_OK);
  enum parse_error error = parse_heartbeat(buf_str(&body), &limits, &fields, &verdict);
  if (is_no_object(name)) {
    if (error == PARSE_OK) fail_msg("%s: taken", name);
  } else {
    if (error != PARSE_OK) fail_msg("%s: refused: %s", name, parse_error_word(error));
    if (!str_equal(fields.meta, buf_str(&payload))) fail_msg("%s: changed", name);
  }
  buf_free(&body);
  buf_free(&payload);
}

static void test_status_bodies_of_real_devices(void **state) {
  (void)state;
  const char *folder = payload_folder();
  DIR *directory = opendir(folder);
  if (directory == NULL) {
    print_message("skipped: no folder %s (PRESENCE_PAYLOADS names another)\n", folder);
    skip();
  }
  size_t tried = 0;
  const struct dirent *entry;
  while ((entry = readdir(directory)) != NULL) {
    if (entry->d_name[0] < '0' || entry->d_name[0] > '9') continue;
    try_payload(folder, entry->d_name);
    tried++;
  }
  closedir(directory);
  assert_true(tried >= 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_an_empty_body_says_nothing),
      cmocka_unit_test(test_ttl),
      cmocka_unit_test(test_the_least_ttl_holds_whatever_the_tenant_allows),
      cmocka_unit_test(test_meta_is_kept_as_sent),
      cmocka_unit_test(test_meta_rules),
      cmocka_unit_test(test_meta_depth),
      cmocka_unit_test(test_meta_size_counts_bytes_as_sent),
      cmocka_unit_test(test_the_whole_must_be_an_object_with_known_fields),
      cmocka_unit_test(test_messages_name_the_field),
      cmocka_unit_test(test_short_memory_is_told),
      cmocka_unit_test(test_disconnect),
      cmocka_unit_test(test_status_bodies_of_real_devices),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
