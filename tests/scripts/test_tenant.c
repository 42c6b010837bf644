/* A tenant taken out of a partition, keys walked and measured: on every dialect. */
#include "support/test.h"

#include "support/keyspace.h"
#include "support/stage.h"

#include <stdlib.h>
#include <string.h>

static struct stage stage;

static redisReply *send(enum status encoded) {
  redisReply *reply = NULL;
  assert_int_equal(encoded, STATUS_OK);
  if (redis_conn_call(stage.conn, 0, stage.call, &reply)) fail_msg("%s", redis_conn_error(stage.conn));
  return reply;
}

static enum status empty_or(const uint32_t *buckets, size_t count, bool last, struct empty_result *result) {
  *result = (struct empty_result){0};
  redisReply *reply = send(store_empty_encode(stage.call, stage.target, 0, stage.outage_ms, &stage.tenant, buckets, count, last));
  enum status status = store_empty_decode(reply, result);
  freeReplyObject(reply);
  return status;
}

static struct empty_result empty(const uint32_t *buckets, size_t count, bool last) {
  struct empty_result result;
  assert_int_equal(empty_or(buckets, count, last, &result), STATUS_OK);
  return result;
}

static int64_t keys_of(const char *tenant) {
  return redis_integer(&stage.redis, "EVAL %s 0 %s", "return #redis.call('KEYS', ARGV[1])",
                       text_format("test:presence:*:v1:{*}:%s:*", tenant));
}

static void test_open_sessions_end_and_keys_go(void **state) {
  (void)state;
  const uint32_t buckets[] = {7, 8};
  struct record_item item = stage_item(&stage, "d1", 60000);
  item.meta_action = META_SET;
  item.meta = STR_LIT("{}");
  (void)stage_try_record(&stage, &item);
  stage_beat(&stage, "over", 500);
  stage_listen_until(&stage, 1000);
  stage.tenant.generation = 2; /* of the deletion */
  struct empty_result result = empty(buckets, 2, true);
  assert_int_equal(result.emptied, 2);
  assert_int_equal(result.closed, 2);
  assert_int_equal(result.backlog, 4);
  assert_int_equal(keys_of("t42"), 0);
  assert_int_equal(redis_integer(&stage.redis, "ZCARD test:presence:next:v1:{0}"), 0);
  assert_string_equal(redis_text(&stage.redis, "HGET test:presence:count:v1:{0} t42"), "(nil)");
  assert_string_equal(redis_text(&stage.redis, "HGET test:presence:tenant:v1:{0} t42"), "2:32");
  const char *history = stage_history(&stage);
  assert_non_null(strstr(history, "-d1 s1 disconnect seen 0 ended 1000 found 1000 meta {}"));
  assert_non_null(strstr(history, "-over s2 timeout seen 0 ended 500 found 1000"));
  assert_int_equal(stage_publish(&stage, 1000), 4);
  result = empty(buckets, 2, true); /* once more */
  assert_int_equal(result.closed, 0);
  assert_int_equal(result.backlog, 0);
  assert_int_equal(session_id_compare(result.newest, SESSION_ID_NONE), 0);
}

static void test_nobody_else_writes_from_the_first_step_on(void **state) {
  (void)state;
  stage_beat(&stage, "d1", 60000);
  stage.tenant.generation = 2;
  assert_int_equal(empty(NULL, 0, false).emptied, 0);
  stage.tenant.generation = 1;
  assert_int_equal(stage_beat(&stage, "d1", 60000).code, RECORD_STALE);
  assert_int_equal(stage_beat(&stage, "d2", 60000).code, RECORD_STALE);
  assert_int_equal(stage_disconnect(&stage, "d1", NULL), DISCONNECT_STALE);
  struct empty_result result;
  assert_int_equal(empty_or(NULL, 0, false, &result), STATUS_STALE); /* made again meanwhile: not ours to empty */
  assert_int_equal(stage_count(&stage, "t42"), 1);
  stage.tenant.generation = 3; /* made again */
  assert_int_equal(stage_beat(&stage, "d2", 60000).code, RECORD_OPENED);
}

static void test_a_large_bucket_takes_several_steps(void **state) {
  (void)state;
  const uint32_t buckets[] = {7};
  for (int i = 0; i < 250; i++) stage_beat(&stage, text_format("d%d", i), 60000);
  stage.tenant.generation = 2;
  int64_t closed = 0;
  int steps = 0;
  for (struct empty_result result = {0}; result.emptied == 0; steps++) {
    result = empty(buckets, 1, false);
    assert_in_range(result.closed, 0, 100);
    closed += result.closed;
    if (result.emptied == 0) keyspace_check(&stage.redis);
  }
  assert_int_equal(closed, 250);
  assert_in_range(steps, 3, 4);
  assert_int_equal(keys_of("t42"), 0);
  assert_int_equal(stage_count(&stage, "t42"), 0);
}

