#include "support/test.h"

#include "support/outbox_fixture.h"
#include "support/unit.h"

#include <pthread.h>
#include <stdlib.h>

static void appended_once(void **state) {
  struct outbox_fixture *fixture = *state;
  const struct transition entries[] = {online_at("d", 100), offline_at("d", 100)};
  struct outbox_counts counts = append_all(fixture->client, entries, 2);
  assert_int_equal(counts.online, 1);
  assert_int_equal(counts.timeout, 1);
  assert_int_equal(counts.repeats, 0);
  counts = append_all(fixture->client, entries, 2);
  assert_int_equal(counts.online + counts.timeout + counts.disconnect + counts.state_lost, 0);
  assert_int_equal(counts.repeats, 2);
  counts = append_all(fixture->client, entries, 1); /* online(S) over (S, offline) */
  assert_int_equal(counts.repeats, 1);
  assert_string_equal(outbox_lines(&fixture->database), "d 100-0 online\nd 100-0 timeout");
}

/* Every way in which an entry can meet a row; the same outcome whether the entries come in one batch or one by one. */
struct guard_case {
  const char *name;
  struct {
    char type; /* n: online, f: offline */
    int64_t session;
  } entries[6];
  const char *expected;
};

static const struct guard_case guard_cases[] = {
    {"a life", {{'n', 1}, {'f', 1}, {'n', 2}, {'f', 2}}, "d 1-0 online\nd 1-0 timeout\nd 2-0 online\nd 2-0 timeout"},
    {"online over online closes", {{'n', 1}, {'n', 2}}, "d 1-0 online\nd 1-0 state_lost\nd 2-0 online"},
    {"offline without a row opens", {{'f', 1}}, "d 1-0 online\nd 1-0 timeout"},
    {"offline over another's offline opens",
     {{'n', 1}, {'f', 1}, {'f', 2}},
     "d 1-0 online\nd 1-0 timeout\nd 2-0 online\nd 2-0 timeout"},
    {"offline over another's online closes and opens",
     {{'n', 1}, {'f', 2}},
     "d 1-0 online\nd 1-0 state_lost\nd 2-0 online\nd 2-0 timeout"},
    {"the past is refused", {{'n', 5}, {'f', 4}, {'n', 4}, {'f', 5}, {'n', 5}}, "d 5-0 online\nd 5-0 timeout"},
    {"the same twice", {{'n', 1}, {'n', 1}, {'f', 1}, {'f', 1}, {'n', 1}}, "d 1-0 online\nd 1-0 timeout"},
    {"numbers, not text", {{'n', 9}, {'f', 9}, {'n', 10}}, "d 9-0 online\nd 9-0 timeout\nd 10-0 online"},
};

static void run_guard_case(struct outbox_fixture *fixture, const struct guard_case *each, bool one_by_one) {
  PQclear(sql_query(&fixture->database, "TRUNCATE presence.outbox, presence.device", NULL));
  struct transition entries[6];
  size_t count = 0;
  for (; count < LENGTH(entries) && each->entries[count].type != 0; count++) {
    int64_t session = each->entries[count].session;
    entries[count] = each->entries[count].type == 'n' ? online_at("d", session) : offline_at("d", session);
  }
  for (size_t i = 0; one_by_one && i < count; i++) (void)append_all(fixture->client, &entries[i], 1);
  if (!one_by_one) (void)append_all(fixture->client, entries, count);
  const char *lines = outbox_lines(&fixture->database);
  if (strcmp(lines, each->expected) != 0) fail_msg("%s (%s): %s", each->name, one_by_one ? "one by one" : "a batch", lines);
}

static void guard_moves_forward_only(void **state) {
  for (size_t i = 0; i < LENGTH(guard_cases); i++) {
    run_guard_case(*state, &guard_cases[i], false);
    run_guard_case(*state, &guard_cases[i], true);
  }
}

static void sessions_are_compared_by_seq_too(void **state) {
  struct outbox_fixture *fixture = *state;
  struct transition entries[] = {online_at("d", 100), online_at("d", 100), online_at("d", 100)};
  entries[0].session.seq = 9;
  entries[1].session.seq = 10;
  entries[2].session.seq = 2;
  struct outbox_counts counts = append_all(fixture->client, entries, 3);
  assert_int_equal(counts.repairs, 1);
  assert_int_equal(counts.repeats, 1);
  assert_string_equal(outbox_lines(&fixture->database), "d 100-9 online\nd 100-9 state_lost\nd 100-10 online");
}

