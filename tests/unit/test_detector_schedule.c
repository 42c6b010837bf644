#include "support/unit.h"

#include "detector.h"
#include "detector/schedule.h"

static void nothing_open_sleeps_the_longest(void **state) {
  (void)state;
  assert_int_equal(schedule_wait_ms(INT64_MAX, 1000, true), DETECTOR_SLEEP_MAX_MS);
  assert_int_equal(schedule_wait_ms(INT64_MAX, -5000, false), DETECTOR_SLEEP_MAX_MS);
}

static void sleeps_until_the_cutoff_has_passed_the_earliest_bound(void **state) {
  (void)state;
  assert_int_equal(schedule_wait_ms(1040, 1000, true), 41);
  assert_int_equal(schedule_wait_ms(1099, 1000, true), 100);
  assert_int_equal(schedule_wait_ms(1100, 1000, true), DETECTOR_SLEEP_MAX_MS);
  assert_int_equal(schedule_wait_ms(90000, 1000, true), DETECTOR_SLEEP_MAX_MS);
}

/* Marks move the cutoff every 25 ms: a bound at the cutoff is no reason to ask again at once. */
static void never_spins(void **state) {
  (void)state;
  for (int64_t ahead = -1000; ahead <= 4; ahead++) assert_true(schedule_wait_ms(1000 + ahead, 1000, true) >= 5);
}

static void deaf_it_looks_less_often(void **state) {
  (void)state;
  for (int64_t ahead = -1000; ahead <= 1000; ahead++) assert_true(schedule_wait_ms(1000 + ahead, 1000, false) >= 50);
}

static void never_longer_than_the_longest(void **state) {
  (void)state;
  for (int64_t ahead = -200; ahead <= 200; ahead++) {
    assert_true(schedule_wait_ms(1000 + ahead, 1000, true) <= DETECTOR_SLEEP_MAX_MS);
    assert_true(schedule_wait_ms(1000 + ahead, 1000, false) <= DETECTOR_SLEEP_MAX_MS);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_open_sleeps_the_longest),
      cmocka_unit_test(sleeps_until_the_cutoff_has_passed_the_earliest_bound),
      cmocka_unit_test(never_spins),
      cmocka_unit_test(deaf_it_looks_less_often),
      cmocka_unit_test(never_longer_than_the_longest),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
