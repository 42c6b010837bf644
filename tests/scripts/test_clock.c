/* The presence clock in the scripts: outages, steps of the server's clock, and who was listening, on every dialect. */
#include "support/test.h"

#include "support/keyspace.h"
#include "support/stage.h"

static struct stage stage;

enum { HOUR = 3600000, DAY = 86400000 };

static struct next_result next_of(void) {
  struct next_result result;
  redisReply *reply;
  assert_int_equal(store_next_encode(stage.call, stage.target, 0, stage.outage_ms, 10), STATUS_OK);
  assert_int_equal(redis_conn_call(stage.conn, 0, stage.call, &reply), STATUS_OK);
  assert_int_equal(store_next_decode(reply, &result), STATUS_OK);
  result.members = NULL;
  freeReplyObject(reply);
  return result;
}

static int64_t paused(void) { return redis_integer(&stage.redis, "HGET test:presence:clock:v1:{0} paused"); }

/* ---- outages */

static void test_outage_then_heard_again(void **state) {
  (void)state;
  struct session_id before = stage_beat(&stage, "d1", 1000).session;
  stage_at(&stage, 60000);
  struct store_device found = stage_look(&stage, "d1");
  assert_int_equal(found.state, STORE_UNKNOWN);
  assert_int_equal(found.last_seen_ms, STAGE_START_MS);
  assert_int_equal(stage_expire(&stage).closed, 0);
  struct record_outcome outcome = stage_beat(&stage, "d1", 1000);
  assert_int_equal(outcome.code, RECORD_RENEWED);
  assert_int_equal(session_id_compare(before, outcome.session), 0);
  assert_int_equal(paused(), 60000);
  found = stage_look(&stage, "d1");
  assert_int_equal(found.state, STORE_ONLINE);
  assert_int_equal(found.last_seen_ms, STAGE_START_MS + 60000);
  stage_listen_until(&stage, 61000);
  assert_int_equal(stage_beat(&stage, "d1", 1000).code, RECORD_RENEWED);
  assert_string_equal(stage_history(&stage), "+d1 s1 at 0 ttl 1000");
  keyspace_check(&stage.redis);
}

static void test_outage_then_silence_ends_after_a_ttl_of_listening(void **state) {
  (void)state;
  stage_beat(&stage, "d1", 1000);
  stage_listen_until(&stage, 600);
  stage_at(&stage, 10600);
  assert_int_equal(stage_mark(&stage), 10000);
  assert_int_equal(stage_look(&stage, "d1").state, STORE_UNKNOWN);
  stage_listen_until(&stage, 11000);
  assert_int_equal(stage_expire(&stage).closed, 0);
  assert_int_equal(stage_look(&stage, "d1").state, STORE_UNKNOWN);
  stage_listen_until(&stage, 11001);
  assert_int_equal(stage_look(&stage, "d1").state, STORE_OVER);
  assert_int_equal(stage_expire(&stage).closed, 1);
  assert_string_equal(stage_history(&stage), "+d1 s1 at 0 ttl 1000\n-d1 s1 timeout seen 0 ended 1000 found 11001");
}

static void test_many_outages_add_up(void **state) {
  (void)state;
  stage_beat(&stage, "d1", 1000);
  for (int i = 0; i < 10; i++) { /* 100 ms of listening, 5 s of none */
    stage_listen_until(&stage, stage.now + 100);
    stage_at(&stage, stage.now + 5000);
    assert_int_equal(stage_mark(&stage), 5000);
    assert_int_equal(stage_expire(&stage).closed, 0);
  }
  assert_int_equal(paused(), 50000);
  stage_listen_until(&stage, stage.now + 1);
  assert_int_equal(stage_expire(&stage).closed, 1);
}

static void test_what_counts_as_an_outage(void **state) {
  (void)state;
  stage_at(&stage, 200);
  assert_int_equal(stage_mark(&stage), 0);
  stage_at(&stage, 401);
  assert_int_equal(stage_mark(&stage), 201);
  stage_at(&stage, 201);
  assert_int_equal(stage_mark(&stage), 0); /* a small step back */
  stage_at(&stage, 0);
  assert_int_equal(stage_mark(&stage), -201);
  assert_int_equal(paused(), 0);
}