/* What the contract says about each row, to the millisecond. */
static void payloads_are_the_contracts(void **state) {
  struct outbox_fixture *fixture = *state;
  struct transition online = online_at("d", INT64_C(1790000000123)), offline = offline_at("d", INT64_C(1790000000123));
  online.meta = STR_LIT("{\"fw\": \"1.0\"}");
  offline.meta = STR_LIT("{\"n\": [1, 2.50, null]}");
  offline.reason = REASON_DISCONNECT;
  (void)append_all(fixture->client, &online, 1);
  (void)append_all(fixture->client, &offline, 1);
  struct database *database = &fixture->database;
  assert_string_equal(sql_text(database, "SELECT payload FROM presence.outbox ORDER BY seq LIMIT 1", NULL),
                      "{\"meta\": {\"fw\": \"1.0\"}, \"device\": \"d\", \"tenant\": \"t1\", \"ttl_ms\": 1000, \"session\": "
                      "\"1790000000123-0\", \"online_since_ms\": 1790000000123}");
  assert_string_equal(sql_text(database, "SELECT payload FROM presence.outbox ORDER BY seq DESC LIMIT 1", NULL),
                      "{\"meta\": {\"n\": [1, 2.50, null]}, \"device\": \"d\", \"reason\": \"disconnect\", \"tenant\": \"t1\", "
                      "\"ttl_ms\": 1000, \"session\": \"1790000000123-0\", \"last_seen_ms\": 1790000000623, \"offline_at_ms\": "
                      "1790000001623, \"detected_at_ms\": 1790000001723, \"online_since_ms\": 1790000000123}");
  assert_string_equal(sql_text(database,
                               "SELECT to_char(occurred_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US'), aggregatetype,"
                               " aggregateid, type FROM presence.outbox ORDER BY seq",
                               NULL),
                      "2026-09-21 14:13:20.123000 device t1/d presence.device.online\n"
                      "2026-09-21 14:13:21.623000 device t1/d presence.device.offline");
}

static void a_lost_end_is_told_as_lost(void **state) {
  struct outbox_fixture *fixture = *state;
  struct transition entries[] = {online_at("d", 1000), online_at("d", 5000)};
  entries[0].meta = STR_LIT("{\"a\":1}");
  (void)append_all(fixture->client, &entries[0], 1);
  (void)append_all(fixture->client, &entries[1], 1);
  assert_string_equal(sql_text(&fixture->database,
                               "SELECT session, payload->>'offline_at_ms', payload->'last_seen_ms', payload->>'meta',"
                               " payload->>'online_since_ms', payload->>'detected_at_ms'"
                               " FROM presence.outbox WHERE payload->>'reason' = 'state_lost'",
                               NULL),
                      "1000-0 5000 null {\"a\": 1} 1000 5000");
}

static void no_metadata_is_null(void **state) {
  struct outbox_fixture *fixture = *state;
  struct transition online = online_at("d", 100);
  (void)append_all(fixture->client, &online, 1);
  assert_string_equal(sql_text(&fixture->database, "SELECT payload->'meta' FROM presence.outbox", NULL), "null");
  assert_int_equal(sql_integer(&fixture->database, "SELECT count(*) FROM presence.device WHERE meta IS NULL", NULL), 1);
}

/* The bytes sent come back from the row: blanks, order and doubled spellings of numbers included. */
static void metadata_keeps_its_bytes(void **state) {
  struct outbox_fixture *fixture = *state;
  static const char *const metas[] = {"{}", "{ \"b\" : 1e2 , \"a\":\"\\u00e9\\/\" }",
                                      "{\"z\":9223372036854775807,\"y\":-9223372036854775808}",
                                      "{\"deep\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]}",
                                      "{\"d\":1.7976931348623157e308,\"e\":5e-324}"};
  for (size_t i = 0; i < LENGTH(metas); i++) {
    struct transition online = online_at("d", 100 + (int64_t)i);
    online.meta = str_from(metas[i]);
    struct outbox_counts counts = append_all(fixture->client, &online, 1);
    assert_int_equal(counts.rejected, 0);
    struct device_row row;
    struct str device = STR_LIT("d");
    assert_status(STATUS_OK, outbox_device_rows(fixture->client, STR_LIT("t1"), &device, 1, &row));
    assert_true(str_equal(buf_str(&row.meta), online.meta));
    buf_free(&row.meta);
  }
}

