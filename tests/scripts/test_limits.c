/* Tenants, limits, and keys in a state that should not be: on every dialect. */
#include "support/test.h"

#include "support/keyspace.h"
#include "support/stage.h"

static struct stage stage;

static void assert_meta(const char *device, const char *expected) {
  struct str meta = stage_look(&stage, device).meta;
  assert_string_equal(text_format("%.*s", STR_ARG(meta)), expected);
}

/* ---- tenants and limits */

static void test_same_device_in_two_tenants(void **state) {
  (void)state;
  struct store_tenant ab = {STR_LIT("a-b"), 1, 32}, a = {STR_LIT("a"), 1, 32};
  struct record_item items[2] = {stage_item(&stage, "c", 1000), stage_item(&stage, "b-c", 1000)};
  struct record_outcome outcomes[2];
  items[0].tenant = ab;
  items[1].tenant = a;
  stage_record_all(&stage, items, 2, outcomes);
  assert_int_equal(outcomes[0].code, RECORD_OPENED);
  assert_int_equal(outcomes[1].code, RECORD_OPENED);
  assert_true(session_id_compare(outcomes[0].session, outcomes[1].session) < 0);
  stage.tenant = ab;
  assert_int_equal(stage_disconnect(&stage, "c", NULL), DISCONNECT_CLOSED);
  assert_int_equal(stage_look(&stage, "c").state, STORE_CLOSED);
  assert_int_equal(stage_look(&stage, "b-c").state, STORE_NONE);
  stage.tenant = a;
  assert_int_equal(stage_look(&stage, "b-c").state, STORE_ONLINE);
  assert_int_equal(stage_look(&stage, "c").state, STORE_NONE);
  assert_int_equal(stage_count(&stage, "a"), 1);
  assert_int_equal(stage_count(&stage, "a-b"), 0);
  assert_int_equal(stage_count(&stage, "b"), 0);
  keyspace_check(&stage.redis);
}

static void test_older_generation_is_refused(void **state) {
  (void)state;
  stage_beat(&stage, "d1", 1000);
  stage.tenant.generation = 2;
  stage.tenant.buckets = 64;
  assert_int_equal(stage_beat(&stage, "d2", 1000).code, RECORD_OPENED);
  stage.tenant.generation = 1;
  stage.tenant.buckets = 32;
  assert_int_equal(stage_beat(&stage, "d1", 1000).code, RECORD_STALE);
  assert_int_equal(stage_beat(&stage, "d3", 1000).code, RECORD_STALE);
  assert_int_equal(stage_disconnect(&stage, "d1", NULL), DISCONNECT_STALE);
  (void)stage_look(&stage, "d1");
  assert_int_equal(stage.status, STATUS_STALE);
  assert_int_equal(stage_count(&stage, "t42"), 2);

  struct record_item items[3] = {stage_item(&stage, "d1", 1000), stage_item(&stage, "x", 1000), stage_item(&stage, "d2", 1000)};
  struct record_outcome outcomes[3];
  items[1].tenant = (struct store_tenant){STR_LIT("t43"), 1, 1};
  items[1].bucket = 0;
  items[1].meta_action = META_SET;
  items[1].meta = STR_LIT("{}");
  items[2].meta_action = META_SET;
  items[2].meta = STR_LIT("{}");
  stage_record_all(&stage, items, 3, outcomes);
  assert_int_equal(outcomes[0].code, RECORD_STALE);
  assert_int_equal(outcomes[1].code, RECORD_OPENED); /* others in the batch are served */
  assert_int_equal(outcomes[2].code, RECORD_STALE);
  stage.tenant.generation = 2;
  stage.tenant.buckets = 64;
  assert_meta("d2", "");
}

static void test_opening_switched_off(void **state) {
  (void)state;
  struct record_item item = stage_item(&stage, "d1", 1000);
  item.may_open = false;
  item.meta_action = META_SET;
  item.meta = STR_LIT("{}");
  assert_int_equal(stage_try_record(&stage, &item).code, RECORD_NOT_OPENED);
  assert_int_equal(stage_look(&stage, "d1").state, STORE_NONE);
  assert_int_equal(redis_integer(&stage.redis, "EXISTS test:presence:meta:v1:{0}:t42:7"), 0);
  stage_beat(&stage, "d1", 1000);
  assert_int_equal(stage_try_record(&stage, &item).code, RECORD_RENEWED);
  stage_listen_until(&stage, 1001);
  assert_int_equal(stage_try_record(&stage, &item).code, RECORD_NOT_OPENED);
  assert_string_equal(stage_history(&stage), "+d1 s1 at 0 ttl 1000\n-d1 s1 timeout seen 0 ended 1000 found 1001 meta {}");
  keyspace_check(&stage.redis);
}

