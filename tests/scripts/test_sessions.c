/* A session's life in the scripts, to the millisecond, on every dialect. */
#include "support/test.h"

#include "support/keyspace.h"
#include "support/stage.h"

#include <string.h>

static struct stage stage;

static bool has_field_ttl(void) { return stage.redis.dialect <= DIALECT_HPEXPIRE; }

static void test_opens_renews_and_times_out(void **state) {
  (void)state;
  struct record_outcome opened = stage_beat(&stage, "d1", 1000);
  assert_int_equal(opened.code, RECORD_OPENED);
  assert_int_equal(opened.online_since_ms, STAGE_START_MS);
  stage_at(&stage, 100);
  struct record_outcome renewed = stage_beat(&stage, "d1", 1000);
  assert_int_equal(renewed.code, RECORD_RENEWED);
  assert_int_equal(session_id_compare(opened.session, renewed.session), 0);
  assert_int_equal(renewed.online_since_ms, STAGE_START_MS);
  keyspace_check(&stage.redis);
  stage_listen_until(&stage, 1100);
  assert_int_equal(stage_expire(&stage).closed, 0);
  assert_int_equal(stage_look(&stage, "d1").state, STORE_ONLINE);
  stage_listen_until(&stage, 1101);
  struct store_device over = stage_look(&stage, "d1");
  assert_int_equal(over.state, STORE_OVER);
  assert_int_equal(over.last_seen_ms, STAGE_START_MS + 100);
  assert_int_equal(over.offline_at_ms, STAGE_START_MS + 1100);
  assert_int_equal(over.reason, REASON_TIMEOUT);
  assert_int_equal(stage_count(&stage, "t42"), 1);

  struct expire_result result = stage_expire(&stage);
  assert_int_equal(result.closed, 1);
  assert_false(result.more);
  assert_int_equal(stage_count(&stage, "t42"), 0);
  struct store_device closed = stage_look(&stage, "d1");
  assert_int_equal(closed.state, STORE_CLOSED);
  assert_int_equal(session_id_compare(opened.session, closed.session), 0);
  assert_int_equal(closed.online_since_ms, STAGE_START_MS);
  assert_int_equal(closed.last_seen_ms, STAGE_START_MS + 100);
  assert_int_equal(closed.ttl_ms, 1000);
  assert_int_equal(closed.offline_at_ms, STAGE_START_MS + 1100);
  assert_int_equal(closed.reason, REASON_TIMEOUT);
  assert_string_equal(stage_history(&stage), "+d1 s1 at 0 ttl 1000\n-d1 s1 timeout seen 100 ended 1100 found 1101");
  assert_int_equal(stage_publish(&stage, 10), 2);
  assert_int_equal(stage_look(&stage, "d1").state, STORE_NONE);
  assert_int_equal(redis_integer(&stage.redis, "ZCARD test:presence:next:v1:{0}"), 0);
  keyspace_check(&stage.redis);
}

static void test_alive_in_the_millisecond_of_the_deadline(void **state) {
  (void)state;
  stage_beat(&stage, "d1", 150);
  stage_at(&stage, 150);
  assert_int_equal(stage_look(&stage, "d1").state, STORE_ONLINE);
  assert_int_equal(stage_expire(&stage).closed, 0);
  assert_int_equal(stage_beat(&stage, "d1", 150).code, RECORD_RENEWED);
  stage_at(&stage, 300);
  assert_int_equal(stage_expire(&stage).closed, 0);
  assert_int_equal(stage_beat(&stage, "d1", 150).code, RECORD_RENEWED);
  stage_at(&stage, 451);
  assert_int_equal(stage_look(&stage, "d1").state, STORE_OVER);
  assert_int_equal(stage_beat(&stage, "d1", 150).code, RECORD_REOPENED);
}

/* A field may go in the millisecond of its deadline (the server's own cycle): the device is online all the same. */
static void test_deadline_without_its_field(void **state) {
  (void)state;
  stage_beat(&stage, "d1", 150);
  stage_at(&stage, 150);
  redis_integer(&stage.redis, "HDEL test:presence:live:v1:{0}:t42:7 d1"); /* 0 where the server was faster */
  assert_int_equal(stage_look(&stage, "d1").state, STORE_ONLINE);
  assert_int_equal(stage_look(&stage, "d1").last_seen_ms, STAGE_START_MS);
  assert_int_equal(stage_beat(&stage, "d1", 150).code, RECORD_RENEWED);
  keyspace_check(&stage.redis);
}

