/* When a loop may say that it is listening. */
#include "heartbeat/hearing.h"

#include "support/test.h"

static const struct hearing_rules rules = {.outage_us = 200000, .settle_us = 5000000};
static struct hearing hearing;
static int64_t now_us, wait_us, heartbeat_us;

static int set_up(void **state) {
  (void)state;
  hearing = (struct hearing){0};
  now_us = 1000000;
  hearing_failed(&hearing, now_us);
  wait_us = heartbeat_us = 0;
  return 0;
}

static enum hearing_wish ask(void) { return hearing_next(&hearing, &rules, heartbeat_us, now_us, &wait_us); }

static void call_succeeds(bool heartbeats) {
  hearing_sent(&hearing, now_us);
  hearing_succeeded(&hearing, &rules, heartbeats, now_us);
  if (heartbeats) heartbeat_us = now_us;
}

static void test_a_start_probes_and_then_waits_to_settle(void **state) {
  (void)state;
  assert_int_equal(ask(), HEARING_PROBE);
  call_succeeds(false);
  assert_int_equal(ask(), HEARING_WAIT);
  assert_int_equal(wait_us, rules.settle_us);
  now_us += rules.settle_us - 1;
  assert_int_equal(ask(), HEARING_WAIT);
  now_us++;
  assert_int_equal(ask(), HEARING_MARK);
}

static void test_the_first_heartbeat_settles(void **state) {
  (void)state;
  call_succeeds(false);
  now_us += 1000;
  call_succeeds(true);
  assert_int_equal(ask(), HEARING_WAIT);
  assert_int_equal(wait_us, 25000);
  now_us += 25000;
  assert_int_equal(ask(), HEARING_MARK);
}

static void test_a_heartbeat_in_another_partition_settles_too(void **state) {
  (void)state;
  call_succeeds(false);
  heartbeat_us = now_us; /* not after the deaf interval's end: it proves nothing */
  now_us += 30000;
  assert_int_equal(ask(), HEARING_WAIT);
  heartbeat_us = now_us;
  assert_int_equal(ask(), HEARING_MARK);
}

static void test_marks_keep_their_pace(void **state) {
  (void)state;
  call_succeeds(true);
  for (int i = 0; i < 100; i++) {
    now_us += 24999;
    assert_int_equal(ask(), HEARING_WAIT);
    now_us++;
    assert_int_equal(ask(), HEARING_MARK);
    call_succeeds(false);
  }
}

static void test_after_a_failure_it_probes_and_settles_anew(void **state) {
  (void)state;
  call_succeeds(true);
  now_us += 25000;
  hearing_sent(&hearing, now_us);
  hearing_failed(&hearing, now_us);
  assert_int_equal(ask(), HEARING_WAIT);
  assert_int_equal(wait_us, 100000);
  now_us += 100000;
  assert_int_equal(ask(), HEARING_PROBE);
  call_succeeds(false);
  now_us += 1000000;
  assert_int_equal(ask(), HEARING_WAIT);
  call_succeeds(true);
  now_us += 25000;
  assert_int_equal(ask(), HEARING_MARK);
}

static void test_an_answer_that_came_late_was_a_deaf_interval(void **state) {
  (void)state;
  call_succeeds(true);
  now_us += 25000;
  hearing_sent(&hearing, now_us); /* a mark, */
  now_us += 300000;               /* answered after a long while */
  hearing_succeeded(&hearing, &rules, false, now_us);
  now_us += 1000000;
  assert_int_equal(ask(), HEARING_WAIT);
  now_us += 4000000;
  assert_int_equal(ask(), HEARING_MARK);
}

static void test_a_heartbeat_answered_late_goes_on_at_once(void **state) {
  (void)state;
  call_succeeds(true);
  now_us += 300000;
  hearing_succeeded(&hearing, &rules, true, now_us);
  now_us += 25000;
  assert_int_equal(ask(), HEARING_MARK);
}

static void test_a_loop_that_stood_still_was_deaf(void **state) {
  (void)state;
  call_succeeds(true);
  now_us += rules.outage_us;
  assert_int_equal(ask(), HEARING_MARK); /* just in time */
  call_succeeds(false);
  now_us += rules.outage_us + 1;
  assert_int_equal(ask(), HEARING_WAIT);
  now_us += rules.settle_us;
  assert_int_equal(ask(), HEARING_MARK);
  call_succeeds(false);
  now_us += 25000;
  assert_int_equal(ask(), HEARING_MARK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_a_start_probes_and_then_waits_to_settle, set_up),
      cmocka_unit_test_setup(test_the_first_heartbeat_settles, set_up),
      cmocka_unit_test_setup(test_a_heartbeat_in_another_partition_settles_too, set_up),
      cmocka_unit_test_setup(test_marks_keep_their_pace, set_up),
      cmocka_unit_test_setup(test_after_a_failure_it_probes_and_settles_anew, set_up),
      cmocka_unit_test_setup(test_an_answer_that_came_late_was_a_deaf_interval, set_up),
      cmocka_unit_test_setup(test_a_heartbeat_answered_late_goes_on_at_once, set_up),
      cmocka_unit_test_setup(test_a_loop_that_stood_still_was_deaf, set_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
