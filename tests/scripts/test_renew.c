/* renew_heartbeats beside record_heartbeats: what it does, what it leaves, and what of it survives the server; on every dialect.
 */
#include "support/test.h"

#include "support/stage.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct stage stage = {.partitions = 2};

#define text(...) redis_text(&stage.redis, __VA_ARGS__)

static bool fields_expire(void) { return stage.redis.dialect == DIALECT_NATIVE || stage.redis.dialect == DIALECT_HPEXPIRE; }

/* In ms after the start; of the field where it has one. */
static int64_t deadline_of(const char *device) {
  if (!fields_expire()) return redis_integer(&stage.redis, "ZSCORE test:presence:due:v1:{0}:t42:7 %s", device) - STAGE_START_MS;
  redisReply *reply = redis_command(&stage.redis, "HPEXPIRETIME test:presence:live:v1:{0}:t42:7 FIELDS 1 %s", device);
  int64_t deadline = reply->element[0]->integer - STAGE_START_MS;
  freeReplyObject(reply);
  return deadline;
}

static void test_renews_a_session(void **state) {
  (void)state;
  struct session_id session = stage_beat(&stage, "d1", 1000).session;
  stage_at(&stage, 150);
  assert_int_equal(stage_renew(&stage, "d1", 1000), RECORD_RENEWED);
  struct store_device found = stage_look(&stage, "d1");
  assert_int_equal(found.state, STORE_ONLINE);
  assert_int_equal(found.last_seen_ms, STAGE_START_MS + 150);
  assert_true(session_id_compare(found.session, session) == 0);
  assert_int_equal(deadline_of("d1"), 1150);
  stage_listen_until(&stage, 1150);
  assert_int_equal(stage_expire(&stage).closed, 0);
  stage_listen_until(&stage, 1152);
  assert_int_equal(stage_expire(&stage).closed, 1);
  assert_string_equal(stage_history(&stage), "+d1 s1 at 0 ttl 1000\n-d1 s1 timeout seen 150 ended 1150 found 1152");
}

static void test_some_of_a_call_are_renewed(void **state) {
  (void)state;
  (void)stage_beat(&stage, "d1", 1000);
  (void)stage_beat(&stage, "d3", 2000);
  stage_at(&stage, 100);
  struct record_item items[4] = {stage_item(&stage, "d1", 1000), stage_item(&stage, "d2", 1000), stage_item(&stage, "d3", 2000),
                                 stage_item(&stage, "d4", 2000)};
  struct record_outcome outcomes[4];
  stage_renew_all(&stage, items, 4, outcomes);
  static const enum record_code expected[] = {RECORD_RENEWED, RECORD_LEFT, RECORD_RENEWED, RECORD_LEFT};
  for (size_t i = 0; i < 4; i++) assert_int_equal(outcomes[i].code, expected[i]);
  assert_int_equal(deadline_of("d1"), 1100);
  assert_int_equal(deadline_of("d3"), 2100);
  assert_int_equal(stage_count(&stage, "t42"), 2);
}

/* ---- What it leaves is as it was */

static void expect_left(const char *device, int64_t ttl_ms) {
  struct store_device before = stage_look(&stage, device);
  const char *score = text("ZSCORE test:presence:due:v1:{0}:t42:7 %s", device);
  size_t entries = (size_t)redis_integer(&stage.redis, "XLEN test:presence:transitions:v1:{0}");
  assert_int_equal(stage_renew(&stage, device, ttl_ms), RECORD_LEFT);
  struct store_device after = stage_look(&stage, device);
  assert_int_equal(after.state, before.state);
  assert_int_equal(after.last_seen_ms, before.last_seen_ms);
  assert_int_equal(after.ttl_ms, before.ttl_ms);
  assert_string_equal(text("ZSCORE test:presence:due:v1:{0}:t42:7 %s", device), score);
  assert_int_equal(redis_integer(&stage.redis, "XLEN test:presence:transitions:v1:{0}"), entries);
}