static void device_ids_keep_their_bytes(void **state) {
  struct outbox_fixture *fixture = *state;
  static const char *const ids[] = {"a/b", ":",     "#",    "+", "%2F", "{t}", "|",        "\xF0\x9F\x98\x80", "..", "'", "\"",
                                    "\\",  "{a,b}", "NULL", " ", "a b", "$1",  "\xC3\xA9", "e\xCC\x81",        "A",  "a"};
  struct transition entries[LENGTH(ids)];
  struct str devices[LENGTH(ids)];
  for (size_t i = 0; i < LENGTH(ids); i++) {
    entries[i] = online_at(ids[i], 1000 + (int64_t)i);
    devices[i] = str_from(ids[i]);
  }
  struct outbox_counts counts = append_all(fixture->client, entries, LENGTH(ids));
  assert_int_equal(counts.online, LENGTH(ids));
  struct device_row rows[LENGTH(ids)];
  assert_status(STATUS_OK, outbox_device_rows(fixture->client, STR_LIT("t1"), devices, LENGTH(ids), rows));
  for (size_t i = 0; i < LENGTH(ids); i++) {
    assert_true(rows[i].found);
    assert_int_equal(rows[i].session.ms, 1000 + (int64_t)i);
    assert_string_equal(sql_text(&fixture->database, "SELECT aggregateid FROM presence.outbox WHERE device = $1", ids[i], NULL),
                        text_format("t1/%s", ids[i]));
  }
}

static void rows_tell_the_last_known_state(void **state) {
  struct outbox_fixture *fixture = *state;
  struct transition entries[] = {online_at("on", 100), offline_at("off", 200), online_at("other", 300)};
  entries[1].last_seen_ms = TIME_MS_LOST;
  entries[1].reason = REASON_STATE_LOST;
  entries[2].tenant = STR_LIT("t2");
  (void)append_all(fixture->client, entries, 3);
  const struct str devices[] = {STR_LIT("off"), STR_LIT("other"), STR_LIT("on"), STR_LIT("off")};
  struct device_row rows[4];
  assert_status(STATUS_OK, outbox_device_rows(fixture->client, STR_LIT("t1"), devices, 4, rows));
  assert_true(rows[0].found && !rows[0].online);
  assert_int_equal(rows[0].session.ms, 200);
  assert_int_equal(rows[0].online_since_ms, 200);
  assert_int_equal(rows[0].last_seen_ms, TIME_MS_LOST);
  assert_int_equal(rows[0].offline_at_ms, 1700);
  assert_int_equal(rows[0].ttl_ms, 1000);
  assert_int_equal(rows[0].reason, REASON_STATE_LOST);
  assert_false(rows[1].found); /* another tenant's */
  assert_true(rows[2].found && rows[2].online);
  assert_int_equal(rows[2].offline_at_ms, TIME_MS_LOST);
  assert_int_equal(rows[2].reason, REASON_NONE);
  assert_true(rows[3].found); /* asked twice */
  assert_string_equal(sql_text(&fixture->database, "SELECT tenant, known FROM presence.tenant_stats ORDER BY 1", NULL),
                      "t1 2\nt2 1");
}

static void the_last_session_is_remembered(void **state) {
  struct outbox_fixture *fixture = *state;
  struct session_id session = {7, 7};
  assert_status(STATUS_OK, outbox_last_session(fixture->client, 3, &session));
  assert_int_equal(session_id_compare(session, SESSION_ID_NONE), 0);
  struct transition entries[] = {online_at("a", 900), online_at("b", 1000), online_at("c", 950)};
  entries[0].session.seq = 77;
  (void)append_all(fixture->client, entries, 3);
  (void)append_all(fixture->client, entries, 1);
  assert_status(STATUS_OK, outbox_last_session(fixture->client, 3, &session));
  assert_int_equal(session_id_compare(session, (struct session_id){1000, 0}), 0);
  assert_status(STATUS_OK, outbox_last_session(fixture->client, 4, &session));
  assert_int_equal(session_id_compare(session, SESSION_ID_NONE), 0);
}

/* The host's clock jumps back: recorded_at stays where it was, so that it never falls while seq grows. */
static void recorded_at_never_falls(void **state) {
  struct outbox_fixture *fixture = *state;
  struct transition entries[] = {online_at("a", 1), online_at("b", 2)};
  (void)append_all(fixture->client, &entries[0], 1);
  PQclear(sql_query(&fixture->database, "UPDATE presence.outbox_clock SET recorded_at = recorded_at + interval '1 hour'", NULL));
  (void)append_all(fixture->client, &entries[1], 1);
  assert_string_equal(sql_text(&fixture->database,
                               "SELECT recorded_at > clock_timestamp() + interval '50 minutes',"
                               " recorded_at = (SELECT recorded_at FROM presence.outbox_clock)"
                               " FROM presence.outbox WHERE device = 'b'",
                               NULL),
                      "t t");
}

