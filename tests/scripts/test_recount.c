/* Drift between count, facts, due and next is found and repaired: on every dialect. */
#include "support/test.h"

#include "support/keyspace.h"
#include "support/stage.h"

static struct stage stage;

static redisReply *send(enum status encoded) {
  redisReply *reply = NULL;
  assert_int_equal(encoded, STATUS_OK);
  stage.status = redis_conn_call(stage.conn, 0, stage.call, &reply);
  if (stage.status) fail_msg("%s", redis_conn_error(stage.conn));
  return reply;
}

static struct recount_result recount_or(enum drift_action action) {
  struct recount_result result = {-1, -1};
  redisReply *reply = send(store_recount_encode(stage.call, stage.target, 0, &stage.tenant, action));
  stage.status = store_recount_decode(reply, &result);
  freeReplyObject(reply);
  return result;
}

static struct recount_result recount(void) { return recount_or(DRIFT_REPAIR); }

/* The whole walk. *steps: how many calls it took. */
static struct compare_found compare_or(enum drift_action action, int *steps) {
  struct compare_cursor cursor = {0};
  struct compare_found found = {0};
  for (*steps = 0; !cursor.end && !stage.status; (*steps)++) {
    redisReply *reply = send(store_compare_encode(stage.call, stage.target, 0, stage.outage_ms, &stage.tenant, &cursor, action));
    stage.status = store_compare_decode(reply, stage.target, 0, &stage.tenant, &cursor, &found);
    freeReplyObject(reply);
  }
  return found;
}

static struct compare_found compare(void) {
  int steps;
  struct compare_found found = compare_or(DRIFT_REPAIR, &steps);
  assert_int_equal(stage.status, STATUS_OK);
  return found;
}

static void assert_found(struct compare_found found, int64_t facts_lost, int64_t orphans, int64_t due_lost, int64_t next_late) {
  assert_int_equal(found.facts_lost, facts_lost);
  assert_int_equal(found.orphans, orphans);
  assert_int_equal(found.due_lost, due_lost);
  assert_int_equal(found.next_late, next_late);
}

static bool fields_expire(void) { return stage.redis.dialect <= DIALECT_HPEXPIRE; }

static void beat_many(int count, bool spread) {
  for (int i = 0; i < count; i++) {
    if (spread) stage.bucket = (uint32_t)i % stage.tenant.buckets;
    stage_beat(&stage, text_format("d%d", i), 60000);
  }
}

static void test_nothing_is_wrong(void **state) {
  (void)state;
  struct recount_result none = recount();
  assert_int_equal(none.count, 0);
  assert_int_equal(none.open_sessions, 0);
  assert_string_equal(redis_text(&stage.redis, "HGET test:presence:count:v1:{0} t42"), "(nil)");
  beat_many(40, true);
  assert_int_equal(recount().open_sessions, 40);
  assert_found(compare(), 0, 0, 0, 0);
  keyspace_check(&stage.redis);
}

static void test_a_count_changed_by_hand(void **state) {
  (void)state;
  beat_many(40, true);
  redis_text(&stage.redis, "HINCRBY test:presence:count:v1:{0} t42 7");
  struct recount_result result = recount_or(DRIFT_REPORT);
  assert_int_equal(result.count, 47);
  assert_int_equal(result.open_sessions, 40);
  assert_int_equal(stage_count(&stage, "t42"), 47);
  assert_int_equal(recount().count, 47);
  assert_int_equal(stage_count(&stage, "t42"), 40);
  assert_string_equal(redis_text(&stage.redis, "HGET test:presence:recount:v1:{0} t42"), "1790000000000,7");
  redis_text(&stage.redis, "HSET test:presence:count:v1:{0} t42 -3");
  assert_int_equal(recount().count, -3);
  assert_string_equal(redis_text(&stage.redis, "HGET test:presence:recount:v1:{0} t42"), "1790000000000,-43");
  redis_text(&stage.redis, "HSET test:presence:count:v1:{0} t42 nonsense");
  assert_int_equal(recount().open_sessions, 40);
  redis_text(&stage.redis, "HDEL test:presence:count:v1:{0} t42");
  assert_int_equal(recount().count, 0);
  assert_int_equal(stage_count(&stage, "t42"), 40);
  keyspace_check(&stage.redis);
}

