/* record_heartbeats for several partitions in one call: on every dialect. */
#include "support/test.h"

#include "support/stage.h"

static struct stage stage = {.partitions = 2};

/* What a call with a device in each of two partitions said, section by section. */
struct told {
  enum status call, section[2];
  struct record_outcome outcome[2];
  struct record_reply head[2];
};

static struct told record(const uint32_t partitions[2], const struct record_item items[2]) {
  struct told told = {0};
  struct record_options options = {stage.outage_ms, str_from(stage.listener), stage.backlog_cap};
  struct record_section sections[2] = {{partitions[0], &items[0], 1}, {partitions[1], &items[1], 1}};
  redisReply *reply;
  assert_int_equal(store_record_encode(stage.call, stage.target, &options, sections, 2), STATUS_OK);
  told.call = redis_conn_call(stage.conn, 0, stage.call, &reply);
  for (size_t i = 0; i < 2 && !told.call; i++)
    told.section[i] = store_record_decode(reply, i, 1, &told.head[i], &told.outcome[i]);
  freeReplyObject(reply);
  return told;
}

static const uint32_t BOTH[2] = {0, 1}, TURNED[2] = {1, 0};

static void adopt_second(void) {
  redis_text(&stage.redis, "HSET test:presence:clock:v1:{1} run_id %s ingest_seen %lld paused 0", stage.run_id,
             (long long)STAGE_START_MS);
}

static struct record_item *two(void) {
  static struct record_item items[2];
  items[0] = stage_item(&stage, "d1", 1000);
  items[1] = stage_item(&stage, "d2", 1000);
  return items;
}

#define text(...) redis_text(&stage.redis, __VA_ARGS__)

static void test_each_partition_gets_its_own(void **state) {
  (void)state;
  adopt_second();
  stage_at(&stage, 100);
  struct told opened = record(BOTH, two());
  for (size_t i = 0; i < 2; i++) {
    assert_int_equal(opened.section[i], STATUS_OK);
    assert_int_equal(opened.outcome[i].code, RECORD_OPENED);
    assert_int_equal(opened.outcome[i].online_since_ms, STAGE_START_MS + 100);
  }
  bool expiring = stage.redis.dialect == DIALECT_NATIVE || stage.redis.dialect == DIALECT_HPEXPIRE;
  assert_int_equal(opened.head[0].field_replies[FIELD_SET], expiring ? 2 : 0);
  assert_int_equal(opened.head[1].field_replies[FIELD_SET], 0);
  assert_string_equal(text("HGET test:presence:count:v1:{0} t42"), "1");
  assert_string_equal(text("HGET test:presence:count:v1:{1} t42"), "1");
  assert_int_equal(redis_integer(&stage.redis, "XLEN test:presence:transitions:v1:{1}"), 1);
  assert_string_equal(text("HKEYS test:presence:session:v1:{0}:t42:7"), "d1");
  assert_string_equal(text("HKEYS test:presence:session:v1:{1}:t42:7"), "d2");
  stage_at(&stage, 200);
  struct record_item *items = two();
  items[0].want_detail = false; /* a plain renewal, beside one that is not */
  struct told renewed = record(BOTH, items);
  for (size_t i = 0; i < 2; i++) assert_int_equal(renewed.outcome[i].code, RECORD_RENEWED);
  assert_true(session_id_compare(renewed.outcome[1].session, opened.outcome[1].session) == 0);
  for (uint32_t p = 0; p < 2; p++)
    assert_string_equal(redis_text(&stage.redis, "HGET test:presence:clock:v1:{%u} ingest_seen", p), "1790000000200");
}

static void test_each_partition_has_its_own_clock(void **state) {
  (void)state;
  adopt_second();
  text("HSET test:presence:clock:v1:{1} paused 70");
  stage_at(&stage, 5000); /* nobody listened: both stood still */
  struct told told = record(BOTH, two());
  assert_int_equal(told.head[0].deaf_ms, 5000);
  assert_int_equal(told.head[1].deaf_ms, 5000);
  assert_string_equal(text("HGET test:presence:clock:v1:{0} paused"), "5000");
  assert_string_equal(text("HGET test:presence:clock:v1:{1} paused"), "5070");
  assert_string_equal(text("ZSCORE test:presence:due:v1:{1}:t42:7 d2"), "1790000000930"); /* now + 1000 - 5070 */
}

static void test_one_that_is_not_adopted_is_told_alone(void **state) {
  (void)state;
  struct told told = record(TURNED, two());
  assert_int_equal(told.section[0], STATUS_INITIALISING);
  assert_int_equal(told.section[1], STATUS_OK);
  assert_int_equal(told.outcome[1].code, RECORD_OPENED);
  assert_int_equal(redis_integer(&stage.redis, "EXISTS test:presence:clock:v1:{1}"), 0);
}

/* broken: a key, by a hand from outside. */
static void expect_alone(const char *broken) {
  stage_clear(&stage);
  adopt_second();
  text("SET %s x", broken);
  struct told told = record(TURNED, two());
  assert_int_equal(told.call, STATUS_OK);
  assert_int_equal(told.section[0], STATUS_PROTOCOL);
  assert_int_equal(told.section[1], STATUS_OK);
  assert_int_equal(told.outcome[1].code, RECORD_OPENED);
  assert_string_equal(text("HGET test:presence:count:v1:{0} t42"), "1");
  assert_int_equal(stage_count(&stage, "t42"), 1);
}

static void test_one_with_broken_keys_fails_alone(void **state) {
  (void)state;
  expect_alone("test:presence:tenant:v1:{1}");
  expect_alone("test:presence:transitions:v1:{1}");
  expect_alone("test:presence:count:v1:{1}");
  expect_alone("test:presence:next:v1:{1}");
  expect_alone("test:presence:live:v1:{1}:t42:7");
}

static void test_what_all_meet_is_the_calls_own_error(void **state) {
  (void)state;
  adopt_second();
  text("CONFIG SET maxmemory 1");
  assert_int_equal(record(BOTH, two()).call, STATUS_UNAVAILABLE);
  text("CONFIG SET maxmemory 0");
  assert_int_equal(record(BOTH, two()).call, STATUS_OK);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_each_partition_gets_its_own),           cmocka_unit_test(test_each_partition_has_its_own_clock),
    cmocka_unit_test(test_one_that_is_not_adopted_is_told_alone), cmocka_unit_test(test_one_with_broken_keys_fails_alone),
    cmocka_unit_test(test_what_all_meet_is_the_calls_own_error),
};

STAGE_MAIN(stage, tests)
