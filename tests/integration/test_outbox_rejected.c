/* Transitions that PostgreSQL refuses: they are put aside alone, and nothing waits for them. */
#include "support/test.h"

#include "support/outbox_fixture.h"
#include "support/unit.h"

#include <stdlib.h>

/* A time beyond what timestamptz holds. */
static struct transition poisoned_at(const char *device, int64_t ms) {
  struct transition entry = offline_at(device, ms);
  entry.offline_at_ms = INT64_MAX;
  return entry;
}

static void only_the_poisoned_row_is_put_aside(void **state) {
  struct outbox_fixture *fixture = *state;
  enum { COUNT = 100 };
  struct transition entries[COUNT];
  for (int i = 0; i < COUNT; i++) entries[i] = online_at(text_format("d%d", i), 1000 + i);
  entries[41] = poisoned_at("bad", 2000);
  struct outbox_counts counts = append_all(fixture->client, entries, COUNT);
  assert_int_equal(counts.online, COUNT - 1);
  assert_int_equal(counts.rejected, 1);
  struct database *database = &fixture->database;
  assert_int_equal(sql_integer(database, "SELECT count(*) FROM presence.outbox", NULL), COUNT - 1);
  assert_string_equal(sql_text(database,
                               "SELECT partition, sqlstate, retryable, fields->>'device', fields->>'offline_at_ms'"
                               " FROM presence.rejected",
                               NULL),
                      "3 22008 t bad 9223372036854775807");
  /* The order of the others is the stream's. */
  assert_string_equal(sql_text(database, "SELECT device FROM presence.outbox ORDER BY seq LIMIT 2 OFFSET 40", NULL), "d40\nd42");
  counts = append_all(fixture->client, entries, COUNT); /* a crash before the trim */
  assert_int_equal(counts.repeats, COUNT - 1);
  assert_int_equal(sql_integer(database, "SELECT count(*) FROM presence.rejected", NULL), 1);
}

static void all_of_a_batch_may_be_poisoned(void **state) {
  struct outbox_fixture *fixture = *state;
  const struct transition entries[] = {poisoned_at("a", 1), poisoned_at("b", 2), poisoned_at("c", 3)};
  struct outbox_counts counts = append_all(fixture->client, entries, 3);
  assert_int_equal(counts.rejected, 3);
  assert_int_equal(sql_integer(&fixture->database, "SELECT count(*) FROM presence.outbox", NULL), 0);
}

/* None of these can come through the API; whatever writes to the stream must not stall it. */
static void texts_that_are_none(void **state) {
  struct outbox_fixture *fixture = *state;
  struct transition entries[] = {online_at("a", 1), online_at("b", 2), online_at("c", 3), online_at("good", 4)};
  entries[0].device = STR_LIT("bad\xFFutf8");
  entries[1].device = STR_LIT("nul\0inside");
  entries[2].meta = STR_LIT("{\"no\": json");
  struct outbox_counts counts = append_all(fixture->client, entries, 4);
  assert_int_equal(counts.rejected, 3);
  assert_int_equal(counts.online, 1);
  static const char *const shown[] = {"\"device\":\"bad\\\\xFFutf8\"", "\"device\":\"nul\\u0000inside\"", "\"device\":\"c\""};
  for (size_t i = 0; i < LENGTH(shown); i++) {
    assert_string_equal(sql_text(&fixture->database, "SELECT retryable FROM presence.rejected WHERE strpos(fields::text, $1) > 0",
                                 shown[i], NULL),
                        i == 0 ? "f" : "t");
  }
}

/* What is wrong with the server is not wrong with a row: nothing is put aside, everything is kept for later. */
static void a_sick_server_rejects_nothing(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  struct transition entry = online_at("d", 1);
  struct outbox_counts counts;
  PQclear(sql_query(database, "ALTER TABLE presence.outbox RENAME TO away", NULL));
  assert_status(STATUS_UNAVAILABLE, outbox_append(fixture->client, 3, &entry, 1, &counts));
  assert_non_null(strstr(pg_client_error(fixture->client), "presence.outbox"));
  PQclear(sql_query(database, "ALTER TABLE presence.away RENAME TO outbox", NULL));
  assert_int_equal(sql_integer(database, "SELECT count(*) FROM presence.rejected", NULL), 0);
  counts = append_all(fixture->client, &entry, 1);
  assert_int_equal(counts.online, 1);
}