static void test_late_return_closes_and_opens_in_order(void **state) {
  (void)state;
  struct record_outcome first = stage_beat(&stage, "d1", 1000);
  stage_listen_until(&stage, 1001);
  struct record_outcome second = stage_beat(&stage, "d1", 1000);
  assert_int_equal(second.code, RECORD_REOPENED);
  assert_true(session_id_compare(first.session, second.session) < 0);
  assert_int_equal(second.online_since_ms, STAGE_START_MS + 1001);
  assert_int_equal(stage_look(&stage, "d1").state, STORE_ONLINE);
  assert_int_equal(stage_count(&stage, "t42"), 1);
  assert_string_equal(stage_history(&stage), "+d1 s1 at 0 ttl 1000\n"
                                             "-d1 s1 timeout seen 0 ended 1000 found 1001\n"
                                             "+d1 s2 at 1001 ttl 1000");
  /* The close of s1 is still unpublished when s2 ends: the later one is what a read sees, and the trim of s1 leaves it. */
  assert_int_equal(stage_disconnect(&stage, "d1", NULL), DISCONNECT_CLOSED);
  assert_int_equal(stage_publish(&stage, 2), 2);
  struct store_device closed = stage_look(&stage, "d1");
  assert_int_equal(closed.state, STORE_CLOSED);
  assert_int_equal(session_id_compare(second.session, closed.session), 0);
  assert_int_equal(stage_publish(&stage, 2), 2);
  assert_int_equal(stage_look(&stage, "d1").state, STORE_NONE);
}

static void test_ttl_grown(void **state) {
  (void)state;
  stage_beat(&stage, "d1", 1000);
  stage_listen_until(&stage, 500);
  assert_int_equal(stage_beat(&stage, "d1", 3000).code, RECORD_RENEWED);
  keyspace_check(&stage.redis);
  stage_listen_until(&stage, 1001);
  assert_int_equal(stage_expire(&stage).closed, 0);
  stage_listen_until(&stage, 3500);
  assert_int_equal(stage_expire(&stage).closed, 0);
  stage_listen_until(&stage, 3501);
  assert_int_equal(stage_expire(&stage).closed, 1);
  assert_string_equal(stage_history(&stage), "+d1 s1 at 0 ttl 1000\n-d1 s1 timeout seen 500 ended 3500 found 3501");
}

static void test_ttl_shrunk(void **state) {
  (void)state;
  stage_beat(&stage, "d1", 60000);
  stage_listen_until(&stage, 500);
  assert_int_equal(stage_beat(&stage, "d1", 1000).code, RECORD_RENEWED);
  keyspace_check(&stage.redis); /* `next` is no later than the new deadline */
  assert_string_equal(redis_text(&stage.redis, "ZSCORE test:presence:next:v1:{0} t42:7"), "1790000001500");
  stage_listen_until(&stage, 1501);
  assert_int_equal(stage_expire(&stage).closed, 1);
  assert_string_equal(stage_history(&stage), "+d1 s1 at 0 ttl 60000\n-d1 s1 timeout seen 500 ended 1500 found 1501");
}

static void test_renewals_do_not_touch_next(void **state) {
  (void)state;
  stage_beat(&stage, "d1", 1000);
  stage_listen_until(&stage, 400);
  stage_beat(&stage, "d1", 1000);
  stage_beat(&stage, "d1", 2000);
  assert_string_equal(redis_text(&stage.redis, "ZSCORE test:presence:next:v1:{0} t42:7"), "1790000001000");
  stage_listen_until(&stage, 1001);
  struct expire_result result = stage_expire(&stage);
  assert_int_equal(result.closed, 0);
  assert_string_equal(redis_text(&stage.redis, "ZSCORE test:presence:next:v1:{0} t42:7"), "1790000002400");
}

static void test_longest_ttl(void **state) {
  (void)state;
  assert_int_equal(stage_beat(&stage, "d1", TTL_MAX_MS).code, RECORD_OPENED);
  struct store_device found = stage_look(&stage, "d1");
  assert_int_equal(found.ttl_ms, TTL_MAX_MS);
  assert_int_equal(found.last_seen_ms, STAGE_START_MS);
  stage.outage_ms = INT64_MAX / 4;
  stage_at(&stage, TTL_MAX_MS);
  stage_mark(&stage);
  assert_int_equal(stage_expire(&stage).closed, 0);
  stage_at(&stage, TTL_MAX_MS + 1);
  stage_mark(&stage);
  assert_int_equal(stage_expire(&stage).closed, 1);
}