static void test_backlog(void **state) {
  (void)state;
  stage.backlog_cap = 2;
  assert_int_equal(stage_beat(&stage, "d1", 1000).code, RECORD_OPENED);
  assert_int_equal(stage_beat(&stage, "d2", 1000).code, RECORD_OPENED);
  assert_int_equal(stage_beat(&stage, "d3", 1000).code, RECORD_BACKLOG);
  assert_int_equal(stage_beat(&stage, "d1", 1000).code, RECORD_RENEWED);
  assert_int_equal(stage_disconnect(&stage, "d2", NULL), DISCONNECT_CLOSED); /* closes go on */
  stage_listen_until(&stage, 1001);
  assert_int_equal(stage_beat(&stage, "d1", 1000).code, RECORD_BACKLOG); /* it was over: closed, not opened */
  assert_int_equal(stage_count(&stage, "t42"), 0);
  assert_int_equal(stage_publish(&stage, 100), 4);
  assert_int_equal(stage_beat(&stage, "d3", 1000).code, RECORD_OPENED);
  keyspace_check(&stage.redis);
}

static void test_full_batch(void **state) {
  (void)state;
  static struct record_item items[STORE_ITEMS_MAX];
  static struct record_outcome outcomes[STORE_ITEMS_MAX];
  for (size_t i = 0; i < STORE_ITEMS_MAX; i++) {
    items[i] = stage_item(&stage, text_format("d%zu", i), 1000);
    items[i].bucket = (uint32_t)(i * 7 % 100);
    items[i].want_detail = i % 3 == 0;
    items[i].meta_action = i % 2 == 0 ? META_SET : META_KEEP;
    items[i].meta = i % 2 == 0 ? str_from(text_format("{\"n\":%zu}", i)) : STR_NONE;
  }
  stage_record_all(&stage, items, STORE_ITEMS_MAX, outcomes);
  for (size_t i = 0; i < STORE_ITEMS_MAX; i++) {
    assert_int_equal(outcomes[i].code, RECORD_OPENED);
    assert_int_equal(outcomes[i].session.ms, items[i].want_detail ? STAGE_START_MS : 0);
  }
  stage_record_all(&stage, items, STORE_ITEMS_MAX, outcomes);
  for (size_t i = 0; i < STORE_ITEMS_MAX; i++) assert_int_equal(outcomes[i].code, RECORD_RENEWED);
  assert_int_equal(stage_count(&stage, "t42"), STORE_ITEMS_MAX);
  for (size_t i = 0; i < STORE_ITEMS_MAX; i += 17) {
    stage.bucket = items[i].bucket;
    assert_meta(text_format("d%zu", i), i % 2 == 0 ? text_format("{\"n\":%zu}", i) : "");
  }
  keyspace_check(&stage.redis);
}

/* ---- what should not be, but may be there */

static void test_orphans(void **state) {
  (void)state;
  stage_beat(&stage, "d1", 1000);
  stage_beat(&stage, "d2", 1000);
  redis_text(&stage.redis, "HDEL test:presence:session:v1:{0}:t42:7 d1");
  stage_listen_until(&stage, 1001);
  struct expire_result result = stage_expire(&stage);
  assert_int_equal(result.closed, 1);
  assert_int_equal(result.orphans, 1);
  assert_int_equal(redis_integer(&stage.redis, "EXISTS test:presence:due:v1:{0}:t42:7"), 0);
  /* HLEN may count a field that has expired and not been cleared away yet. */
  assert_string_equal(redis_text(&stage.redis, "HGETALL test:presence:live:v1:{0}:t42:7"), "");
}

