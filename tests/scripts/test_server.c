/* What concerns a server or a partition as a whole: adoption, the stream and its trim, leases, on every dialect. */
#include "support/test.h"

#include "support/keyspace.h"
#include "support/stage.h"

#include <string.h>

static struct stage stage;

static const char other_run_id[] = "0123456789abcdef0123456789abcdef01234567";

static enum status call(enum status encoded) {
  redisReply *reply = NULL;
  assert_int_equal(encoded, STATUS_OK);
  enum status status = redis_conn_call(stage.conn, 0, stage.call, &reply);
  freeReplyObject(reply);
  return status;
}

/* ---- adoption */

static void test_no_script_touches_a_server_that_is_not_adopted(void **state) {
  (void)state;
  struct redis_call *c = stage.call;
  const struct redis_target *t = stage.target;
  struct record_item item = stage_item(&stage, "d1", 1000);
  struct read_item read = {7, STR_LIT("d1")};
  struct expire_bucket bucket = {STR_LIT("t42"), 7};
  struct stream_entry entry = {.id = {1, 0}};
  for (int round = 0; round < 2; round++) { /* an empty server; then one that was adopted in another life */
    stage_wipe(&stage);
    if (round == 1) {
      redis_text(&stage.redis, "HSET test:presence:clock:v1:{0} ingest_seen 1790000000000 paused 0 run_id %s", other_run_id);
    }
    int64_t keys = redis_integer(&stage.redis, "DBSIZE");
    (void)stage_try_record(&stage, &item);
    assert_int_equal(stage.status, STATUS_INITIALISING);
    assert_int_equal(call(store_unlisten_encode(c, t, 0, STR_LIT("a"))), STATUS_INITIALISING);
    assert_int_equal(call(store_disconnect_encode(c, t, 0, 200, &stage.tenant, 7, STR_LIT("d1"), NULL)), STATUS_INITIALISING);
    assert_int_equal(call(store_read_encode(c, t, 0, 200, &stage.tenant, &read, 1)), STATUS_INITIALISING);
    assert_int_equal(call(store_expire_encode(c, t, 0, 200, 10, &bucket, 1)), STATUS_INITIALISING);
    assert_int_equal(call(store_next_encode(c, t, 0, 200, 10)), STATUS_INITIALISING);
    assert_int_equal(call(store_stream_encode(c, t, 0, 10)), STATUS_INITIALISING);
    assert_int_equal(call(store_trim_encode(c, t, 0, stage.run_id, &entry, 1)), STATUS_INITIALISING);
    assert_int_equal(call(store_adopted_encode(c, t, 0)), STATUS_INITIALISING);
    assert_int_equal(call(store_count_encode(c, t, 0, STR_LIT("t42"))), STATUS_INITIALISING);
    assert_int_equal(call(store_counts_encode(c, t, 0)), STATUS_INITIALISING);
    assert_int_equal(redis_integer(&stage.redis, "DBSIZE"), keys);
    assert_true(stage_lease(&stage, "w1", LEASE_TAKE_OR_KEEP).mine);
    struct stage_adoption adopted = stage_adopt(&stage, SESSION_ID_NONE);
    assert_true(adopted.adopted);
    assert_int_equal(adopted.was_empty, round == 0);
    assert_int_equal(call(store_adopted_encode(c, t, 0)), STATUS_OK);
    adopted = stage_adopt(&stage, SESSION_ID_NONE);
    assert_false(adopted.adopted);
    assert_false(adopted.was_empty);
  }
}

static void test_adoption_of_another_server_changes_nothing(void **state) {
  (void)state;
  stage_wipe(&stage);
  assert_int_equal(call(store_adopt_encode(stage.call, stage.target, 0, other_run_id, (struct session_id){5, 0}, other_run_id)),
                   STATUS_INITIALISING);
  assert_int_equal(redis_integer(&stage.redis, "DBSIZE"), 0);
}

