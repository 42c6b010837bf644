/* The audit's marker travels through the stream, and what it found is judged again when it is met: on every dialect. */
#include "support/test.h"

#include "support/keyspace.h"
#include "support/stage.h"

#define STREAM "test:presence:transitions:v1:{0}"

static struct stage stage;

static redisReply *send(enum status encoded) {
  redisReply *reply = NULL;
  assert_int_equal(encoded, STATUS_OK);
  stage.status = redis_conn_call(stage.conn, 0, stage.call, &reply);
  if (stage.status) fail_msg("%s", redis_conn_error(stage.conn));
  return reply;
}

/* What PostgreSQL says of "d". */
static struct store_row row_of(enum store_row_state state, struct session_id session) {
  return (struct store_row){.tenant = stage.tenant,
                            .bucket = stage.bucket,
                            .device = STR_LIT("d"),
                            .state = state,
                            .session = session,
                            .online_since_ms = STAGE_START_MS,
                            .ttl_ms = 1000,
                            .offline_at_ms = TIME_MS_LOST};
}

/* Puts a marker for a row that disagrees; found: the session in the facts. */
static struct store_marker mark(const struct store_row *row, struct session_id found) {
  enum disagreement kind = AGREE;
  redisReply *reply = send(store_mark_encode(stage.call, stage.target, 0, stage.outage_ms, row, 1, 100, true));
  assert_int_equal(store_mark_decode(reply, 1, &kind), STATUS_OK);
  freeReplyObject(reply);
  assert_int_not_equal(kind, AGREE);
  struct store_marker marker = {.session = found};
  reply = redis_command(&stage.redis, "XREVRANGE " STREAM " + - COUNT 1");
  const redisReply *id = reply->element[0]->element[0];
  assert_int_equal(session_id_parse((struct str){id->str, id->len}, &marker.entry), STATUS_OK);
  freeReplyObject(reply);
  return marker;
}

static enum disagreement repair(const struct store_row *row, const struct store_marker *marker) {
  enum disagreement repaired = AGREE;
  redisReply *reply = send(store_repair_encode(stage.call, stage.target, 0, stage.run_id, stage.outage_ms, row, marker, 1));
  assert_int_equal(store_repair_decode(reply, 1, &repaired), STATUS_OK);
  freeReplyObject(reply);
  return repaired;
}

static void assert_open(int64_t count) {
  assert_int_equal(stage_count(&stage, "t42"), count);
  assert_int_equal(keyspace_open_sessions(&stage.redis), count);
}

static void test_a_marker_that_stands(void **state) {
  (void)state;
  struct session_id session = stage_beat(&stage, "d", 1000).session;
  stage_publish(&stage, 100);
  struct store_row row = row_of(STORE_ROW_OFFLINE, session);
  struct store_marker marker = mark(&row, session);
  assert_int_equal(repair(&row, &marker), AUDIT_OVER_IN_ROW);
  assert_open(0);
}

/* Somebody else has met it: the row may be older than what happened since. */
static void test_a_marker_that_is_gone(void **state) {
  (void)state;
  struct session_id session = stage_beat(&stage, "d", 1000).session;
  stage_publish(&stage, 100);
  struct store_row row = row_of(STORE_ROW_OFFLINE, session);
  struct store_marker marker = mark(&row, session);
  stage_publish(&stage, 100);
  assert_int_equal(repair(&row, &marker), AGREE);
  assert_open(1);
}

static void test_facts_that_changed_since(void **state) {
  (void)state;
  struct session_id session = stage_beat(&stage, "d", 1000).session;
  stage_publish(&stage, 100);
  struct store_row row = row_of(STORE_ROW_NONE, SESSION_ID_NONE);
  struct store_marker marker = mark(&row, session);
  assert_int_equal(stage_disconnect(&stage, "d", NULL), DISCONNECT_CLOSED);
  stage_beat(&stage, "d", 1000);
  redis_text(&stage.redis, "DEL test:presence:closed:v1:{0}"); /* not what this is about */
  int64_t entries = redis_integer(&stage.redis, "XLEN " STREAM);
  assert_int_equal(repair(&row, &marker), AGREE);
  assert_int_equal(redis_integer(&stage.redis, "XLEN " STREAM), entries);
  assert_open(1);
}

/* There are no facts, as the marker found it; but there were meanwhile, and their close is not yet in PostgreSQL. */
static void test_a_close_that_is_under_way(void **state) {
  (void)state;
  struct store_row row = row_of(STORE_ROW_ONLINE, (struct session_id){STAGE_START_MS - 5000, 0});
  struct store_marker marker = mark(&row, SESSION_ID_NONE);
  stage_beat(&stage, "d", 1000);
  assert_int_equal(stage_disconnect(&stage, "d", NULL), DISCONNECT_CLOSED);
  assert_int_equal(repair(&row, &marker), AGREE);
  assert_open(0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_marker_that_stands),
    cmocka_unit_test(test_a_marker_that_is_gone),
    cmocka_unit_test(test_facts_that_changed_since),
    cmocka_unit_test(test_a_close_that_is_under_way),
};

STAGE_MAIN(stage, tests)
