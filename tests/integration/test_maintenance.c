/* The outbox's days and what goes with age. */
#include "support/test.h"

#include "support/outbox_fixture.h"
#include "support/unit.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static void maintain(struct outbox_fixture *fixture, int64_t retention_days, int64_t forget_days) {
  enum status status = outbox_maintain(fixture->client, retention_days, forget_days);
  if (status != STATUS_OK) fail_msg("%s: %s", status_name(status), pg_client_error(fixture->client));
}

static void run(struct database *database, const char *statement) { PQclear(sql_query(database, statement, NULL)); }

/* Puts a row that was recorded some days ago; its seq is drawn now. */
static void put_old_row(struct database *database, const char *device, int recorded_days_ago, int occurred_days_ago) {
  PQclear(sql_query(
      database,
      "INSERT INTO presence.outbox (seq, id, aggregateid, type, payload, tenant, device, session, occurred_at, recorded_at)"
      " VALUES (nextval('presence.outbox_seq'), gen_random_uuid(), 't1/' || $1, 'presence.device.online', '{}', 't1', $1,"
      " '1-0', now() - $2 * interval '1 day', now() - $3 * interval '1 day')",
      device, text_format("%d", occurred_days_ago), text_format("%d", recorded_days_ago), NULL));
}

static const char *devices_kept(struct database *database) {
  return sql_text(database, "SELECT coalesce(string_agg(device, ' ' ORDER BY seq), '') FROM presence.outbox", NULL);
}