static void test_adoption_raises_the_stream(void **state) {
  (void)state;
  struct session_id floor = {STAGE_START_MS + 5000000, 7};
  stage_wipe(&stage);
  assert_true(stage_adopt(&stage, floor).adopted);
  assert_int_equal(redis_integer(&stage.redis, "XLEN test:presence:transitions:v1:{0}"), 0);
  struct record_outcome outcome = stage_beat(&stage, "d1", 1000);
  assert_int_equal(outcome.session.ms, floor.ms);
  assert_int_equal(outcome.session.seq, floor.seq + 1);
  assert_int_equal(outcome.online_since_ms, STAGE_START_MS);
  assert_int_equal(stage_beat(&stage, "d1", 1000).code, RECORD_RENEWED);
  assert_int_equal(stage_beat(&stage, "d1", 2000).online_since_ms, STAGE_START_MS);
}

static void test_adoption_never_lowers_and_keeps_entries(void **state) {
  (void)state;
  struct session_id first = stage_beat(&stage, "d1", 1000).session;
  redis_text(&stage.redis, "HSET test:presence:clock:v1:{0} run_id %s", other_run_id);
  assert_true(stage_adopt(&stage, (struct session_id){1000, 0}).adopted);
  assert_true(session_id_compare(first, stage_beat(&stage, "d2", 1000).session) < 0);
  assert_int_equal(redis_integer(&stage.redis, "XLEN test:presence:transitions:v1:{0}"), 2);
  redis_text(&stage.redis, "HSET test:presence:clock:v1:{0} run_id %s", other_run_id);
  struct session_id floor = {STAGE_START_MS + 1, 0};
  assert_true(stage_adopt(&stage, floor).adopted);
  assert_int_equal(redis_integer(&stage.redis, "XLEN test:presence:transitions:v1:{0}"), 2);
  assert_true(session_id_compare(floor, stage_beat(&stage, "d3", 1000).session) < 0);
}

static void test_the_gap_before_an_adoption_is_counted_by_the_first_mark(void **state) {
  (void)state;
  struct session_id first = stage_beat(&stage, "d1", 1000).session;
  redis_text(&stage.redis, "HSET test:presence:clock:v1:{0} run_id %s", other_run_id);
  stage_at(&stage, 30000);
  stage_adopt(&stage, SESSION_ID_NONE);
  assert_int_equal(stage_look(&stage, "d1").state, STORE_UNKNOWN);
  assert_int_equal(stage_expire(&stage).closed, 0);
  assert_int_equal(stage_mark(&stage), 30000);
  assert_int_equal(session_id_compare(first, stage_beat(&stage, "d1", 1000).session), 0);
}

/* ---- the stream */

static struct stream_entry entries[16];

static redisReply *read_stream(size_t max, struct stream_head *head, size_t *count) {
  redisReply *reply;
  *count = LENGTH(entries);
  assert_int_equal(store_stream_encode(stage.call, stage.target, 0, max), STATUS_OK);
  assert_int_equal(redis_conn_call(stage.conn, 0, stage.call, &reply), STATUS_OK);
  assert_int_equal(store_stream_decode(reply, head, entries, count), STATUS_OK);
  return reply;
}