static void test_live_field_expires_at_the_deadline(void **state) {
  (void)state;
  if (!has_field_ttl()) skip();
  const char *deadline = "HPEXPIRETIME test:presence:live:v1:{0}:t42:7 FIELDS 1 d1";
  stage_beat(&stage, "d1", 1000);
  assert_string_equal(redis_text(&stage.redis, deadline), "1790000001000");
  stage_listen_until(&stage, 300);
  stage_beat(&stage, "d1", 1000); /* a plain renewal */
  assert_string_equal(redis_text(&stage.redis, deadline), "1790000001300");
  stage_beat(&stage, "d1", 5000); /* written anew */
  assert_string_equal(redis_text(&stage.redis, deadline), "1790000005300");
  stage_at(&stage, 2000);
  stage_beat(&stage, "d1", 5000); /* P has changed: written anew */
  assert_string_equal(redis_text(&stage.redis, deadline), "1790000007000");
  keyspace_check(&stage.redis);
  stage_at(&stage, 7001); /* with no worker and no mark */
  assert_string_equal(redis_text(&stage.redis, "HGET test:presence:live:v1:{0}:t42:7 d1"), "(nil)");
}

static void test_field_replies_are_counted(void **state) {
  (void)state;
  struct record_options options = {200, STR_LIT("loop"), 100};
  struct record_item items[2] = {stage_item(&stage, "d1", 1000), stage_item(&stage, "d2", 1000)};
  struct record_outcome outcomes[2];
  struct record_reply head;
  for (int round = 0; round < 2; round++) { /* opened; then renewed, which HGETEX does without such a reply */
    redisReply *reply;
    assert_int_equal(store_record_encode(stage.call, stage.target, &options, &(struct record_section){0, items, 2}, 1),
                     STATUS_OK);
    assert_int_equal(redis_conn_call(stage.conn, 0, stage.call, &reply), STATUS_OK);
    assert_int_equal(store_record_decode(reply, 0, 2, &head, outcomes), STATUS_OK);
    bool replies = stage.redis.dialect == DIALECT_HPEXPIRE || (stage.redis.dialect == DIALECT_NATIVE && round == 0);
    assert_int_equal(head.field_replies[FIELD_SET], replies ? 2 : 0);
    assert_int_equal(head.field_replies[FIELD_MISSING] + head.field_replies[FIELD_NOT_SET] + head.field_replies[FIELD_DELETED],
                     0);
    freeReplyObject(reply);
  }
}

static void test_values(void **state) {
  (void)state;
  stage_beat(&stage, "d1", 90000);
  const char *value = "mubbs7i8,90000,0"; /* 1790000000000 in base 36 */
  assert_string_equal(redis_text(&stage.redis, "HGET test:presence:live:v1:{0}:t42:7 d1"), value);
  assert_string_equal(redis_text(&stage.redis, "HGET test:presence:session:v1:{0}:t42:7 d1"), value);
  assert_string_equal(redis_text(&stage.redis, "ZRANGE test:presence:due:v1:{0}:t42:7 0 -1 WITHSCORES"), "d1 1790000090000");
  stage_beat(&stage, "d2", 1000); /* the second session of that millisecond */
  assert_string_equal(redis_text(&stage.redis, "HGET test:presence:session:v1:{0}:t42:7 d2"), "mubbs7i8-1,1000,0");
  assert_string_equal(redis_text(&stage.redis, "HGETALL test:presence:count:v1:{0}"), "t42 2");
  assert_string_equal(redis_text(&stage.redis, "HGETALL test:presence:tenant:v1:{0}"), "t42 1:32");
}

static void test_compact_encodings(void **state) {
  (void)state;
  char id[DEVICE_ID_MAX + 1];
  for (int i = 0; i < 60; i++) { /* a bucket about twice as full as meant, with the longest ids */
    memset(id, 'x', DEVICE_ID_MAX);
    id[DEVICE_ID_MAX] = '\0';
    id[0] = (char)('0' + i);
    stage_beat(&stage, id, 90000);
  }
  const char *live = !has_field_ttl() ? "listpack" : redis_is_valkey(&stage.redis) ? "hashtable" : "listpackex";
  assert_string_equal(redis_text(&stage.redis, "OBJECT ENCODING test:presence:live:v1:{0}:t42:7"), live);
  assert_string_equal(redis_text(&stage.redis, "OBJECT ENCODING test:presence:session:v1:{0}:t42:7"), "listpack");
  assert_string_equal(redis_text(&stage.redis, "OBJECT ENCODING test:presence:due:v1:{0}:t42:7"), "listpack");
  keyspace_check(&stage.redis);
}