static void test_opens_nothing(void **state) {
  (void)state;
  expect_left("d1", 1000);
  assert_int_equal(stage_count(&stage, "t42"), 0);
}

static void test_leaves_a_changed_ttl(void **state) {
  (void)state;
  (void)stage_beat(&stage, "d1", 1000);
  stage_at(&stage, 150);
  expect_left("d1", 300);
  assert_int_equal(deadline_of("d1"), 1000);
  expect_left("d1", 5000);
  assert_int_equal(deadline_of("d1"), 1000);
  assert_int_equal(stage_beat(&stage, "d1", 5000).code, RECORD_RENEWED);
  assert_int_equal(deadline_of("d1"), 5150);
}

static void test_leaves_a_session_that_is_over(void **state) {
  (void)state;
  (void)stage_beat(&stage, "d1", 1000);
  stage_listen_until(&stage, 1001);
  expect_left("d1", 1000);
  assert_int_equal(stage_beat(&stage, "d1", 1000).code, RECORD_REOPENED);
}

static void test_leaves_who_comes_after_an_outage(void **state) {
  (void)state;
  (void)stage_beat(&stage, "d1", 60000);
  stage_at(&stage, 5000);
  assert_int_equal(stage_renew(&stage, "d1", 60000), RECORD_LEFT);
  assert_string_equal(text("HGET test:presence:clock:v1:{0} paused"), "5000"); /* all the same it was heard */
  expect_left("d1", 60000);
  assert_int_equal(stage_beat(&stage, "d1", 60000).code, RECORD_RENEWED);
  stage_at(&stage, 5100);
  assert_int_equal(stage_renew(&stage, "d1", 60000), RECORD_RENEWED);
}

static void test_leaves_those_of_older_settings(void **state) {
  (void)state;
  (void)stage_beat(&stage, "d1", 1000);
  text("HSET test:presence:tenant:v1:{0} t42 2:32");
  expect_left("d1", 1000);
  assert_string_equal(text("HGET test:presence:tenant:v1:{0} t42"), "2:32");
  stage.tenant.generation = 3;
  assert_int_equal(stage_renew(&stage, "d1", 1000), RECORD_RENEWED);
  assert_string_equal(text("HGET test:presence:tenant:v1:{0} t42"), "3:32");
}

/* ---- The mark */

static int64_t ingest_seen(void) {
  return redis_integer(&stage.redis, "HGET test:presence:clock:v1:{0} ingest_seen") - STAGE_START_MS;
}

static void test_a_mark_stands_for_5_ms(void **state) {
  (void)state;
  (void)stage_beat(&stage, "d1", 1000);
  stage_at(&stage, 4);
  (void)stage_renew(&stage, "d1", 1000);
  assert_int_equal(ingest_seen(), 0);
  stage.listener = "another";
  (void)stage_renew(&stage, "d1", 1000); /* it has none yet */
  assert_int_equal(ingest_seen(), 4);
  stage.listener = "loop";
  stage_at(&stage, 5);
  (void)stage_renew(&stage, "d1", 1000);
  assert_int_equal(ingest_seen(), 5);
  assert_string_equal(text("HMGET test:presence:clock:v1:{0} l:loop l:another"), "1790000000005 1790000000004");
  stage_at(&stage, 3); /* a small step back */
  (void)stage_renew(&stage, "d1", 1000);
  assert_int_equal(ingest_seen(), 3);
}

/* ---- What survives */

/* The same server under another run_id, without a moment between: its live view may be older than the score. */
static void test_an_adoption_makes_the_score_decide(void **state) {
  (void)state;
  struct session_id session = stage_beat(&stage, "d1", 1000).session;
  text("HSET test:presence:clock:v1:{0} run_id 0123456789abcdef0123456789abcdef01234567");
  assert_true(stage_adopt(&stage, SESSION_ID_NONE).adopted);
  struct store_device found = stage_look(&stage, "d1");
  assert_int_equal(found.state, STORE_UNKNOWN);
  assert_int_equal(found.last_seen_ms, STAGE_START_MS);
  assert_int_equal(stage_renew(&stage, "d1", 1000), RECORD_LEFT);
  assert_int_equal(stage_beat(&stage, "d1", 1000).code, RECORD_RENEWED);
  found = stage_look(&stage, "d1");
  assert_int_equal(found.state, STORE_ONLINE);
  assert_true(session_id_compare(found.session, session) == 0);
}