static void test_stream_entries(void **state) {
  (void)state;
  const char *stream = "test:presence:transitions:v1:{0}";
  const char *fields =
      "tenant t42 device d9 session 5-0 online_since 5 last_seen %s ttl 1000 reason %s offline_at %s detected_at 7 meta %s";
  struct stream_head head;
  size_t count;
  stage_beat(&stage, "d1", 1000);
  redis_text(&stage.redis, "XADD %s * type nonsense", stream);
  redis_text(&stage.redis, text_format("XADD %s * type mark %s", stream, fields), "", "", "", "");
  redis_text(&stage.redis, text_format("XADD %s * type online %s", stream, fields), "5", "", "",
             "{}"); /* written again by an audit */
  redis_text(&stage.redis, text_format("XADD %s * type offline %s", stream, fields), "", "timeout", "1005", "");
  redis_text(&stage.redis, text_format("XADD %s * type offline %s", stream, fields), "", "mistake", "1005", "");
  redis_text(&stage.redis, text_format("XADD %s * type offline %s", stream, fields), "x", "timeout", "1005", "");
  redis_text(&stage.redis, text_format("XADD %s * type offline %s", stream, fields), "5", "", "1005", "");
  stage_at(&stage, 3);
  redisReply *reply = read_stream(7, &head, &count);
  assert_int_equal(head.now_ms, STAGE_START_MS + 3);
  assert_int_equal(head.backlog, 8);
  assert_int_equal(count, 7);
  static const enum stream_kind kinds[] = {STREAM_TRANSITION, STREAM_BROKEN, STREAM_MARKER, STREAM_TRANSITION,
                                           STREAM_TRANSITION, STREAM_BROKEN, STREAM_BROKEN};
  for (size_t i = 0; i < count; i++) assert_int_equal(entries[i].kind, kinds[i]);
  assert_int_equal(session_id_compare(entries[0].id, entries[0].transition.session), 0);
  assert_int_equal(entries[1].fields->elements, 2);
  assert_int_equal(entries[3].transition.session.ms, 5);
  assert_int_equal(entries[3].transition.meta.len, 2);
  assert_int_equal(entries[4].transition.last_seen_ms, TIME_MS_LOST);
  assert_int_equal(entries[4].transition.offline_at_ms, 1005);
  freeReplyObject(reply);
  stage_publish(&stage, 7);
  reply = read_stream(7, &head, &count);
  assert_int_equal(count, 1);
  assert_int_equal(entries[0].kind, STREAM_BROKEN);
  freeReplyObject(reply);
}

static void test_trim_after_the_server_changed(void **state) {
  (void)state;
  struct stream_head head;
  size_t count;
  stage_beat(&stage, "d1", 1000);
  stage_disconnect(&stage, "d1", NULL);
  redisReply *reply = read_stream(10, &head, &count);
  assert_int_equal(call(store_trim_encode(stage.call, stage.target, 0, other_run_id, entries, count)), STATUS_INITIALISING);
  assert_int_equal(redis_integer(&stage.redis, "XLEN test:presence:transitions:v1:{0}"), 2);
  assert_int_equal(stage_look(&stage, "d1").state, STORE_CLOSED);
  assert_int_equal(call(store_trim_encode(stage.call, stage.target, 0, stage.run_id, entries, count)), STATUS_OK);
  assert_int_equal(call(store_trim_encode(stage.call, stage.target, 0, stage.run_id, entries, count)),
                   STATUS_OK); /* late, again */
  assert_int_equal(stage_look(&stage, "d1").state, STORE_NONE);
  freeReplyObject(reply);
}

static void test_trim_keeps_what_came_later(void **state) {
  (void)state;
  struct stream_head head;
  size_t count;
  for (int i = 0; i < 5; i++) stage_beat(&stage, text_format("d%d", i), 1000); /* the same millisecond: ids differ in seq */
  redisReply *reply = read_stream(3, &head, &count);
  assert_int_equal(count, 3);
  stage_beat(&stage, "late", 1000);
  assert_int_equal(call(store_trim_encode(stage.call, stage.target, 0, stage.run_id, entries, count)), STATUS_OK);
  freeReplyObject(reply);
  assert_string_equal(stage_history(&stage), "+d3 s1 at 0 ttl 1000\n+d4 s2 at 0 ttl 1000\n+late s3 at 0 ttl 1000");
}

/* A publisher that was paused between COMMIT and trim: the device has had another session since. */
static void test_a_late_trim_keeps_a_later_close(void **state) {
  (void)state;
  struct stream_head head;
  size_t count;
  stage_beat(&stage, "d1", 1000);
  stage_disconnect(&stage, "d1", NULL);
  redisReply *reply = read_stream(10, &head, &count);
  stage_beat(&stage, "d1", 1000);
  stage_disconnect(&stage, "d1", NULL);
  assert_int_equal(call(store_trim_encode(stage.call, stage.target, 0, stage.run_id, entries, count)), STATUS_OK);
  freeReplyObject(reply);
  assert_int_equal(redis_integer(&stage.redis, "XLEN test:presence:transitions:v1:{0}"), 2);
  assert_int_equal(stage_look(&stage, "d1").state, STORE_CLOSED);
}

