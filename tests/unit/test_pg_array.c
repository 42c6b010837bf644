#include "support/unit.h"

#include "outbox/pg_array.h"
#include "support/alloc_fail.h"

#define assert_bytes(array, expected)                                                                                            \
  do {                                                                                                                           \
    assert_int_equal((array).bytes.len, sizeof(expected) - 1);                                                                   \
    assert_memory_equal((array).bytes.data, expected, sizeof(expected) - 1);                                                     \
  } while (0)

/* As `SELECT array_send(…)` answers, but for the flag that says whether there are nulls: it may always be set. */
static void arrays_are_as_the_server_sends_them(void **state) {
  (void)state;
  struct pg_array array = {0};
  pg_array_begin(&array, PG_OID_INT8, 2);
  pg_array_add_int64(&array, 1);
  pg_array_add_int64(&array, -2);
  assert_status(STATUS_OK, array.status);
  assert_bytes(array, "\0\0\0\1\0\0\0\1\0\0\0\x14\0\0\0\2\0\0\0\1"
                      "\0\0\0\x08\0\0\0\0\0\0\0\1"
                      "\0\0\0\x08\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFE");
  pg_array_begin(&array, PG_OID_TEXT, 3);
  pg_array_add_bytes(&array, STR_LIT("{\"\\,"));
  pg_array_add_null(&array);
  pg_array_add_bytes(&array, STR_NONE);
  assert_status(STATUS_OK, array.status);
  assert_bytes(array, "\0\0\0\1\0\0\0\1\0\0\0\x19\0\0\0\3\0\0\0\1"
                      "\0\0\0\4{\"\\,\xFF\xFF\xFF\xFF\0\0\0\0");
  pg_array_begin(&array, PG_OID_TEXT, 0);
  assert_bytes(array, "\0\0\0\0\0\0\0\1\0\0\0\x19");
  pg_array_free(&array);
}

static bool build_once(void *context) {
  (void)context;
  struct pg_array array = {0};
  pg_array_begin(&array, PG_OID_TEXT, 200);
  for (int i = 0; i < 200; i++) pg_array_add_bytes(&array, STR_LIT("some text that makes it grow"));
  bool good = array.status == STATUS_OK;
  pg_array_free(&array);
  return good;
}

static void a_failed_allocation_is_remembered(void **state) {
  (void)state;
  assert_true(alloc_fail_sweep(build_once, NULL) > 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(arrays_are_as_the_server_sends_them),
      cmocka_unit_test(a_failed_allocation_is_remembered),
  };
  return cmocka_run_group_tests_name("pg_array", tests, NULL, NULL);
}