static void test_heartbeats_are_marks(void **state) {
  (void)state;
  stage_beat(&stage, "d1", 100);
  for (int64_t ms = 150; ms <= 1500; ms += 150) {
    stage_at(&stage, ms);
    stage_beat(&stage, "d2", 1000);
  }
  assert_int_equal(paused(), 0);
  assert_int_equal(stage_expire(&stage).closed, 1);
}

static void test_live_field_outlived_by_its_score(void **state) {
  (void)state;
  stage_beat(&stage, "d1", 60000);
  stage_at(&stage, 10000);
  stage_mark(&stage); /* P = 10000: the deadline is 70000 on the wall now, the field's expiry still 60000 */
  stage.outage_ms = 100000;
  stage_at(&stage, 65000);
  stage_mark(&stage);
  assert_int_equal(stage_look(&stage, "d1").state, STORE_UNKNOWN);
  assert_int_equal(stage_expire(&stage).closed, 0);
  assert_int_equal(stage_beat(&stage, "d1", 60000).code, RECORD_RENEWED);
}

static void test_heartbeat_in_the_millisecond_of_the_detector(void **state) {
  (void)state;
  stage_beat(&stage, "d1", 1000);
  stage_beat(&stage, "d2", 1000);
  stage_listen_until(&stage, 1001);
  assert_int_equal(stage_beat(&stage, "d1", 1000).code, RECORD_REOPENED);
  assert_int_equal(stage_expire(&stage).closed, 1);
  assert_int_equal(stage_beat(&stage, "d2", 1000).code, RECORD_OPENED);
  assert_string_equal(stage_history(&stage), "+d1 s1 at 0 ttl 1000\n"
                                             "+d2 s2 at 0 ttl 1000\n"
                                             "-d1 s1 timeout seen 0 ended 1000 found 1001\n"
                                             "+d1 s3 at 1001 ttl 1000\n"
                                             "-d2 s2 timeout seen 0 ended 1000 found 1001\n"
                                             "+d2 s4 at 1001 ttl 1000");
}

/* ---- steps of the server's clock */

static void step(int64_t by) {
  struct session_id before = stage_beat(&stage, "d1", 1000).session;
  stage_beat(&stage, "d2", 1000);
  stage_listen_until(&stage, 500);
  stage_at(&stage, 500 + by); /* nobody has noticed yet */
  struct store_device found = stage_look(&stage, "d1");
  assert_int_equal(found.state, by > 0 ? STORE_UNKNOWN : STORE_ONLINE);
  assert_int_equal(stage_expire(&stage).closed, 0);
  assert_int_equal(stage_mark(&stage), by);
  assert_int_equal(stage_look(&stage, "d1").state, STORE_UNKNOWN);
  assert_int_equal(stage_expire(&stage).closed, 0);
  assert_int_equal(next_of().presence_ms, STAGE_START_MS + 500);

  struct record_outcome outcome = stage_beat(&stage, "d1", 1000);
  assert_int_equal(outcome.code, RECORD_RENEWED);
  assert_int_equal(session_id_compare(before, outcome.session), 0);
  assert_int_equal(stage_look(&stage, "d1").state, STORE_ONLINE);
  keyspace_check(&stage.redis);

  stage_listen_until(&stage, 1000 + by);
  assert_int_equal(stage_expire(&stage).closed, 0);
  stage_listen_until(&stage, 1001 + by);
  assert_int_equal(stage_expire(&stage).closed, 1); /* d2: a ttl of listening after its last heartbeat, on the clock of then */
  stage_listen_until(&stage, 1501 + by);
  assert_int_equal(stage_expire(&stage).closed, 1);
  assert_string_equal(stage_history(&stage),
                      text_format("+d1 s1 at 0 ttl 1000\n"
                                  "+d2 s2 at 0 ttl 1000\n"
                                  "-d2 s2 timeout seen 0 ended 1000 found %lld\n"
                                  "-d1 s1 timeout seen %lld ended %lld found %lld",
                                  (long long)(1001 + by), (long long)(500 + by), (long long)(1500 + by), (long long)(1501 + by)));
  keyspace_check(&stage.redis);
}

static void test_step_an_hour_ahead(void **state) {
  (void)state;
  step(HOUR);
}
static void test_step_an_hour_back(void **state) {
  (void)state;
  step(-HOUR);
}
static void test_step_a_day_ahead(void **state) {
  (void)state;
  step(DAY);
}
static void test_step_a_day_back(void **state) {
  (void)state;
  step(-DAY);
}

