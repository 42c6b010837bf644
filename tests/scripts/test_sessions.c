/* A session's life in the scripts, to the millisecond, on every dialect. */
#include "support/test.h"

#include "support/keyspace.h"
#include "support/stage.h"

#include <string.h>

static struct stage stage;

static void test_opens_renews_and_times_out(void **state) {
  (void)state;
  assert_int_equal(stage_beat(&stage, "d1", 1000).code, RECORD_OPENED);
  stage_at(&stage, 100);
  assert_int_equal(stage_beat(&stage, "d1", 1000).code, RECORD_RENEWED);
  for (int64_t ms = 200; ms <= 1100; ms += 100) {
    stage_at(&stage, ms);
    stage_mark(&stage);
    assert_int_equal(stage_expire(&stage).closed, 0);
    assert_int_equal(stage_look(&stage, "d1").state, STORE_ONLINE);
  }
  keyspace_check(&stage.redis);
  stage_at(&stage, 1101);
  stage_mark(&stage);
  assert_int_equal(stage_look(&stage, "d1").state, STORE_OVER);
  assert_int_equal(stage_expire(&stage).closed, 1);
  assert_int_equal(stage_look(&stage, "d1").state, STORE_CLOSED);
  assert_string_equal(stage_history(&stage), "+d1 s1 at 0 ttl 1000\n-d1 s1 timeout seen 100 ended 1100 found 1101");
  assert_int_equal(stage_publish(&stage, 10), 2);
  assert_int_equal(stage_look(&stage, "d1").state, STORE_NONE);
  keyspace_check(&stage.redis);
}

static int clear(void **state) {
  (void)state;
  stage_clear(&stage);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_opens_renews_and_times_out, clear),
  };
  int failed = 0;
  for (int dialect = 0; dialect < DIALECT_COUNT; dialect++) {
    if (!dialect_is_here((enum dialect)dialect)) continue;
    stage_open(&stage, (enum dialect)dialect);
    failed += cmocka_run_group_tests_name(dialect_name((enum dialect)dialect), tests, NULL, NULL);
    stage_close(&stage);
  }
  return failed;
}