static void a_retry_appends(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  struct transition entries[] = {online_at("d", 1), offline_at("d", 1), online_at("e", 5)};
  entries[0].meta = entries[1].meta = STR_LIT("{\"a\" : \"\\n\"}");
  entries[1].reason = REASON_DISCONNECT;
  PQclear(sql_query(database, "ALTER TABLE presence.device ADD CONSTRAINT test CHECK (device <> 'd')", NULL));
  struct outbox_counts counts = append_all(fixture->client, entries, 3);
  assert_int_equal(counts.rejected, 2);
  PGresult *refused = PQexec(database->connection, "SELECT presence.retry_rejected(min(id)) FROM presence.rejected");
  assert_string_equal(PQresultErrorField(refused, PG_DIAG_SQLSTATE), "23514");
  PQclear(refused);
  assert_int_equal(sql_integer(database, "SELECT count(*) FROM presence.rejected", NULL), 2);
  PQclear(sql_query(database, "ALTER TABLE presence.device DROP CONSTRAINT test", NULL));
  assert_string_equal(
      sql_text(database, "SELECT presence.retry_rejected(id) FROM (SELECT id FROM presence.rejected ORDER BY id) AS r", NULL),
      "appended\nappended");
  assert_string_equal(outbox_lines(database), "e 5-0 online\nd 1-0 online\nd 1-0 disconnect");
  assert_int_equal(sql_integer(database, "SELECT count(*) FROM presence.rejected", NULL), 0);
  counts = append_all(fixture->client, entries, 3); /* the row says the same as if it had never been refused */
  assert_int_equal(counts.repeats, 3);
  struct str device = STR_LIT("d");
  struct device_row row;
  assert_status(STATUS_OK, outbox_device_rows(fixture->client, STR_LIT("t1"), &device, 1, &row));
  assert_true(str_equal(buf_str(&row.meta), entries[0].meta));
  assert_int_equal(row.offline_at_ms, entries[1].offline_at_ms);
  buf_free(&row.meta);
}

static void a_retry_that_comes_too_late(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  struct transition entry = offline_at("d", 1), next = online_at("d", 2);
  PQclear(sql_query(database, "ALTER TABLE presence.device ADD CONSTRAINT test CHECK (device <> 'd')", NULL));
  (void)append_all(fixture->client, &entry, 1);
  PQclear(sql_query(database, "ALTER TABLE presence.device DROP CONSTRAINT test", NULL));
  (void)append_all(fixture->client, &next, 1);
  assert_string_equal(sql_text(database, "SELECT presence.retry_rejected(id) FROM presence.rejected", NULL), "repeat");
  assert_string_equal(outbox_lines(database), "d 2-0 online");
  assert_int_equal(sql_integer(database, "SELECT count(*) FROM presence.rejected", NULL), 0);
}

static void entries_that_do_not_decode(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  for (int i = 0; i < 2; i++) {
    assert_status(STATUS_OK, outbox_reject(fixture->client, 2, (struct session_id){1790000000000, 7},
                                           STR_LIT("{\"what\":\"\\u0000?\"}"), "no field type"));
  }
  assert_string_equal(sql_text(database, "SELECT partition, entry, error, retryable, fields FROM presence.rejected", NULL),
                      "2 1790000000000-7 no field type f {\"what\":\"\\u0000?\"}");
  PGresult *refused = PQexec(database->connection, "SELECT presence.retry_rejected(id) FROM presence.rejected");
  assert_string_equal(PQresultErrorField(refused, PG_DIAG_SQLSTATE), "55000");
  PQclear(refused);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(only_the_poisoned_row_is_put_aside, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(all_of_a_batch_may_be_poisoned, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(texts_that_are_none, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(a_sick_server_rejects_nothing, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(a_retry_appends, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(a_retry_that_comes_too_late, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(entries_that_do_not_decode, outbox_setup, outbox_teardown),
  };
  return cmocka_run_group_tests_name("outbox_rejected", tests, NULL, NULL);
}