static int64_t days_made(struct database *database) {
  return sql_integer(database, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'presence.outbox'::regclass", NULL) - 1;
}

static void days_are_made_ahead(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  run(database,
      "DO $$ DECLARE d text; BEGIN FOR d IN SELECT inhrelid::regclass FROM pg_inherits WHERE inhparent ="
      " 'presence.outbox'::regclass AND inhrelid <> 'presence.outbox_default'::regclass LOOP EXECUTE 'DROP TABLE ' || d;"
      " END LOOP; END $$");
  assert_int_equal(days_made(database), 0);
  maintain(fixture, 7, 0);
  assert_int_equal(days_made(database), 4);
  maintain(fixture, 7, 0);
  assert_int_equal(days_made(database), 4);
  struct transition entry = online_at("d", 1);
  (void)append_all(fixture->client, &entry, 1);
  assert_string_equal(
      sql_text(database,
               "SELECT tableoid::regclass = to_regclass(to_char(now() AT TIME ZONE 'UTC', '\"presence.outbox_\"YYYYMMDD'))"
               " FROM presence.outbox",
               NULL),
      "t");
}

/* Takes today's partition away; its rows go to the default one, as if the day had never been made. */
static void unmake_today(struct database *database) {
  run(database, "DO $$ DECLARE day text := 'presence.' || to_char(now() AT TIME ZONE 'UTC', '\"outbox_\"YYYYMMDD'); BEGIN"
                " LOCK TABLE presence.outbox IN ACCESS EXCLUSIVE MODE;"
                " EXECUTE 'ALTER TABLE presence.outbox DETACH PARTITION ' || day;"
                " EXECUTE 'INSERT INTO presence.outbox SELECT * FROM ' || day;"
                " EXECUTE 'DROP TABLE ' || day; END $$");
}

static void a_missing_day_is_caught_and_made(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  const struct transition entries[] = {online_at("d", 1), offline_at("d", 1)};
  unmake_today(database);
  (void)append_all(fixture->client, &entries[0], 1);
  assert_int_equal(sql_integer(database, "SELECT count(*) FROM ONLY presence.outbox_default", NULL), 1);
  const char *before = sql_text(database, "SELECT * FROM presence.outbox", NULL);
  maintain(fixture, 7, 0);
  assert_int_equal(sql_integer(database, "SELECT count(*) FROM ONLY presence.outbox_default", NULL), 0);
  assert_string_equal(sql_text(database, "SELECT * FROM presence.outbox", NULL), before);
  (void)append_all(fixture->client, entries, 2);
  assert_string_equal(outbox_lines(database), "d 1-0 online\nd 1-0 timeout");
}

struct writer {
  pthread_t thread;
  struct pg_client *client;
  atomic_bool stop;
  int64_t sessions;
};

static void *write_on(void *argument) {
  struct writer *writer = argument;
  while (!atomic_load(&writer->stop)) {
    const struct transition entries[] = {online_at("w", 1 + writer->sessions), offline_at("w", 1 + writer->sessions)};
    struct outbox_counts counts;
    if (outbox_append(writer->client, 3, entries, 2, &counts) != STATUS_OK) return (void *)pg_client_error(writer->client);
    if (counts.rejected > 0) return "a row was rejected";
    writer->sessions++;
  }
  return NULL;
}

static void a_day_is_made_under_load(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  struct writer writer = {.client = outbox_client(fixture)};
  assert_int_equal(pthread_create(&writer.thread, NULL, write_on, &writer), 0);
  for (int i = 0; i < 15; i++) {
    unmake_today(database);
    WAIT_UNTIL(sql_integer(database, "SELECT count(*) FROM ONLY presence.outbox_default", NULL) > 20 * i, 10000);
    maintain(fixture, 7, 0);
  }
  atomic_store(&writer.stop, true);
  void *error;
  assert_int_equal(pthread_join(writer.thread, &error), 0);
  if (error != NULL) fail_msg("%s", (const char *)error);
  pg_client_free(writer.client);
  assert_int_equal(sql_integer(database, "SELECT count(*) FROM ONLY presence.outbox_default", NULL), 0);
  assert_int_equal(sql_integer(database, "SELECT count(*) FROM presence.outbox", NULL), 2 * writer.sessions);
  assert_int_equal(sql_integer(database, "SELECT count(DISTINCT seq) FROM presence.outbox", NULL), 2 * writer.sessions);
}

static void old_days_are_dropped(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  run(database, "SELECT presence.make_day(((now() - d * interval '1 day') AT TIME ZONE 'UTC')::date) FROM "
                "unnest('{10,9,8,6}'::int[]) AS d");
  run(database, "SELECT presence.create_consumer('left_behind', 'oldest'), presence.create_consumer('never', '0')");
  put_old_row(database, "ten", 10, 10);
  put_old_row(database, "nine", 9, 9);
  put_old_row(database, "eight", 8, 8);
  put_old_row(database, "six", 6, 6);
  struct transition entry = online_at("today", 1);
  (void)append_all(fixture->client, &entry, 1);
  run(database, "SELECT presence.commit('left_behind', 2)");
  maintain(fixture, 9, 0); /* the day before nine days ago is over for longer than nine days */
  assert_string_equal(devices_kept(database), "nine eight six today");
  assert_string_equal(sql_text(database, "SELECT device FROM presence.poll('left_behind', 1)", NULL),
                      "eight"); /* not behind yet */
  maintain(fixture, 7, 0);
  assert_string_equal(devices_kept(database), "six today");
  assert_int_equal(sql_integer(database, "SELECT dropped_seq FROM presence.outbox_horizon", NULL), 3);
  assert_int_equal(days_made(database), 5);
  PGresult *expired = PQexec(database->connection, "SELECT * FROM presence.poll('left_behind', 10)");
  assert_string_equal(PQresultErrorField(expired, PG_DIAG_SQLSTATE), "PR410");
  assert_string_equal(PQresultErrorField(expired, PG_DIAG_MESSAGE_PRIMARY),
                      "cursor 2 is older than what is kept: the oldest seq is 4");
  PQclear(expired);
  run(database, "SELECT presence.seek('left_behind', 3)");
  assert_string_equal(sql_text(database, "SELECT device FROM presence.poll('left_behind', 10)", NULL), "six\ntoday");
}

/* Nothing is left, and still it is known up to where everything has gone. */
static void an_emptied_outbox_keeps_its_place(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  put_old_row(database, "old", 30, 30);
  put_old_row(database, "old", 30, 30);
  maintain(fixture, 7, 0);
  assert_string_equal(devices_kept(database), "");
  assert_string_equal(sql_text(database, "SELECT presence.oldest_seq(), presence.newest_seq()", NULL), "3 2");
  assert_string_equal(
      sql_text(database, "SELECT presence.create_consumer('o', 'oldest'), presence.create_consumer('n', 'now')", NULL), "2 2");
}

static void the_default_partition_is_cleaned_by_rows(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  put_old_row(database, "twenty", 20, 20);
  put_old_row(database, "ten", 10, 10);
  put_old_row(database, "five", 5, 5);
  maintain(fixture, 7, 0);
  assert_string_equal(devices_kept(database), "five");
  assert_int_equal(sql_integer(database, "SELECT dropped_seq FROM presence.outbox_horizon", NULL), 2);
}

/* The host's clock was a year ahead for a while: recorded_at stays there, and age is judged by when events occurred. What is
 * deleted is a run from the lowest seq on, so that no hole is left. */
static void a_clock_that_jumped_ahead_a_year(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  run(database, "UPDATE presence.outbox_clock SET recorded_at = date_trunc('milliseconds', now()) + interval '1 year'");
  int64_t now_ms = sql_integer(database, "SELECT presence.to_ms(now())", NULL), day_ms = 86400000;
  struct transition entries[] = {online_at("old", now_ms - 9 * day_ms), online_at("older", now_ms - 10 * day_ms),
                                 online_at("fresh", now_ms - day_ms), online_at("old_after", now_ms - 9 * day_ms)};
  (void)append_all(fixture->client, entries, 4);
  assert_int_equal(sql_integer(database, "SELECT count(*) FROM ONLY presence.outbox_default", NULL), 4);
  maintain(fixture, 7, 0);
  assert_string_equal(devices_kept(database), "fresh old_after");
  struct transition next = online_at("next", now_ms);
  (void)append_all(fixture->client, &next, 1);
  assert_string_equal(sql_text(database, "SELECT bool_and(recorded_at > now() + interval '364 days') FROM presence.outbox", NULL),
                      "t");
  /* The year has passed: its day can be made although rows of it are in the default partition. */
  run(database, "SELECT presence.make_day((recorded_at AT TIME ZONE 'UTC')::date) FROM presence.outbox_clock");
  assert_int_equal(sql_integer(database, "SELECT count(*) FROM ONLY presence.outbox_default", NULL), 0);
  assert_string_equal(devices_kept(database), "fresh old_after next");
}

static void a_long_reader_is_not_waited_for(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  run(database, "SELECT presence.make_day(((now() - interval '20 days') AT TIME ZONE 'UTC')::date)");
  put_old_row(database, "old", 20, 20);
  unmake_today(database);
  struct database reader = {.connection = database_connect(database)};
  run(&reader, "BEGIN");
  run(&reader, "SELECT * FROM presence.outbox");
  int64_t begun_ms = wait_now_ms();
  maintain(fixture, 7, 0);
  assert_true(wait_now_ms() - begun_ms < wait_limit_ms(15000));
  assert_string_equal(devices_kept(database), "old");
  run(&reader, "COMMIT");
  maintain(fixture, 7, 0);
  assert_string_equal(devices_kept(database), "");
  PQfinish(reader.connection);
}

static void long_gone_devices_are_forgotten(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  int64_t now_ms = sql_integer(database, "SELECT presence.to_ms(now())", NULL), day_ms = 86400000;
  const struct transition entries[] = {online_at("on", now_ms - 90 * day_ms), offline_at("gone", now_ms - 31 * day_ms),
                                       offline_at("lately", now_ms - 29 * day_ms)};
  (void)append_all(fixture->client, entries, 3);
  maintain(fixture, 7, 0); /* 0: never */
  assert_int_equal(sql_integer(database, "SELECT known FROM presence.tenant_stats", NULL), 3);
  maintain(fixture, 7, 30);
  assert_string_equal(sql_text(database, "SELECT device FROM presence.device ORDER BY 1", NULL), "lately\non");
  assert_int_equal(sql_integer(database, "SELECT known FROM presence.tenant_stats", NULL), 2);
}

static void *maintain_often(void *argument) {
  for (int i = 0; i < 10; i++)
    if (outbox_maintain(argument, 7, 30) != STATUS_OK) return (void *)pg_client_error(argument);
  return NULL;
}

static void several_at_once_take_turns(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  for (int day = 8; day < 28; day++) {
    run(database, text_format("SELECT presence.make_day(((now() - interval '%d days') AT TIME ZONE 'UTC')::date)", day));
    put_old_row(database, "old", day, day);
  }
  unmake_today(database);
  struct pg_client *clients[3];
  pthread_t threads[3];
  for (int i = 0; i < 3; i++) {
    clients[i] = outbox_client(fixture);
    assert_int_equal(pthread_create(&threads[i], NULL, maintain_often, clients[i]), 0);
  }
  for (int i = 0; i < 3; i++) {
    void *error;
    assert_int_equal(pthread_join(threads[i], &error), 0);
    if (error != NULL) fail_msg("%s", (const char *)error);
    pg_client_free(clients[i]);
  }
  assert_string_equal(devices_kept(database), "");
  assert_int_equal(days_made(database), 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(days_are_made_ahead, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(a_missing_day_is_caught_and_made, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(a_day_is_made_under_load, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(old_days_are_dropped, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(an_emptied_outbox_keeps_its_place, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(the_default_partition_is_cleaned_by_rows, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(a_clock_that_jumped_ahead_a_year, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(a_long_reader_is_not_waited_for, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(long_gone_devices_are_forgotten, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(several_at_once_take_turns, outbox_setup, outbox_teardown),
  };
  return cmocka_run_group_tests_name("maintenance", tests, NULL, NULL);
}