static void test_settings_of_an_older_generation_count_nothing(void **state) {
  (void)state;
  beat_many(3, false);
  redis_text(&stage.redis, "HSET test:presence:tenant:v1:{0} t42 2:1");
  (void)recount();
  assert_int_equal(stage.status, STATUS_STALE);
  stage.status = STATUS_OK;
  int steps;
  (void)compare_or(DRIFT_REPAIR, &steps);
  assert_int_equal(stage.status, STATUS_STALE);
  assert_int_equal(steps, 1);
  assert_int_equal(stage_count(&stage, "t42"), 3);
}

static void test_facts_come_back_from_the_live_field(void **state) {
  (void)state;
  struct session_id mine = stage_beat(&stage, "d1", 60000).session;
  stage_beat(&stage, "d2", 60000);
  redis_text(&stage.redis, "HDEL test:presence:session:v1:{0}:t42:7 d1");
  stage_beat(&stage, "d1", 60000); /* a renewal that does not look at the facts */
  int steps;
  assert_found(compare_or(DRIFT_REPORT, &steps), 1, 0, 0, 0);
  assert_found(compare(), 1, 0, 0, 0);
  struct recount_result result = recount();
  assert_int_equal(result.count, 2);
  assert_int_equal(result.open_sessions, 2);
  assert_int_equal(session_id_compare(stage_look(&stage, "d1").session, mine), 0);
  keyspace_check(&stage.redis);
}

static void test_facts_that_nobody_can_read(void **state) {
  (void)state;
  struct session_id mine = stage_beat(&stage, "d1", 60000).session;
  stage_beat(&stage, "d2", 60000);
  redis_text(&stage.redis, "HSET test:presence:session:v1:{0}:t42:7 d1 garbage d2 garbage d3 garbage");
  redis_text(&stage.redis, "HDEL test:presence:live:v1:{0}:t42:7 d2");
  assert_found(compare(), 1, 2, 0, 0);
  assert_int_equal(session_id_compare(stage_look(&stage, "d1").session, mine), 0);
  assert_int_equal(recount().open_sessions, 1);
  keyspace_check(&stage.redis);
}

static void test_a_due_member_without_anything_is_removed(void **state) {
  (void)state;
  stage_beat(&stage, "d1", 60000);
  redis_text(&stage.redis, "ZADD test:presence:due:v1:{0}:t42:7 1790000070000 ghost");
  redis_text(&stage.redis, "HSET test:presence:meta:v1:{0}:t42:7 ghost {}");
  int steps;
  assert_found(compare_or(DRIFT_REPORT, &steps), 0, 1, 0, 0);
  assert_int_equal(redis_integer(&stage.redis, "ZCARD test:presence:due:v1:{0}:t42:7"), 2);
  assert_found(compare(), 0, 1, 0, 0);
  assert_found(compare(), 0, 0, 0, 0);
  keyspace_check(&stage.redis);
}

/* P1: the deadline is the live field's, to the millisecond. */
static void test_a_lost_deadline_is_that_of_the_live_field(void **state) {
  (void)state;
  stage_beat(&stage, "d1", 1000);
  stage_listen_until(&stage, 600);
  redis_text(&stage.redis, "ZREM test:presence:due:v1:{0}:t42:7 d1");
  redis_text(&stage.redis, "ZREM test:presence:next:v1:{0} t42:7");
  assert_found(compare(), 0, 0, 1, 0);
  keyspace_check(&stage.redis);
  if (!fields_expire()) return;
  stage_listen_until(&stage, 1000);
  assert_int_equal(stage_expire(&stage).closed, 0);
  stage_listen_until(&stage, 1001);
  assert_int_equal(stage_expire(&stage).closed, 1);
  assert_string_equal(stage_history(&stage), "+d1 s1 at 0 ttl 1000\n-d1 s1 timeout seen 0 ended 1000 found 1001");
}

/* P1: nobody knows how much of the ttl has passed, so it begins anew, and last_seen is not made up. */
static void test_a_lost_deadline_without_a_live_field_is_a_whole_ttl_away(void **state) {
  (void)state;
  stage_beat(&stage, "d1", 1000);
  stage_listen_until(&stage, 900);
  redis_text(&stage.redis, "ZREM test:presence:due:v1:{0}:t42:7 d1");
  redis_text(&stage.redis, "HDEL test:presence:live:v1:{0}:t42:7 d1");
  stage_at(&stage, 10000); /* deaf: the presence clock stands at 900 */
  assert_found(compare(), 0, 0, 1, 0);
  stage_mark(&stage);
  assert_int_equal(stage_look(&stage, "d1").state, STORE_UNKNOWN);
  assert_int_equal(stage_look(&stage, "d1").last_seen_ms, TIME_MS_LOST);
  keyspace_check(&stage.redis);
  stage_listen_until(&stage, 11000);
  assert_int_equal(stage_expire(&stage).closed, 0);
  stage_listen_until(&stage, 11001);
  assert_int_equal(stage_expire(&stage).closed, 1);
  assert_string_equal(stage_history(&stage), "+d1 s1 at 0 ttl 1000\n-d1 s1 timeout seen lost ended 1900 found 11001");
}