static void test_facts_without_a_score_are_in_doubt(void **state) {
  (void)state;
  stage_beat(&stage, "d1", 1000);
  redis_text(&stage.redis, "ZREM test:presence:due:v1:{0}:t42:7 d1");
  redis_text(&stage.redis, "HDEL test:presence:live:v1:{0}:t42:7 d1");
  stage_listen_until(&stage, 5000);
  struct store_device found = stage_look(&stage, "d1");
  assert_int_equal(found.state, STORE_UNKNOWN);
  assert_int_equal(found.last_seen_ms, TIME_MS_LOST);
  assert_int_equal(stage_beat(&stage, "d1", 1000).code, RECORD_RENEWED);
  keyspace_check(&stage.redis);
}

static void test_lost_facts_come_back_from_the_live_field(void **state) {
  (void)state;
  struct session_id mine = stage_beat(&stage, "d1", 1000).session;
  redis_text(&stage.redis, "HDEL test:presence:session:v1:{0}:t42:7 d1");
  struct record_outcome renewed = stage_beat(&stage, "d1", 2000); /* another ttl: the facts are needed */
  assert_int_equal(renewed.code, RECORD_RENEWED);
  assert_int_equal(session_id_compare(mine, renewed.session), 0);
  keyspace_check(&stage.redis);
}

/* By hand, or by an older release: such values are as good as none, and fail no batch. */
static void test_values_that_nobody_can_read(void **state) {
  (void)state;
  stage_beat(&stage, "d1", 1000);
  stage_beat(&stage, "d2", 1000);
  stage_disconnect(&stage, "d3", NULL);
  for (int i = 1; i <= 2; i++) redis_text(&stage.redis, "HSET test:presence:session:v1:{0}:t42:7 d%d nonsense", i);
  redis_text(&stage.redis, "HDEL test:presence:live:v1:{0}:t42:7 d1 d2");
  redis_text(&stage.redis, "HSET test:presence:closed:v1:{0} t42/d3 nonsense");
  assert_int_equal(stage_look(&stage, "d1").state, STORE_NONE);
  assert_int_equal(stage_look(&stage, "d3").state, STORE_NONE);
  assert_int_equal(stage_disconnect(&stage, "d1", NULL), DISCONNECT_NOTHING_OPEN);
  assert_int_equal(stage_beat(&stage, "d1", 2000).code, RECORD_OPENED);
  stage_listen_until(&stage, 1001);
  assert_int_equal(stage_expire(&stage).orphans, 1);
  assert_int_equal(redis_integer(&stage.redis, "HLEN test:presence:session:v1:{0}:t42:7"), 1);
}

static void test_count_is_never_negative(void **state) {
  (void)state;
  stage_beat(&stage, "d1", 1000);
  redis_text(&stage.redis, "HSET test:presence:count:v1:{0} t42 0");
  assert_int_equal(stage_disconnect(&stage, "d1", NULL), DISCONNECT_CLOSED);
  assert_int_equal(stage_count(&stage, "t42"), 0);
  assert_string_equal(redis_text(&stage.redis, "HGET test:presence:count:v1:{0} t42"), "0");
}

static void test_expire_in_parts(void **state) {
  (void)state;
  for (int i = 0; i < 10; i++) {
    stage_beat(&stage, text_format("d%d", i), 1000);
  }
  stage_listen_until(&stage, 1001);
  struct expire_result result = stage_expire_some(&stage, 4);
  assert_int_equal(result.closed, 4);
  assert_true(result.more);
  result = stage_expire_some(&stage, 4);
  assert_int_equal(result.closed, 4);
  assert_true(result.more);
  result = stage_expire_some(&stage, 4);
  assert_int_equal(result.closed, 2);
  assert_false(result.more);
  keyspace_check(&stage.redis);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_same_device_in_two_tenants),
    cmocka_unit_test(test_older_generation_is_refused),
    cmocka_unit_test(test_opening_switched_off),
    cmocka_unit_test(test_backlog),
    cmocka_unit_test(test_full_batch),
    cmocka_unit_test(test_orphans),
    cmocka_unit_test(test_facts_without_a_score_are_in_doubt),
    cmocka_unit_test(test_lost_facts_come_back_from_the_live_field),
    cmocka_unit_test(test_values_that_nobody_can_read),
    cmocka_unit_test(test_count_is_never_negative),
    cmocka_unit_test(test_expire_in_parts),
};

STAGE_MAIN(stage, tests)
