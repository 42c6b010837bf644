/* The order of a recalibration's calls, its sums, and what it does with answers that should not be. */
#include "support/unit.h"

#include "counts.h"
#include "metrics.h"
#include "support/alloc_fail.h"

#include <stdlib.h>

#define PARTITIONS 4

static struct redis_target *target;
static struct redis_call *call;

static int start(void **state) {
  (void)state;
  char env[] = "test", url[] = "unix:///nowhere", *error = NULL;
  struct config config = {.env = env, .redis_url = url, .partitions = PARTITIONS};
  if (metrics_init() != STATUS_OK) return -1;
  return redis_target_new(&config, &target, &error) == STATUS_OK && redis_call_new(&call) == STATUS_OK ? 0 : -1;
}

static int end(void **state) {
  (void)state;
  redis_call_free(call);
  redis_target_free(target);
  metrics_free();
  return 0;
}

/* text: a reply as it comes over the wire. */
static enum status take(struct recalibration *work, const char *text) {
  redisReader *reader = redisReaderCreate();
  void *reply = NULL;
  assert_non_null(reader);
  assert_int_equal(redisReaderFeed(reader, text, strlen(text)), REDIS_OK);
  assert_int_equal(redisReaderGetReply(reader, &reply), REDIS_OK);
  assert_non_null(reply);
  enum status status = recalibration_take(work, reply);
  freeReplyObject(reply);
  redisReaderFree(reader);
  return status;
}

#define COMPARED(buckets, kinds) "*8\r\n$2\r\nok\r\n:" buckets "\r\n$5\r\nfacts\r\n$1\r\n0\r\n" kinds
#define NOTHING ":0\r\n:0\r\n:0\r\n:0\r\n"
#define COUNTED(count, open) "*3\r\n$2\r\nok\r\n:" count "\r\n:" open "\r\n"

static void begin(struct recalibration *work, uint32_t buckets) {
  struct store_tenant tenant = {.id = STR_LIT("t42"), .generation = 1, .buckets = buckets};
  recalibration_begin(work, target, &tenant, 0, PARTITIONS, 200, DRIFT_REPAIR);
}

/* The partition that one bucket lies in has a walk, then its count; the others only their count. */
static void each_partition_is_walked_then_counted(void **state) {
  (void)state;
  struct recalibration work;
  begin(&work, 1);
  uint32_t walked = placement_partition(STR_LIT("t42"), 0, PARTITIONS);
  for (uint32_t p = 0; p < PARTITIONS; p++) {
    assert_false(work.end);
    assert_int_equal(work.partition, p);
    assert_status(STATUS_OK, recalibration_encode(&work, call));
    if (p == walked) {
      assert_status(STATUS_OK, take(&work, COMPARED("0", ":1\r\n:2\r\n:3\r\n:4\r\n"))); /* stopped in the bucket's midst */
      assert_status(STATUS_OK, recalibration_encode(&work, call));
      assert_status(STATUS_OK, take(&work, COMPARED("1", ":10\r\n:0\r\n:0\r\n:0\r\n")));
      assert_int_equal(work.partition, p);
      assert_status(STATUS_OK, recalibration_encode(&work, call));
    }
    assert_status(STATUS_OK, take(&work, p == walked ? COUNTED("3", "5") : COUNTED("1", "0")));
  }
  assert_true(work.end);
  assert_int_equal(work.before, 6);
  assert_int_equal(work.after, 5);
  assert_int_equal(work.found[FINDING_COUNT], 5); /* 2 too few here, 1 too many in three others */
  assert_int_equal(work.found[FINDING_FACTS_LOST], 11);
  assert_int_equal(work.found[FINDING_ORPHAN], 2);
  assert_int_equal(work.found[FINDING_DUE_LOST], 3);
  assert_int_equal(work.found[FINDING_NEXT_LATE], 4);
  recalibration_report(&work);
  assert_true(metric_value(metrics_series(METRIC_AUDIT_FINDINGS, "facts_lost")) == 11.0);
  assert_true(metric_value(metrics_series(METRIC_AUDIT_FINDINGS, "count")) == 1.0);
}

