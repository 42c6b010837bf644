/* The token bucket: rate, burst, refusals that cost nothing, many tenants, many threads. */
#include "rate_limit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "support/test.h"

static struct rate_limiter *limiter;
enum { SECOND_US = 1000000 };

static int set_up(void **state) {
  (void)state;
  return rate_limiter_new(&limiter) == STATUS_OK ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  rate_limiter_free(limiter);
  return 0;
}

static unsigned take(const char *tenant, int64_t per_second, int64_t count, int64_t now_us) {
  return rate_limiter_take(limiter, str_from(tenant), per_second, count, now_us);
}

static void test_the_burst_is_a_thousand_at_least(void **state) {
  (void)state;
  for (int i = 0; i < 1000; i++) assert_int_equal(take("t", 10, 1, SECOND_US), 0);
  assert_int_equal(take("t", 10, 1, SECOND_US), 1);
  assert_int_equal(take("t", 10, 1, SECOND_US + 99999), 1);
  assert_int_equal(take("t", 10, 1, SECOND_US + 100000), 0);
  assert_int_equal(take("t", 10, 1, SECOND_US + 100000), 1);
  assert_int_equal(take("t", 10, 1000, 101 * SECOND_US), 1); /* 1000 tokens take 100 s after the last one */
  assert_int_equal(take("t", 10, 1000, 102 * SECOND_US), 0);
}

static void test_the_burst_is_a_second_of_a_higher_rate(void **state) {
  (void)state;
  for (int i = 0; i < 5; i++) assert_int_equal(take("t", 5000, 1000, SECOND_US), 0);
  assert_int_equal(take("t", 5000, 1, SECOND_US), 1);
  for (int i = 0; i < 5; i++) assert_int_equal(take("t", 5000, 1000, 2 * SECOND_US), 0);
  assert_int_equal(take("t", 5000, 1, 2 * SECOND_US), 1);
}

static void test_a_refusal_says_when_and_takes_nothing(void **state) {
  (void)state;
  assert_int_equal(take("t", 100, 900, SECOND_US), 0);
  assert_int_equal(take("t", 100, 1000, SECOND_US), 9);
  assert_int_equal(take("t", 100, 1000, SECOND_US), 9);
  assert_int_equal(take("t", 100, 100, SECOND_US), 0);
  assert_int_equal(take("t", 100, 1000, 11 * SECOND_US), 0);
}

static void test_no_limit(void **state) {
  (void)state;
  for (int i = 0; i < 10; i++) assert_int_equal(take("t", 0, 1000000, SECOND_US), 0);
}

static void test_tenants_have_buckets_of_their_own(void **state) {
  (void)state;
  char name[32];
  for (int i = 0; i < 5000; i++) { /* all busy at once: most must find a bucket of their own */
    snprintf(name, sizeof name, "t%d", i);
    assert_int_equal(take(name, 10, 1000, SECOND_US), 0);
    assert_true(take(name, 10, 1, SECOND_US) > 0);
  }
  for (int i = 0; i < 100000; i++) { /* one after the other, each full again before the next: any number */
    snprintf(name, sizeof name, "u%d", i);
    assert_int_equal(take(name, 1000, 1000, (1000 + (int64_t)i) * SECOND_US), 0);
  }
}

static atomic_int taken;

static void *take_many(void *context) {
  (void)context;
  for (int i = 0; i < 5000; i++)
    if (take("shared", 10, 1, SECOND_US) == 0) atomic_fetch_add(&taken, 1);
  return NULL;
}

static void test_threads_share_a_bucket(void **state) {
  (void)state;
  pthread_t threads[4];
  atomic_store(&taken, 0);
  for (size_t i = 0; i < LENGTH(threads); i++) assert_int_equal(pthread_create(&threads[i], NULL, take_many, NULL), 0);
  for (size_t i = 0; i < LENGTH(threads); i++) assert_int_equal(pthread_join(threads[i], NULL), 0);
  assert_int_equal(atomic_load(&taken), 1000);
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(test_the_burst_is_a_thousand_at_least),      TEST(test_the_burst_is_a_second_of_a_higher_rate),
      TEST(test_a_refusal_says_when_and_takes_nothing), TEST(test_no_limit),
      TEST(test_tenants_have_buckets_of_their_own),     TEST(test_threads_share_a_bucket),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
