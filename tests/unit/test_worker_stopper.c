#include "support/unit.h"

#include <pthread.h>

#include "clock.h"
#include "worker/stopper.h"

static int64_t now_ms(void) { return clock_monotonic_ms(clock_system()); }

static void waits_as_long_as_it_is_told(void **state) {
  (void)state;
  struct stopper stopper;
  assert_status(STATUS_OK, stopper_init(&stopper));
  int64_t began_ms = now_ms();
  assert_false(stopper_wait(&stopper, 30000));
  assert_true(now_ms() - began_ms >= 29);
  assert_false(stopper_wait(&stopper, 0));
  stopper_destroy(&stopper);
}

static void *wait_long(void *context) { return stopper_wait(context, INT64_C(3600000000)) ? context : NULL; }

static void a_stop_ends_a_wait_at_once(void **state) {
  (void)state;
  struct stopper stopper;
  pthread_t thread;
  void *result;
  assert_status(STATUS_OK, stopper_init(&stopper));
  assert_int_equal(0, pthread_create(&thread, NULL, wait_long, &stopper));
  assert_false(stopper_wait(&stopper, 1000)); /* with luck the other one waits by now; both orders must do */
  stopper_stop(&stopper);
  assert_int_equal(0, pthread_join(thread, &result));
  assert_ptr_equal(result, &stopper);
  assert_true(stopper_wait(&stopper, INT64_C(3600000000))); /* and every later one */
  stopper_destroy(&stopper);
}

static void *leave(void *context) {
  struct stopper *stopper = context;
  bool stopping = stopper_wait(stopper, INT64_C(3600000000));
  stopper_leave(stopper);
  return stopping ? context : NULL;
}

static void waits_for_all_that_entered(void **state) {
  (void)state;
  struct stopper stopper;
  pthread_t threads[3];
  assert_status(STATUS_OK, stopper_init(&stopper));
  assert_true(stopper_wait_left(&stopper, 0));
  for (size_t i = 0; i < 3; i++) {
    stopper_enter(&stopper);
    assert_int_equal(0, pthread_create(&threads[i], NULL, leave, &stopper));
  }
  assert_false(stopper_wait_left(&stopper, 10000));
  stopper_stop(&stopper);
  assert_true(stopper_wait_left(&stopper, INT64_C(3600000000)));
  for (size_t i = 0; i < 3; i++) pthread_join(threads[i], NULL);
  stopper_destroy(&stopper);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(waits_as_long_as_it_is_told),
      cmocka_unit_test(a_stop_ends_a_wait_at_once),
      cmocka_unit_test(waits_for_all_that_entered),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