/* After a step back a live field stands longer than its score: it does not count. */
static void test_live_field_after_a_step_back(void **state) {
  (void)state;
  stage_beat(&stage, "d1", 1000);
  stage_beat(&stage, "d2", 1000);
  stage_at(&stage, -HOUR);
  stage_mark(&stage);
  stage_listen_until(&stage, -HOUR + 1001);
  assert_string_not_equal(redis_text(&stage.redis, "HGET test:presence:live:v1:{0}:t42:7 d1"), "(nil)");
  assert_int_equal(stage_look(&stage, "d1").state, STORE_OVER);
  assert_int_equal(stage_beat(&stage, "d1", 1000).code, RECORD_REOPENED);
  assert_int_equal(stage_expire(&stage).closed, 1);
  assert_string_equal(redis_text(&stage.redis, "HGET test:presence:live:v1:{0}:t42:7 d2"), "(nil)");
  keyspace_check(&stage.redis);
}

static void test_sessions_grow_over_a_step_back(void **state) {
  (void)state;
  struct session_id before = stage_beat(&stage, "d1", 1000).session;
  stage_at(&stage, -DAY);
  struct record_outcome outcome = stage_beat(&stage, "d2", 1000);
  assert_int_equal(outcome.code, RECORD_OPENED);
  assert_true(session_id_compare(before, outcome.session) < 0);
  assert_int_equal(outcome.online_since_ms, STAGE_START_MS - DAY);
  assert_int_equal(stage_look(&stage, "d2").online_since_ms, STAGE_START_MS - DAY);
  assert_string_equal(redis_text(&stage.redis, "HGET test:presence:live:v1:{0}:t42:7 d2"), "mubbs7i8-1+-86400000,1000,-86400000");
  assert_int_equal(stage_beat(&stage, "d2", 1000).code, RECORD_RENEWED);
  keyspace_check(&stage.redis);
}

/* ---- who was listening */

static void test_nothing_is_over_beyond_the_last_mark(void **state) {
  (void)state;
  stage_beat(&stage, "d1", 100);
  stage_at(&stage, 150); /* no mark since 0 */
  assert_int_equal(stage_look(&stage, "d1").state, STORE_OVER);
  assert_int_equal(stage_expire(&stage).closed, 0);
  assert_int_equal(next_of().cutoff_ms, STAGE_START_MS);
  stage_mark(&stage);
  assert_int_equal(next_of().cutoff_ms, STAGE_START_MS + 150);
  assert_int_equal(stage_expire(&stage).closed, 1);
}

static void both_listen_until(int64_t ms) {
  while (stage.now < ms) {
    stage_at(&stage, stage.now + 100);
    stage_mark_as(&stage, "a");
    stage_mark_as(&stage, "b");
  }
}

static void test_one_of_two_listeners_dies(void **state) {
  (void)state;
  stage.listener = "b";
  assert_int_equal(redis_integer(&stage.redis, "HDEL test:presence:clock:v1:{0} l:loop"), 1);
  stage_beat(&stage, "d1", 1000);
  both_listen_until(500); /* a is gone after that */
  stage_listen_until(&stage, 5500);
  struct expire_result result = stage_expire(&stage);
  assert_int_equal(result.closed, 0);
  assert_int_equal(result.listeners, 2);
  assert_int_equal(result.listeners_dropped, 0);
  assert_int_equal(result.cutoff_ms, STAGE_START_MS + 500);
  stage_listen_until(&stage, 5501);
  result = stage_expire(&stage);
  assert_int_equal(result.listeners, 1);
  assert_int_equal(result.listeners_dropped, 1);
  assert_int_equal(result.cutoff_ms, STAGE_START_MS + 5501);
  assert_int_equal(result.closed, 1);
  result = stage_expire(&stage);
  assert_int_equal(result.listeners_dropped, 0); /* said once */
  stage_mark_as(&stage, "a");                    /* it was only slow */
  assert_int_equal(stage_expire(&stage).listeners, 2);
}

static void test_device_moves_from_the_dead_listener_to_the_other(void **state) {
  (void)state;
  stage.listener = "b";
  both_listen_until(500);
  stage.listener = "a";
  stage_beat(&stage, "d1", 1000);
  stage.listener = "b";
  stage_listen_until(&stage, 1500);
  assert_int_equal(stage_beat(&stage, "d1", 1000).code, RECORD_RENEWED);
  for (int64_t ms = 1600; ms < 8000; ms += 100) {
    stage_at(&stage, ms);
    stage_beat(&stage, "d1", 1000);
    assert_int_equal(stage_expire(&stage).closed, 0);
  }
  assert_string_equal(stage_history(&stage), "+d1 s1 at 500 ttl 1000");
}