static void test_ids_byte_for_byte(void **state) {
  (void)state;
  static const char *const ids[] = {"a/b", "a:b", "a#b",  "a+b", "a%b", "{t}", "a|b", "\xf0\x9f\x98\x80",
                                    "..",  "a,b", "a\"b", "'",   "\\",  " "};
  for (size_t i = 0; i < LENGTH(ids); i++) assert_int_equal(stage_beat(&stage, ids[i], 1000).code, RECORD_OPENED);
  assert_int_equal(stage_count(&stage, "t42"), LENGTH(ids));
  stage_listen_until(&stage, 1001);
  assert_int_equal(stage_expire(&stage).closed, LENGTH(ids));
  for (size_t i = 0; i < LENGTH(ids); i++) {
    assert_int_equal(stage_look(&stage, ids[i]).state, STORE_CLOSED);
    assert_non_null(strstr(stage_history(&stage), text_format("-%s s%zu timeout seen 0 ended 1000 found 1001", ids[i], i + 1)));
  }
  assert_int_equal(stage_publish(&stage, 100), 2 * LENGTH(ids));
  for (size_t i = 0; i < LENGTH(ids); i++) assert_int_equal(stage_look(&stage, ids[i]).state, STORE_NONE);
}

/* ---- metadata */

static enum record_code beat_with_meta(const char *device, enum meta_action action, const char *meta) {
  struct record_item item = stage_item(&stage, device, 1000);
  item.meta_action = action;
  item.meta = str_from(meta);
  return stage_try_record(&stage, &item).code;
}

static void assert_meta(const char *device, const char *expected) {
  struct str meta = stage_look(&stage, device).meta;
  assert_string_equal(text_format("%.*s", STR_ARG(meta)), expected);
}

static void test_metadata(void **state) {
  (void)state;
  const char *first = "{\"a\": \"1,2\\n\"}";
  assert_int_equal(beat_with_meta("d1", META_SET, first), RECORD_OPENED);
  assert_meta("d1", first);
  assert_int_equal(beat_with_meta("d1", META_KEEP, ""), RECORD_RENEWED);
  assert_meta("d1", first);
  assert_int_equal(beat_with_meta("d1", META_SET, "{\"b\":2}"), RECORD_RENEWED);
  assert_meta("d1", "{\"b\":2}");
  assert_int_equal(stage_disconnect(&stage, "d1", NULL), DISCONNECT_CLOSED);
  assert_meta("d1", "{\"b\":2}"); /* of the close */
  assert_int_equal(stage_beat(&stage, "d1", 1000).code, RECORD_OPENED);
  assert_meta("d1", ""); /* a new session starts without */
  assert_int_equal(beat_with_meta("d1", META_SET, "{}"), RECORD_RENEWED);
  assert_int_equal(beat_with_meta("d1", META_REMOVE, ""), RECORD_RENEWED);
  assert_meta("d1", "");
  assert_int_equal(redis_integer(&stage.redis, "EXISTS test:presence:meta:v1:{0}:t42:7"), 0);
  assert_string_equal(stage_history(&stage), "+d1 s1 at 0 ttl 1000 meta {\"a\": \"1,2\\n\"}\n"
                                             "-d1 s1 disconnect seen 0 ended 0 found 0 meta {\"b\":2}\n"
                                             "+d1 s2 at 0 ttl 1000");
}

static void test_reopening_carries_its_own_metadata(void **state) {
  (void)state;
  beat_with_meta("d1", META_SET, "{\"old\":1}");
  stage_listen_until(&stage, 1001);
  assert_int_equal(beat_with_meta("d1", META_SET, "{\"new\":1}"), RECORD_REOPENED);
  assert_meta("d1", "{\"new\":1}");
  stage_listen_until(&stage, 2003);
  assert_int_equal(beat_with_meta("d1", META_REMOVE, ""), RECORD_REOPENED);
  assert_meta("d1", "");
  assert_string_equal(stage_history(&stage), "+d1 s1 at 0 ttl 1000 meta {\"old\":1}\n"
                                             "-d1 s1 timeout seen 0 ended 1000 found 1001 meta {\"old\":1}\n"
                                             "+d1 s2 at 1001 ttl 1000 meta {\"new\":1}\n"
                                             "-d1 s2 timeout seen 1001 ended 2001 found 2003 meta {\"new\":1}\n"
                                             "+d1 s3 at 2003 ttl 1000");
}