static void nothing_found_is_not_reported(void **state) {
  (void)state;
  struct recalibration work;
  double before = metric_value(metrics_series(METRIC_AUDIT_FINDINGS, "orphan"));
  begin(&work, PARTITIONS);
  while (!work.end) {
    assert_status(STATUS_OK, take(&work, COMPARED("1", NOTHING)));
    assert_status(STATUS_OK, take(&work, COUNTED("7", "7")));
  }
  recalibration_report(&work);
  assert_int_equal(work.before, 7 * PARTITIONS);
  assert_true(metric_value(metrics_series(METRIC_AUDIT_FINDINGS, "orphan")) == before);
}

static void answers_that_should_not_be(void **state) {
  (void)state;
  static const char *const answers[] = {
      "+OK\r\n",
      "*0\r\n",
      COUNTED("7", "7"),
      COMPARED("2", NOTHING),
      COMPARED("-1", NOTHING),
      "*8\r\n$2\r\nok\r\n:1\r\n$5\r\nfacts\r\n$1\r\nx\r\n" NOTHING,
      "*8\r\n$2\r\nok\r\n:1\r\n$5\r\nfacts\r\n$20\r\n18446744073709551616\r\n" NOTHING,
      "*8\r\n$2\r\nok\r\n:1\r\n$5\r\nfacts\r\n$0\r\n\r\n" NOTHING,
  };
  struct recalibration work;
  begin(&work, PARTITIONS);
  for (size_t i = 0; i < sizeof answers / sizeof answers[0]; i++) {
    assert_status(STATUS_PROTOCOL, take(&work, answers[i]));
    assert_int_equal(work.partition, 0);
    assert_int_equal(work.cursor.buckets_done, 0);
  }
  assert_status(STATUS_STALE, take(&work, "*1\r\n$5\r\nstale\r\n"));
  assert_status(STATUS_OK, take(&work, COMPARED("1", NOTHING)));
  assert_status(STATUS_PROTOCOL, take(&work, COMPARED("1", NOTHING)));
  assert_status(STATUS_STALE, take(&work, "*1\r\n$5\r\nstale\r\n"));
  assert_int_equal(work.partition, 0);
}

static void more_buckets_than_one_script_may_read(void **state) {
  (void)state;
  struct recalibration work;
  begin(&work, (STORE_BUCKETS_MAX + 1) * PARTITIONS);
  assert_status(STATUS_OK, recalibration_encode(&work, call));
  work.cursor.end = true;
  assert_status(STATUS_TOO_LARGE, recalibration_encode(&work, call));
}

static void each_kind_has_a_name(void **state) {
  (void)state;
  for (enum finding f = 0; f < FINDING_KIND_COUNT; f++) {
    assert_non_null(finding_kind(f));
    assert_true(strlen(finding_meaning(f)) > 10);
  }
}

/* ---- the worker's part, when memory is short */

static enum status make_recalibrator(const struct partition_set *held) {
  struct recalibrator *recalibrator;
  struct recalibrator_options options = {
      .target = target, .clock = clock_system(), .held = held, .postgres_url = "", .outage_ms = 200, .interval_ms = 1000};
  enum status status = recalibrator_new(&options, &recalibrator);
  assert_int_equal(recalibrator == NULL, status != STATUS_OK);
  recalibrator_free(recalibrator);
  return status;
}

/* One allocation after the other fails; the metrics alone do without. */
static void memory_runs_out(void **state) {
  (void)state;
  struct partition_set held = {0};
  int refused = 0;
  bool failed = true;
  assert_status(STATUS_OK, partition_set_init(&held, PARTITIONS));
  for (long nth = 1; failed; nth++) {
    alloc_fail_at(nth);
    enum status status = make_recalibrator(&held);
    failed = alloc_failed();
    alloc_fail_at(0);
    assert_true(status == STATUS_OK || (status == STATUS_NO_MEMORY && failed));
    refused += status != STATUS_OK;
  }
  assert_true(refused > 3);
  partition_set_free(&held);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_partition_is_walked_then_counted),
      cmocka_unit_test(nothing_found_is_not_reported),
      cmocka_unit_test(answers_that_should_not_be),
      cmocka_unit_test(more_buckets_than_one_script_may_read),
      cmocka_unit_test(each_kind_has_a_name),
      cmocka_unit_test(memory_runs_out),
  };
  return cmocka_run_group_tests_name("recalibration", tests, start, end);
}
