#include "support/unit.h"

#include "metrics.h"
#include "worker/online_gauge.h"

#define STRING(text) ((redisReply){.type = REDIS_REPLY_STRING, .str = (text), .len = sizeof(text) - 1})

static double shown(const char *tenant) { return metric_value(metrics_series(METRIC_ONLINE, tenant)); }

static void add(struct online_gauge *gauge, enum status expected, redisReply *elements, size_t count) {
  redisReply *pointers[8];
  for (size_t i = 0; i < count; i++) pointers[i] = &elements[i];
  redisReply reply = {.type = REDIS_REPLY_ARRAY, .elements = count, .element = pointers};
  assert_status(expected, online_gauge_add(gauge, &reply));
}

static void sums_over_partitions_and_forgets_who_is_gone(void **state) {
  (void)state;
  struct online_gauge gauge = {0};
  redisReply first[] = {STRING("b"), STRING("3"), STRING("a-b"), STRING("1")};
  redisReply second[] = {STRING("a"), {.type = REDIS_REPLY_INTEGER, .integer = 7}, STRING("b"), STRING("2")};
  online_gauge_begin(&gauge);
  add(&gauge, STATUS_OK, first, 4);
  add(&gauge, STATUS_OK, second, 4);
  assert_true(shown("b") == 0.0); /* not before all have answered */
  online_gauge_commit(&gauge);
  assert_true(shown("a") == 7.0);
  assert_true(shown("a-b") == 1.0);
  assert_true(shown("b") == 5.0);

  online_gauge_begin(&gauge);
  add(&gauge, STATUS_OK, first, 2);
  online_gauge_commit(&gauge);
  assert_true(shown("a") == 0.0);
  assert_true(shown("a-b") == 0.0);
  assert_true(shown("b") == 3.0);
  online_gauge_free(&gauge);
}

static void many_tenants(void **state) {
  (void)state;
  struct online_gauge gauge = {0};
  for (int round = 0; round < 2; round++) {
    online_gauge_begin(&gauge);
    for (int i = 999; i >= 0; i--) {
      char tenant[16];
      int length = snprintf(tenant, sizeof tenant, "t%d", i);
      redisReply pair[] = {{.type = REDIS_REPLY_STRING, .str = tenant, .len = (size_t)length},
                           {.type = REDIS_REPLY_INTEGER, .integer = i}};
      add(&gauge, STATUS_OK, pair, 2);
    }
    online_gauge_commit(&gauge);
  }
  assert_int_equal(gauge.count, 1000);
  assert_true(shown("t999") == 999.0);
  online_gauge_free(&gauge);
}

static void refuses_what_is_no_list_of_counts(void **state) {
  (void)state;
  struct online_gauge gauge = {0};
  redisReply odd[] = {STRING("a")}, bad_tenant[] = {STRING("A B"), STRING("1")};
  redisReply number[] = {{.type = REDIS_REPLY_INTEGER, .integer = 1}, STRING("1")};
  redisReply string = STRING("a");
  online_gauge_begin(&gauge);
  add(&gauge, STATUS_PROTOCOL, odd, 1);
  add(&gauge, STATUS_PROTOCOL, bad_tenant, 2);
  add(&gauge, STATUS_PROTOCOL, number, 2);
  assert_status(STATUS_PROTOCOL, online_gauge_add(&gauge, &string));
  online_gauge_free(&gauge);
}

static int set_up(void **state) {
  (void)state;
  return metrics_init() == STATUS_OK ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  metrics_free();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(sums_over_partitions_and_forgets_who_is_gone),
      cmocka_unit_test(many_tenants),
      cmocka_unit_test(refuses_what_is_no_list_of_counts),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