/* What was written to the append-only file since it was begun. */
static char *file_text(void) {
  glob_t found;
  char *bytes = NULL;
  size_t size = 0;
  assert_int_equal(glob(text_format("%s/appendonlydir/*.incr.aof", stage.redis.folder), 0, NULL, &found), 0);
  FILE *file = fopen(found.gl_pathv[found.gl_pathc - 1], "r"), *copy = open_memstream(&bytes, &size);
  assert_true(file != NULL && copy != NULL);
  for (int c; (c = getc(file)) != EOF;) putc(c, copy);
  fclose(file);
  fclose(copy);
  globfree(&found);
  return bytes;
}

static struct record_outcome renew_both(const struct record_item items[2]) {
  const struct record_options options = {stage.outage_ms, str_from(stage.listener), stage.backlog_cap};
  const struct record_section sections[2] = {{1, &items[0], 1}, {0, &items[1], 1}};
  struct record_reply head;
  struct record_outcome outcome = {0};
  redisReply *reply;
  assert_int_equal(store_renew_encode(stage.call, stage.target, &options, sections, 2), STATUS_OK);
  assert_int_equal(redis_conn_call(stage.conn, 0, stage.call, &reply), STATUS_OK);
  assert_int_equal(store_record_decode(reply, 0, 1, &head, &outcome), STATUS_PROTOCOL);
  assert_int_equal(store_record_decode(reply, 1, 1, &head, &outcome), STATUS_OK);
  freeReplyObject(reply);
  return outcome;
}

/* The score is in the file and goes to replicas; the view's new expiry is not. A partition with broken keys does not change that.
 */
static void test_the_file_has_the_score(void **state) {
  (void)state;
  (void)stage_beat(&stage, "d1", 1000);
  text("HSET test:presence:clock:v1:{1} run_id %s ingest_seen %lld paused 0", stage.run_id, (long long)STAGE_START_MS);
  text("SET test:presence:live:v1:{1}:t42:7 broken");
  text("CONFIG SET appendonly yes");
  WAIT_UNTIL(redis_integer(&stage.redis, "EVAL %s 0",
                           "local t = redis.call('INFO', 'persistence') "
                           "return t:find('aof_rewrite_in_progress:0') and t:find('aof_rewrite_scheduled:0') and 1 or 0") == 1,
             10000);
  stage_at(&stage, 100);
  const struct record_item items[2] = {stage_item(&stage, "d1", 1000), stage_item(&stage, "d1", 1000)};
  assert_int_equal(renew_both(items).code, RECORD_RENEWED);
  char *file = file_text();
  assert_non_null(strstr(file, "test:presence:due:v1:{0}:t42:7\r\n$13\r\n1790000001100\r\n"));
  assert_non_null(strstr(file, "test:presence:clock:v1:{0}\r\n$11\r\ningest_seen\r\n$13\r\n1790000000100\r\n"));
  if (fields_expire()) assert_null(strstr(file, "test:presence:live:v1:{0}"));
  free(file);
  text("CONFIG SET appendonly no");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_renews_a_session),
    cmocka_unit_test(test_some_of_a_call_are_renewed),
    cmocka_unit_test(test_opens_nothing),
    cmocka_unit_test(test_leaves_a_changed_ttl),
    cmocka_unit_test(test_leaves_a_session_that_is_over),
    cmocka_unit_test(test_leaves_who_comes_after_an_outage),
    cmocka_unit_test(test_leaves_those_of_older_settings),
    cmocka_unit_test(test_a_mark_stands_for_5_ms),
    cmocka_unit_test(test_an_adoption_makes_the_score_decide),
    cmocka_unit_test(test_the_file_has_the_score),
};

STAGE_MAIN(stage, tests)
