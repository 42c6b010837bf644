#include "support/unit.h"

#include "session.h"
#include "transition.h"

#define assert_session(expected_ms, expected_seq, id)                                                                            \
  do {                                                                                                                           \
    assert_int_equal((id).ms, (expected_ms));                                                                                    \
    assert_int_equal((id).seq, (expected_seq));                                                                                  \
  } while (0)

static void ids_are_parsed_and_printed(void **state) {
  (void)state;
  static const char *const good[] = {"0-0", "1790000000000-0", "1-9223372036854775807",
                                     "9223372036854775807-9223372036854775807"};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    struct session_id id;
    char text[SESSION_ID_TEXT_MAX];
    assert_status(STATUS_OK, session_id_parse(str_from(good[i]), &id));
    session_id_format(id, text);
    assert_string_equal(text, good[i]);
  }
  struct session_id id;
  assert_status(STATUS_OK, session_id_parse(STR_LIT("1790000000000-12"), &id));
  assert_session(INT64_C(1790000000000), 12, id);
}

static void other_texts_are_no_ids(void **state) {
  (void)state;
  static const char *const bad[] = {"",
                                    "-",
                                    "1",
                                    "1-",
                                    "-1",
                                    "1--1",
                                    "1-1-1",
                                    "01-1",
                                    "1-01",
                                    " 1-1",
                                    "1-1 ",
                                    "+1-1",
                                    "1-+1",
                                    "a-1",
                                    "1-a",
                                    "1.5-1",
                                    "1_1",
                                    "00-0",
                                    "0-00",
                                    "9223372036854775808-0",
                                    "0-9223372036854775808",
                                    "18446744073709551616-1"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    struct session_id id = {7, 8};
    assert_status(STATUS_INVALID, session_id_parse(str_from(bad[i]), &id));
    assert_session(7, 8, id);
  }
  struct session_id id;
  assert_status(STATUS_INVALID, session_id_parse(STR_NONE, &id));
  assert_status(STATUS_INVALID, session_id_parse((struct str){"1-1\0", 4}, &id));
}

static void ids_are_compared_as_numbers(void **state) {
  (void)state;
  static const struct session_id ascending[] = {{0, 0}, {0, 1}, {9, 9}, {9, 10}, {10, 0}, {INT64_MAX, 0}, {INT64_MAX, INT64_MAX}};
  enum { COUNT = sizeof ascending / sizeof ascending[0] };
  for (int a = 0; a < COUNT; a++) {
    for (int b = 0; b < COUNT; b++) {
      int order = session_id_compare(ascending[a], ascending[b]);
      assert_int_equal((order > 0) - (order < 0), (a > b) - (a < b));
    }
  }
}

/* Places must never change between releases. XXH64("a") = D24EC4F1A98C6E5B. */
static void placement_is_stable(void **state) {
  (void)state;
  assert_int_equal(placement_bucket(STR_LIT("a"), 1), 0);
  assert_int_equal(placement_bucket(STR_LIT("a"), 16), 0xB);
  assert_int_equal(placement_bucket(STR_LIT("a"), 256), 0x5B);
  assert_int_equal(placement_bucket(STR_LIT("a"), UINT32_MAX), UINT64_C(0xD24EC4F1A98C6E5B) % UINT32_MAX);
}

static void buckets_go_round_over_the_partitions(void **state) {
  (void)state;
  uint32_t first = placement_partition(STR_LIT("t42"), 0, 8);
  for (uint32_t bucket = 0; bucket < 32; bucket++) {
    assert_int_equal(placement_partition(STR_LIT("t42"), bucket, 8), (first + bucket) % 8);
  }
  assert_int_equal(placement_partition(STR_LIT("t42"), UINT32_MAX, 1), 0);
  uint32_t seen = 0; /* one-bucket tenants spread */
  for (const char *name = "abcdefghijklmnopqrstuvwxyz"; *name != '\0'; name++) {
    seen |= UINT32_C(1) << placement_partition((struct str){name, 1}, 0, 8);
  }
  assert_int_equal(seen, 0xFF);
}

static void tenant_ids(void **state) {
  (void)state;
  char longest[TENANT_ID_MAX + 1];
  memset(longest, 'a', sizeof longest);
  assert_true(tenant_id_valid((struct str){longest, TENANT_ID_MAX}));
  assert_false(tenant_id_valid((struct str){longest, TENANT_ID_MAX + 1}));
  static const char *const good[] = {"a", "0", "t42", "a-b", "a_b", "a-", "0_"};
  static const char *const bad[] = {"", "-a", "_a", "A", "aB", "a b", "a/b", "a.b", "\xC3\xA9", "a:b", "{a}"};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) assert_true(tenant_id_valid(str_from(good[i])));
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_false(tenant_id_valid(str_from(bad[i])));
  assert_false(tenant_id_valid((struct str){"a\0", 2}));
  assert_false(tenant_id_valid(STR_NONE));
}

static void device_ids(void **state) {
  (void)state;
  char longest[DEVICE_ID_MAX + 1];
  memset(longest, 'a', sizeof longest);
  assert_true(device_id_valid((struct str){longest, DEVICE_ID_MAX}));
  assert_false(device_id_valid((struct str){longest, DEVICE_ID_MAX + 1}));
  static const char *const good[] = {"a",
                                     ".",
                                     "..",
                                     "a/b",
                                     "a:b",
                                     "#",
                                     "+",
                                     "%2F",
                                     "{t}",
                                     "|",
                                     " ",
                                     "\xF0\x9F\x98\x80",
                                     "\xC2\xA0" /* U+00A0 */,
                                     "\xC3\x80",
                                     "\xEF\xBF\xBD",
                                     "\xE2\x80\xA8"};
  static const char *const bad[] = {"",
                                    "\x01",
                                    "a\x1F",
                                    "\x7F",
                                    "a\xC2\x80",
                                    "\xC2\x9F"
                                    "b",
                                    "\xFF",
                                    "\xC2",
                                    "\xC0\x80",
                                    "\xED\xA0\x80" /* a surrogate */,
                                    "\xF4\x90\x80\x80",
                                    "a\tb",
                                    "a\nb"};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) assert_true(device_id_valid(str_from(good[i])));
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_false(device_id_valid(str_from(bad[i])));
  assert_false(device_id_valid((struct str){"a\0b", 3}));
  assert_false(device_id_valid(STR_NONE));
}

static void names_of_types_and_reasons(void **state) {
  (void)state;
  assert_string_equal(transition_type_name(TRANSITION_ONLINE), "presence.device.online");
  assert_string_equal(transition_type_name(TRANSITION_OFFLINE), "presence.device.offline");
  assert_null(transition_reason_name(REASON_NONE));
  assert_string_equal(transition_reason_name(REASON_TIMEOUT), "timeout");
  assert_string_equal(transition_reason_name(REASON_DISCONNECT), "disconnect");
  assert_string_equal(transition_reason_name(REASON_STATE_LOST), "state_lost");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ids_are_parsed_and_printed),
      cmocka_unit_test(other_texts_are_no_ids),
      cmocka_unit_test(ids_are_compared_as_numbers),
      cmocka_unit_test(placement_is_stable),
      cmocka_unit_test(buckets_go_round_over_the_partitions),
      cmocka_unit_test(tenant_ids),
      cmocka_unit_test(device_ids),
      cmocka_unit_test(names_of_types_and_reasons),
  };
  return cmocka_run_group_tests_name("session", tests, NULL, NULL);
}