static void test_a_session_goes_on_after_its_deadline_was_repaired(void **state) {
  (void)state;
  struct session_id mine = stage_beat(&stage, "d1", 1000).session;
  redis_text(&stage.redis, "ZREM test:presence:due:v1:{0}:t42:7 d1");
  redis_text(&stage.redis, "HDEL test:presence:live:v1:{0}:t42:7 d1");
  assert_found(compare(), 0, 0, 1, 0);
  stage_listen_until(&stage, 500);
  struct record_outcome renewed = stage_beat(&stage, "d1", 1000);
  assert_int_equal(renewed.code, RECORD_RENEWED);
  assert_int_equal(session_id_compare(mine, renewed.session), 0);
  assert_int_equal(stage_look(&stage, "d1").last_seen_ms, STAGE_START_MS + 500);
  assert_found(compare(), 0, 0, 0, 0);
  keyspace_check(&stage.redis);
}

static void test_a_bucket_that_nobody_would_look_at(void **state) {
  (void)state;
  stage_beat(&stage, "d1", 1000);
  redis_text(&stage.redis, "ZREM test:presence:next:v1:{0} t42:7");
  assert_found(compare(), 0, 0, 0, 1);
  redis_text(&stage.redis, "ZADD test:presence:next:v1:{0} 1790000009000 t42:7");
  assert_found(compare(), 0, 0, 0, 1);
  keyspace_check(&stage.redis);
}

/* More than one page, more than one call; all kinds in one bucket. */
static void test_a_large_bucket_is_walked_in_steps(void **state) {
  (void)state;
  beat_many(1500, false);
  for (int i = 0; i < 300; i++) {
    redis_text(&stage.redis, "ZADD test:presence:due:v1:{0}:t42:7 1790000070000 ghost%d", i);
    redis_text(&stage.redis, "ZREM test:presence:due:v1:{0}:t42:7 d%d", i);
    redis_text(&stage.redis, "HDEL test:presence:session:v1:{0}:t42:7 d%d", 300 + i);
  }
  int steps;
  assert_found(compare_or(DRIFT_REPORT, &steps), 300, 300, 300, 0);
  assert_in_range(steps, 5, 20);
  struct compare_found found = compare();
  assert_int_equal(found.facts_lost, 300);
  assert_int_equal(found.orphans, 300);
  assert_int_equal(found.due_lost, 300);
  assert_found(compare(), 0, 0, 0, 0);
  assert_int_equal(recount().open_sessions, 1500);
  keyspace_check(&stage.redis);
}

static void test_too_many_buckets(void **state) {
  (void)state;
  stage.tenant.buckets = STORE_BUCKETS_MAX;
  assert_int_equal(recount().open_sessions, 0);
  stage.tenant.buckets++;
  assert_int_equal(store_recount_encode(stage.call, stage.target, 0, &stage.tenant, DRIFT_REPAIR), STATUS_TOO_LARGE);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_nothing_is_wrong),
    cmocka_unit_test(test_a_count_changed_by_hand),
    cmocka_unit_test(test_settings_of_an_older_generation_count_nothing),
    cmocka_unit_test(test_facts_come_back_from_the_live_field),
    cmocka_unit_test(test_facts_that_nobody_can_read),
    cmocka_unit_test(test_a_due_member_without_anything_is_removed),
    cmocka_unit_test(test_a_lost_deadline_is_that_of_the_live_field),
    cmocka_unit_test(test_a_lost_deadline_without_a_live_field_is_a_whole_ttl_away),
    cmocka_unit_test(test_a_session_goes_on_after_its_deadline_was_repaired),
    cmocka_unit_test(test_a_bucket_that_nobody_would_look_at),
    cmocka_unit_test(test_a_large_bucket_is_walked_in_steps),
    cmocka_unit_test(test_too_many_buckets),
};

STAGE_MAIN(stage, tests)