static void test_other_tenants_stay(void **state) {
  (void)state;
  const uint32_t buckets[] = {7};
  stage_beat(&stage, "d1", 60000);
  struct store_tenant mine = stage.tenant;
  stage.tenant = (struct store_tenant){STR_LIT("t42-b"), 1, 32};
  stage_beat(&stage, "d1", 60000);
  stage.tenant = mine;
  stage.tenant.generation = 2;
  assert_int_equal(empty(buckets, 1, true).closed, 1);
  assert_int_equal(stage_count(&stage, "t42-b"), 1);
  keyspace_check(&stage.redis);
}

static int64_t walk(enum bucket_key only, struct str tenant) {
  uint64_t cursor = 0;
  int64_t seen = 0;
  do {
    const redisReply *keys = NULL;
    redisReply *reply = send(store_scan_encode(stage.call, stage.target, 0, cursor, only, tenant, 10));
    assert_int_equal(store_scan_decode(reply, &cursor, &keys), STATUS_OK);
    for (size_t i = 0; i < keys->elements; i++) {
      struct str of;
      uint32_t partition, bucket;
      struct str key = {keys->element[i]->str, keys->element[i]->len};
      assert_int_equal(keys_parse_bucket(STR_LIT("test"), key, &partition, &of, &bucket), STATUS_OK);
      assert_int_equal(partition, 0);
      if (tenant.len > 0) assert_true(str_equal(of, tenant));
      seen++;
    }
    freeReplyObject(reply);
  } while (cursor != 0);
  return seen;
}

static void test_keys_are_walked(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 30; i++) {
    stage.bucket = i;
    stage_beat(&stage, "d", 60000);
  }
  stage.tenant = (struct store_tenant){STR_LIT("other"), 1, 32};
  stage_beat(&stage, "d", 60000);
  assert_in_range(walk(BUCKET_SESSION, STR_NONE), 31, 62);
  assert_in_range(walk(BUCKET_KEY_COUNT, STR_LIT("t42")), 90, 180);
  assert_int_equal(walk(BUCKET_META, STR_NONE), 0);
  assert_int_equal(walk(BUCKET_KEY_COUNT, STR_LIT("nobody")), 0);
}

static void test_buckets_are_measured(void **state) {
  (void)state;
  for (int i = 0; i < 600; i++) stage_beat(&stage, text_format("d%d", i), 60000);
  stage.bucket = 8;
  stage_beat(&stage, "d", 60000);
  struct measured_bucket buckets[] = {
      {.tenant = STR_LIT("t42"), .bucket = 7}, {.tenant = STR_LIT("t42"), .bucket = 8}, {.tenant = STR_LIT("t42"), .bucket = 9}};
  redisReply *reply = send(store_measure_encode(stage.call, stage.target, 0, buckets, LENGTH(buckets)));
  assert_int_equal(store_measure_decode(reply, buckets, LENGTH(buckets)), STATUS_OK);
  freeReplyObject(reply);
  assert_int_equal(buckets[0].fields, 600);
  assert_in_range(buckets[0].bytes, 60000, 1200000);
  assert_true(buckets[0].large);
  assert_int_equal(buckets[1].fields, 1);
  assert_in_range(buckets[1].bytes, 100, 2000);
  assert_false(buckets[1].large);
  assert_int_equal(buckets[2].fields, 0);
  assert_int_equal(buckets[2].bytes, 0);
}

static void test_limits_of_a_call(void **state) {
  (void)state;
  uint32_t buckets[STORE_EMPTY_BUCKETS_MAX + 1] = {0};
  struct measured_bucket measured[STORE_MEASURE_MAX + 1] = {{.bucket = 0}};
  assert_int_equal(store_empty_encode(stage.call, stage.target, 0, 200, &stage.tenant, buckets, LENGTH(buckets), false),
                   STATUS_TOO_LARGE);
  assert_int_equal(store_measure_encode(stage.call, stage.target, 0, measured, LENGTH(measured)), STATUS_TOO_LARGE);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_open_sessions_end_and_keys_go),
    cmocka_unit_test(test_nobody_else_writes_from_the_first_step_on),
    cmocka_unit_test(test_a_large_bucket_takes_several_steps),
    cmocka_unit_test(test_other_tenants_stay),
    cmocka_unit_test(test_keys_are_walked),
    cmocka_unit_test(test_buckets_are_measured),
    cmocka_unit_test(test_limits_of_a_call),
};

STAGE_MAIN(stage, tests)