/* The stream is trimmed after COMMIT, so COMMIT must mean the disk, whatever the database's default; the plans' settings end with
 * the call. */
static void a_commit_is_durable(void **state) {
  struct database *database = &((struct outbox_fixture *)*state)->database;
  PQclear(sql_query(database, "SET synchronous_commit = off", NULL));
  PQclear(sql_query(database, "BEGIN", NULL));
  PQclear(sql_query(database, "SELECT presence.append(0,'{}','{}','{}','{}','{}','{}','{}','{}','{}','{}','{}','{}','{}','{}')",
                    NULL));
  assert_string_equal(sql_text(database, "SHOW synchronous_commit", NULL), "on");
  assert_string_equal(sql_text(database, "SHOW enable_seqscan", NULL), "on");
  PQclear(sql_query(database, "COMMIT", NULL));
  assert_string_equal(sql_text(database, "SHOW synchronous_commit", NULL), "off");
}

static void limits_of_a_call(void **state) {
  struct outbox_fixture *fixture = *state;
  struct outbox_counts counts;
  assert_status(STATUS_OK, outbox_append(fixture->client, 3, NULL, 0, &counts));
  struct transition *entries = calloc(OUTBOX_APPEND_MAX + 1, sizeof *entries);
  assert_non_null(entries);
  for (size_t i = 0; i <= OUTBOX_APPEND_MAX; i++) entries[i] = online_at(text_format("d%zu", i), 1 + (int64_t)i);
  assert_status(STATUS_TOO_LARGE, outbox_append(fixture->client, 3, entries, OUTBOX_APPEND_MAX + 1, &counts));
  counts = append_all(fixture->client, entries, OUTBOX_APPEND_MAX);
  assert_int_equal(counts.online, OUTBOX_APPEND_MAX);
  free(entries);
}

struct append_run {
  struct pg_client *client;
  struct transition entry;
  enum status status;
};

static void *append_one(void *argument) {
  struct append_run *run = argument;
  struct outbox_counts counts;
  run->status = outbox_append(run->client, 3, &run->entry, 1, &counts);
  return NULL;
}

/* Somebody edits the device's row by hand while it is appended to: the guard moves on all the same, so that a repeat is one. */
static void a_row_edited_meanwhile_moves_on(void **state) {
  struct outbox_fixture *fixture = *state;
  struct append_run run = {.client = outbox_client(fixture), .entry = offline_at("d", 100)};
  const struct transition open = online_at("d", 100);
  pthread_t thread;
  (void)append_all(fixture->client, &open, 1);
  PQclear(sql_query(&fixture->database, "BEGIN", NULL));
  PQclear(sql_query(&fixture->database, "UPDATE presence.device SET first_seen = first_seen - interval '1 day'", NULL));
  assert_int_equal(pthread_create(&thread, NULL, append_one, &run), 0);
  WAIT_UNTIL(sql_integer(&fixture->database, "SELECT count(*) FROM pg_locks WHERE NOT granted", NULL) == 1, 10000);
  PQclear(sql_query(&fixture->database, "COMMIT", NULL));
  assert_int_equal(pthread_join(thread, NULL), 0);
  pg_client_free(run.client);
  assert_int_equal(run.status, STATUS_OK);
  assert_int_equal(append_all(fixture->client, &run.entry, 1).repeats, 1);
  assert_string_equal(outbox_lines(&fixture->database), "d 100-0 online\nd 100-0 timeout");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(appended_once, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(a_row_edited_meanwhile_moves_on, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(guard_moves_forward_only, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(sessions_are_compared_by_seq_too, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(payloads_are_the_contracts, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(a_lost_end_is_told_as_lost, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(no_metadata_is_null, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(metadata_keeps_its_bytes, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(device_ids_keep_their_bytes, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(rows_tell_the_last_known_state, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(the_last_session_is_remembered, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(recorded_at_never_falls, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(a_commit_is_durable, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(limits_of_a_call, outbox_setup, outbox_teardown),
  };
  return cmocka_run_group_tests_name("outbox", tests, NULL, NULL);
}
