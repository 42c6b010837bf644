/* The steps of forgetting a device. */
#include "devices/forget.h"

#include "support/test.h"

static void test_redis(void **state) {
  (void)state;
  struct forget forget = {0};
  assert_int_equal(forget_judge_redis(&forget, &(struct store_device){.state = STORE_NONE}), FORGET_READ_ROW);
  assert_false(forget.has_session);
  assert_int_equal(forget_judge_redis(&forget, &(struct store_device){.state = STORE_CLOSED, .session = {5, 1}}),
                   FORGET_LOOK_AGAIN);
  assert_true(forget.has_session);
  assert_int_equal(forget.session.ms, 5);
  assert_int_equal(forget_judge_redis(&forget, &(struct store_device){.state = STORE_CLOSED, .session = {6, 0}}),
                   FORGET_LOOK_AGAIN);
  assert_int_equal(forget.session.ms, 5); /* the later one is its new life */
  static const enum store_state back[] = {STORE_ONLINE, STORE_UNKNOWN, STORE_OVER};
  for (size_t i = 0; i < LENGTH(back); i++)
    assert_int_equal(forget_judge_redis(&forget, &(struct store_device){.state = back[i]}), FORGET_GONE);
}

static void test_row(void **state) {
  (void)state;
  const struct forget unseen = {0}, seen = {.has_session = true};
  assert_int_equal(forget_judge_row(&unseen, FORGET_DONE), FORGET_GONE);
  assert_int_equal(forget_judge_row(&seen, FORGET_RETURNED), FORGET_GONE);
  assert_int_equal(forget_judge_row(&unseen, FORGET_UNKNOWN), FORGET_NEVER_SEEN);
  assert_int_equal(forget_judge_row(&seen, FORGET_UNKNOWN), FORGET_GONE); /* somebody else was faster */
  assert_int_equal(forget_judge_row(&seen, FORGET_WAITING), FORGET_LOOK_AGAIN);
  assert_int_equal(forget_judge_row(&unseen, FORGET_ONLINE), FORGET_LOOK_AGAIN);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_redis), cmocka_unit_test(test_row)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