static void test_largest_metadata(void **state) {
  (void)state;
  char meta[META_MAX_BYTES + 1];
  memset(meta, ' ', META_MAX_BYTES);
  meta[0] = '{';
  meta[META_MAX_BYTES - 1] = '}';
  meta[META_MAX_BYTES] = '\0';
  beat_with_meta("d1", META_SET, meta);
  assert_meta("d1", meta);
  stage_listen_until(&stage, 1001);
  assert_int_equal(stage_expire(&stage).closed, 1);
  assert_meta("d1", meta);
}

/* ---- disconnect */

static void test_disconnect(void **state) {
  (void)state;
  assert_int_equal(stage_disconnect(&stage, "d1", NULL), DISCONNECT_NOTHING_OPEN);
  struct session_id mine = stage_beat(&stage, "d1", 1000).session;
  struct session_id other = {mine.ms, mine.seq + 1};
  stage_listen_until(&stage, 300);
  assert_int_equal(stage_disconnect(&stage, "d1", &other), DISCONNECT_OTHER_SESSION);
  assert_int_equal(stage_look(&stage, "d1").state, STORE_ONLINE);
  assert_int_equal(stage_disconnect(&stage, "d1", &mine), DISCONNECT_CLOSED);
  assert_int_equal(stage_disconnect(&stage, "d1", &mine), DISCONNECT_NOTHING_OPEN);
  struct store_device closed = stage_look(&stage, "d1");
  assert_int_equal(closed.state, STORE_CLOSED);
  assert_int_equal(closed.reason, REASON_DISCONNECT);
  assert_int_equal(closed.offline_at_ms, STAGE_START_MS + 300);
  assert_string_equal(stage_history(&stage), "+d1 s1 at 0 ttl 1000\n-d1 s1 disconnect seen 0 ended 300 found 300");
  keyspace_check(&stage.redis);
}

static void test_disconnect_of_what_was_over_is_a_timeout(void **state) {
  (void)state;
  struct session_id mine = stage_beat(&stage, "d1", 1000).session;
  stage_listen_until(&stage, 1001);
  assert_int_equal(stage_disconnect(&stage, "d1", &mine), DISCONNECT_NOTHING_OPEN);
  assert_string_equal(stage_history(&stage), "+d1 s1 at 0 ttl 1000\n-d1 s1 timeout seen 0 ended 1000 found 1001");
}

static void test_disconnect_in_doubt(void **state) {
  (void)state;
  stage_beat(&stage, "d1", 1000);
  stage_at(&stage, 60000);
  assert_int_equal(stage_look(&stage, "d1").state, STORE_UNKNOWN);
  assert_int_equal(stage_disconnect(&stage, "d1", NULL), DISCONNECT_CLOSED);
  assert_string_equal(stage_history(&stage), "+d1 s1 at 0 ttl 1000\n-d1 s1 disconnect seen 0 ended 60000 found 60000");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_opens_renews_and_times_out),
    cmocka_unit_test(test_alive_in_the_millisecond_of_the_deadline),
    cmocka_unit_test(test_deadline_without_its_field),
    cmocka_unit_test(test_late_return_closes_and_opens_in_order),
    cmocka_unit_test(test_ttl_grown),
    cmocka_unit_test(test_ttl_shrunk),
    cmocka_unit_test(test_renewals_do_not_touch_next),
    cmocka_unit_test(test_longest_ttl),
    cmocka_unit_test(test_live_field_expires_at_the_deadline),
    cmocka_unit_test(test_field_replies_are_counted),
    cmocka_unit_test(test_values),
    cmocka_unit_test(test_compact_encodings),
    cmocka_unit_test(test_ids_byte_for_byte),
    cmocka_unit_test(test_metadata),
    cmocka_unit_test(test_reopening_carries_its_own_metadata),
    cmocka_unit_test(test_largest_metadata),
    cmocka_unit_test(test_disconnect),
    cmocka_unit_test(test_disconnect_of_what_was_over_is_a_timeout),
    cmocka_unit_test(test_disconnect_in_doubt),
};

STAGE_MAIN(stage, tests)