static void test_a_listener_that_stops_in_order(void **state) {
  (void)state;
  stage_mark_as(&stage, "a");
  stage_beat(&stage, "d1", 1000);
  assert_int_equal(store_unlisten_encode(stage.call, stage.target, 0, STR_LIT("a")), STATUS_OK);
  redisReply *reply;
  assert_int_equal(redis_conn_call(stage.conn, 0, stage.call, &reply), STATUS_OK);
  freeReplyObject(reply);
  stage_listen_until(&stage, 1001);
  struct expire_result result = stage_expire(&stage);
  assert_int_equal(result.listeners, 1);
  assert_int_equal(result.listeners_dropped, 0);
  assert_int_equal(result.closed, 1);
}

static void test_listeners_over_steps_and_outages(void **state) {
  (void)state;
  static const int64_t gaps[] = {HOUR, -HOUR, DAY, -DAY, 60000, -1000};
  for (size_t i = 0; i < LENGTH(gaps); i++) {
    both_listen_until(stage.now + 500);
    stage_at(&stage, stage.now + gaps[i]);
    stage_mark_as(&stage, "a"); /* b comes back four seconds of listening later */
    struct expire_result result = stage_expire(&stage);
    assert_int_equal(result.listeners, i == 0 ? 3 : 2); /* of them the stage's own, silent since 0 and soon dropped */
    assert_int_equal(result.listeners_dropped, 0);
    stage.listener = "a";
    stage_listen_until(&stage, stage.now + 4000);
    int64_t dropped = stage_expire(&stage).listeners_dropped;
    assert_int_equal(dropped, 0);
    both_listen_until(stage.now + 1000);
    result = stage_expire(&stage);
    assert_int_equal(result.listeners, 2);
    assert_int_equal(result.listeners_dropped, i == 0 ? 1 : 0);
    assert_int_equal(result.cutoff_ms, result.presence_ms);
  }
}

static void test_no_listener_at_all(void **state) {
  (void)state;
  stage_beat(&stage, "d1", 100);
  stage.listener = "";
  stage_at(&stage, 150);
  stage_mark(&stage);
  assert_int_equal(redis_integer(&stage.redis, "HDEL test:presence:clock:v1:{0} l:loop"), 1);
  stage_at(&stage, 180);
  struct expire_result result = stage_expire(&stage);
  assert_int_equal(result.listeners, 0);
  assert_int_equal(result.cutoff_ms, STAGE_START_MS + 150);
  assert_int_equal(result.closed, 1);
  stage_at(&stage, -HOUR);
  assert_int_equal(stage_expire(&stage).cutoff_ms, STAGE_START_MS - HOUR);
  stage_at(&stage, HOUR);
  assert_int_equal(stage_expire(&stage).cutoff_ms, STAGE_START_MS + 150);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_outage_then_heard_again),
    cmocka_unit_test(test_outage_then_silence_ends_after_a_ttl_of_listening),
    cmocka_unit_test(test_many_outages_add_up),
    cmocka_unit_test(test_what_counts_as_an_outage),
    cmocka_unit_test(test_heartbeats_are_marks),
    cmocka_unit_test(test_live_field_outlived_by_its_score),
    cmocka_unit_test(test_heartbeat_in_the_millisecond_of_the_detector),
    cmocka_unit_test(test_step_an_hour_ahead),
    cmocka_unit_test(test_step_an_hour_back),
    cmocka_unit_test(test_step_a_day_ahead),
    cmocka_unit_test(test_step_a_day_back),
    cmocka_unit_test(test_live_field_after_a_step_back),
    cmocka_unit_test(test_sessions_grow_over_a_step_back),
    cmocka_unit_test(test_nothing_is_over_beyond_the_last_mark),
    cmocka_unit_test(test_one_of_two_listeners_dies),
    cmocka_unit_test(test_device_moves_from_the_dead_listener_to_the_other),
    cmocka_unit_test(test_a_listener_that_stops_in_order),
    cmocka_unit_test(test_listeners_over_steps_and_outages),
    cmocka_unit_test(test_no_listener_at_all),
};

STAGE_MAIN(stage, tests)
