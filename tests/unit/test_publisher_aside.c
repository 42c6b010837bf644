#include "support/unit.h"

#include "publisher/aside.h"

#define STRING(text) ((redisReply){.type = REDIS_REPLY_STRING, .str = (text), .len = sizeof(text) - 1})

static void expect(const char *json, redisReply *elements, size_t count) {
  redisReply *pointers[8];
  struct buf out = {0};
  for (size_t i = 0; i < count; i++) pointers[i] = &elements[i];
  redisReply fields = {.type = REDIS_REPLY_ARRAY, .elements = count, .element = pointers};
  assert_status(STATUS_OK, aside_format(&fields, &out));
  assert_int_equal(out.len, strlen(json));
  assert_memory_equal(out.data, json, out.len);
  buf_free(&out);
}

static void fields_become_a_json_object_of_strings(void **state) {
  (void)state;
  redisReply fields[] = {STRING("type"), STRING("off\"line"), STRING("device"), STRING("d\xc3\xa4")};
  expect("{\"type\":\"off\\\"line\",\"device\":\"d\xc3\xa4\"}", fields, 4);
}

static void bytes_that_json_and_postgresql_cannot_hold_are_replaced(void **state) {
  (void)state;
  redisReply fields[] = {STRING("a"), STRING("x\xff\x01y"), STRING("b"), STRING("n\0ul")};
  expect("{\"a\":\"x??y\",\"b\":\"n?ul\"}", fields, 4);
}

static void an_odd_or_missing_list_is_no_reason_to_stall(void **state) {
  (void)state;
  redisReply odd[] = {STRING("a"), STRING("1"), STRING("left")};
  redisReply nils[] = {STRING("a"), {.type = REDIS_REPLY_NIL}};
  struct buf out = {0};
  expect("{\"a\":\"1\"}", odd, 3);
  expect("{\"a\":\"\"}", nils, 2);
  assert_status(STATUS_OK, aside_format(NULL, &out));
  assert_int_equal(out.len, 2);
  buf_free(&out);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fields_become_a_json_object_of_strings),
      cmocka_unit_test(bytes_that_json_and_postgresql_cannot_hold_are_replaced),
      cmocka_unit_test(an_odd_or_missing_list_is_no_reason_to_stall),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