/* ---- leases */

static void test_lease(void **state) {
  (void)state;
  struct lease_result a = stage_lease(&stage, "a", LEASE_TAKE_OR_KEEP);
  assert_true(a.mine);
  assert_int_equal(a.workers, 1);
  struct lease_result b = stage_lease(&stage, "b", LEASE_TAKE_OR_KEEP);
  assert_false(b.mine);
  assert_int_equal(b.workers, 2);
  assert_true(stage_lease(&stage, "a", LEASE_ONLY_MARK).mine);
  stage_at(&stage, 900);
  assert_true(stage_lease(&stage, "a", LEASE_TAKE_OR_KEEP).mine);
  stage_at(&stage, 1800);
  assert_false(stage_lease(&stage, "b", LEASE_TAKE_OR_KEEP).mine); /* it was kept at 900 */
  stage_at(&stage, 1901);
  assert_true(stage_lease(&stage, "b", LEASE_TAKE_OR_KEEP).mine);
  assert_int_equal(stage_lease(&stage, "b", LEASE_TAKE_OR_KEEP).workers, 1); /* a's mark ended with its lease */
  assert_int_equal(stage_lease(&stage, "a", LEASE_ONLY_MARK).workers, 2);
  assert_false(stage_lease(&stage, "a", LEASE_GIVE_UP).mine); /* another's: stays */
  assert_true(stage_lease(&stage, "b", LEASE_ONLY_MARK).mine);
  assert_int_equal(stage_lease(&stage, "b", LEASE_ONLY_MARK).workers, 1);
  assert_int_equal(stage_lease(&stage, "b", LEASE_GIVE_UP).workers, 0);
  assert_true(stage_lease(&stage, "a", LEASE_TAKE_OR_KEEP).mine);
}

static void test_workers_that_are_silent(void **state) {
  (void)state;
  stage_lease(&stage, "a", LEASE_ONLY_MARK);
  stage_at(&stage, 1000);
  assert_int_equal(stage_lease(&stage, "b", LEASE_ONLY_MARK).workers, 2);
  stage_at(&stage, 1001);
  assert_int_equal(stage_lease(&stage, "b", LEASE_ONLY_MARK).workers, 1);
  stage_at(&stage, -3600000); /* marks from the future are no better */
  assert_int_equal(stage_lease(&stage, "c", LEASE_ONLY_MARK).workers, 1);
}

static void test_counts(void **state) {
  (void)state;
  const redisReply *pairs;
  redisReply *reply;
  stage_beat(&stage, "d1", 1000);
  stage_beat(&stage, "d2", 1000);
  stage.tenant.id = STR_LIT("t43");
  stage_beat(&stage, "d1", 1000);
  assert_int_equal(store_counts_encode(stage.call, stage.target, 0), STATUS_OK);
  assert_int_equal(redis_conn_call(stage.conn, 0, stage.call, &reply), STATUS_OK);
  assert_int_equal(store_counts_decode(reply, &pairs), STATUS_OK);
  assert_int_equal(pairs->elements, 4);
  freeReplyObject(reply);
  assert_int_equal(stage_count(&stage, "t42"), 2);
  assert_int_equal(stage_count(&stage, "t43"), 1);
  assert_int_equal(stage_count(&stage, "nobody"), 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_no_script_touches_a_server_that_is_not_adopted),
    cmocka_unit_test(test_adoption_of_another_server_changes_nothing),
    cmocka_unit_test(test_adoption_raises_the_stream),
    cmocka_unit_test(test_adoption_never_lowers_and_keeps_entries),
    cmocka_unit_test(test_the_gap_before_an_adoption_is_counted_by_the_first_mark),
    cmocka_unit_test(test_stream_entries),
    cmocka_unit_test(test_trim_after_the_server_changed),
    cmocka_unit_test(test_trim_keeps_what_came_later),
    cmocka_unit_test(test_a_late_trim_keeps_a_later_close),
    cmocka_unit_test(test_lease),
    cmocka_unit_test(test_workers_that_are_silent),
    cmocka_unit_test(test_counts),
};

STAGE_MAIN(stage, tests)
