/* Competing workers: claim, ack, nack, dead letters. */
#include "support/test.h"

#include "support/forked.h"
#include "support/outbox_fixture.h"
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void run(struct database *database, const char *statement) { PQclear(sql_query(database, statement, NULL)); }

/* Rows 1 to n: sessions of the devices a, b, c … in turn, each device's first online, then offline, and so on. */
static void append_rows(struct outbox_fixture *fixture, int devices, int rows) {
  for (int i = 0; i < rows; i++) {
    const char *device = text_format("%c", 'a' + i % devices);
    int round = i / devices;
    struct transition entry = round % 2 == 0 ? online_at(device, 10 + round) : offline_at(device, 10 + round - 1);
    (void)append_all(fixture->client, &entry, 1);
  }
}

/* "seq/attempts …" of what a claim gives. */
static const char *claim(struct database *database, const char *most, const char *lease) {
  return sql_text(database,
                  "SELECT coalesce(string_agg(seq || '/' || attempts, ' ' ORDER BY seq), '') FROM presence.claim('g', $1::int, "
                  "$2::interval)",
                  most, lease, NULL);
}

/* Rows come again at once after a failed attempt. */
static void without_backoff(struct database *database, int max_attempts) {
  run(database, text_format("SELECT presence.set_group('g', %d, '0', '0')", max_attempts));
}

static void a_row_is_leased_until_acknowledged(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  append_rows(fixture, 5, 5);
  assert_string_equal(sql_text(database, "SELECT presence.create_group('g', 'oldest')", NULL), "0");
  assert_string_equal(claim(database, "3", "1 hour"), "1/1 2/1 3/1");
  assert_string_equal(claim(database, "3", "1 hour"), "4/1 5/1");
  assert_string_equal(claim(database, "3", "1 hour"), "");
  assert_string_equal(sql_text(database, "SELECT presence.ack('g', '{1,3,77}')", NULL), "2");
  assert_string_equal(sql_text(database, "SELECT presence.ack('g', '{1}')", NULL), "0"); /* acknowledged already */
  assert_string_equal(sql_text(database, "SELECT position FROM presence.reader", NULL), "1");
  assert_string_equal(sql_text(database, "SELECT presence.ack('g', '{2,4,5}')", NULL), "3");
  assert_string_equal(
      sql_text(database, "SELECT kind, name, position, behind, unread_since IS NULL, lost FROM presence.reader", NULL),
      "group g 5 0 t f");
  append_rows(fixture, 1, 2); /* a's first is there; the second is new */
  assert_string_equal(claim(database, "9", "1 hour"), "6/1");
}

static void a_lease_that_is_over_comes_again(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  append_rows(fixture, 2, 2);
  run(database, "SELECT presence.create_group('g', 'oldest')");
  without_backoff(database, 10);
  assert_string_equal(claim(database, "1", "1 ms"), "1/1");
  const char *again = "";
  WAIT_UNTIL_TEXT(strcmp(again = claim(database, "1", "1 hour"), "1/2") == 0 || *again == '\0', 5000, again);
  assert_string_equal(claim(database, "9", "1 hour"), "2/1");
  assert_string_equal(sql_text(database, "SELECT presence.ack('g', '{1}')", NULL), "1"); /* of the first one: good as well */
}

/* The pause doubles with each attempt, up to the longest; a lease that ran out waits as long. */
static void a_failed_row_backs_off(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  append_rows(fixture, 1, 1);
  run(database, "SELECT presence.create_group('g', 'oldest'), presence.set_group('g', 10, '8 s', '30 s')");
  static const int pauses_s[] = {8, 16, 30, 30};
  for (size_t i = 0; i < LENGTH(pauses_s); i++) {
    assert_string_equal(claim(database, "1", "100 s"), text_format("1/%zu", i + 1));
    assert_int_equal(
        sql_integer(database, "SELECT round(extract(epoch FROM due_at - now()) / 2) * 2 FROM presence.worker_task", NULL),
        100 + pauses_s[i]);
    assert_string_equal(sql_text(database, "SELECT presence.nack('g', '{1}', 'no route')", NULL), "1");
    assert_string_equal(claim(database, "1", "100 s"), "");
    assert_int_equal(
        sql_integer(database, "SELECT round(extract(epoch FROM due_at - now()) / 2) * 2 FROM presence.worker_task", NULL),
        pauses_s[i]);
    run(database, "UPDATE presence.worker_task SET due_at = now()");
  }
  /* The host's clock was far ahead when the lease was given. */
  assert_string_equal(claim(database, "1", "100 s"), "1/5");
  run(database, "UPDATE presence.worker_task SET due_at = due_at + interval '1 year'");
  assert_string_equal(claim(database, "1", "100 s"), "1/6");
}

static void a_device_is_handled_in_order(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  append_rows(fixture, 2, 8); /* a: 1 3 5 7, b: 2 4 6 8 */
  run(database, "SELECT presence.create_group('g', 'oldest')");
  without_backoff(database, 2);
  assert_string_equal(claim(database, "9", "1 hour"), "1/1 2/1");
  assert_string_equal(claim(database, "9", "1 hour"), "");
  run(database, "SELECT presence.ack('g', '{2}')");
  assert_string_equal(claim(database, "9", "1 hour"), "4/1");
  run(database, "SELECT presence.nack('g', '{1}', 'busy')");
  assert_string_equal(claim(database, "9", "1 hour"), "1/2");
  run(database, "SELECT presence.nack('g', '{1}', 'busy')"); /* given up: the device goes on */
  assert_string_equal(claim(database, "9", "1 hour"), "3/1");
}

static void what_always_fails_is_a_dead_letter(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  append_rows(fixture, 3, 3);
  run(database, "SELECT presence.create_group('g', 'oldest')");
  without_backoff(database, 2);
  for (int i = 1; i <= 2; i++) {
    assert_string_equal(claim(database, "1", "1 hour"), text_format("1/%d", i));
    run(database, "SELECT presence.nack('g', '{1}', 'no such charger')");
  }
  assert_string_equal(claim(database, "2", "1 ms"), "2/1 3/1");
  run(database, "SELECT presence.ack('g', '{3}')");
  const char *left = "";
  for (int i = 0; i < 2; i++) { /* the last attempt of 2 runs out, too; nobody says why */
    WAIT_UNTIL_TEXT(
        strcmp(left = sql_text(database, "SELECT count(*) FROM presence.worker_task WHERE due_at <= now()", NULL), "1") == 0,
        5000, left);
    assert_string_equal(claim(database, "2", "1 ms"), i == 0 ? "2/2" : "");
  }
  assert_string_equal(
      sql_text(database, "SELECT seq, device, type, payload->>'device', attempts, error FROM presence.dead_letter ORDER BY seq",
               NULL),
      "1 a presence.device.online a 2 no such charger\n2 b presence.device.online b 2 not acknowledged in time");
  assert_string_equal(sql_text(database, "SELECT position FROM presence.reader", NULL), "3"); /* it holds nothing back */
  assert_string_equal(sql_text(database, "SELECT presence.discard_dead('g', '{2}')", NULL), "1");
  assert_string_equal(sql_text(database, "SELECT presence.retry_dead('g')", NULL), "1");
  assert_string_equal(sql_text(database, "SELECT count(*) FROM presence.dead_letter", NULL), "0");
  assert_string_equal(claim(database, "9", "1 hour"), "1/1");
  assert_string_equal(sql_text(database, "SELECT presence.ack('g', '{1}')", NULL), "1");
}

static void what_is_wrong_is_an_error(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  run(database, "SELECT presence.create_group('g', 'oldest')");
  static const struct {
    const char *statement, *sqlstate;
  } errors[] = {
      {"SELECT presence.create_group('g', 'oldest')", "23505"},   {"SELECT presence.create_group('', 'oldest')", "23514"},
      {"SELECT presence.create_group('h', 'newest')", "22023"},   {"SELECT presence.claim('unknown', 1, '1 s')", "P0002"},
      {"SELECT presence.claim('g', 0, '1 s')", "22023"},          {"SELECT presence.claim('g', 1001, '1 s')", "22023"},
      {"SELECT presence.claim('g', NULL, '1 s')", "22023"},       {"SELECT presence.claim('g', 1, '0')", "22023"},
      {"SELECT presence.claim('g', 1, '25 hours')", "22023"},     {"SELECT presence.ack('unknown', '{1}')", "P0002"},
      {"SELECT presence.nack('unknown', '{1}', '')", "P0002"},    {"SELECT presence.retry_dead('unknown')", "P0002"},
      {"SELECT presence.discard_dead('unknown', '{}')", "P0002"}, {"SELECT presence.seek_group('unknown', 1)", "P0002"},
      {"SELECT presence.seek_group('g', -1)", "23514"},           {"SELECT presence.set_group('unknown', 1, '0', '0')", "P0002"},
      {"SELECT presence.set_group('g', 0, '0', '0')", "23514"},   {"SELECT presence.set_group('g', 1, '2 s', '1 s')", "23514"},
  };
  for (size_t i = 0; i < LENGTH(errors); i++) {
    if (strcmp(sql_error(database, errors[i].statement), errors[i].sqlstate) != 0)
      fail_msg("%s: %s", errors[i].statement, sql_error(database, errors[i].statement));
  }
  run(database, "BEGIN ISOLATION LEVEL REPEATABLE READ");
  assert_string_equal(sql_error(database, "SELECT presence.claim('g', 1, '1 s')"), "25000");
  run(database, "ROLLBACK");
  assert_string_equal(sql_text(database, "SELECT presence.drop_group('g'), presence.drop_group('g')", NULL), "t f");
  assert_string_equal(sql_text(database, "SELECT count(*) FROM presence.reader", NULL), "0");
}

/* Its rows are gone, one under way or ones not yet taken: said, never skipped; a seek to what is kept goes on. */
static void a_group_left_behind_is_told(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  append_rows(fixture, 4, 4);
  run(database, "SELECT presence.create_group('g', 'oldest'), presence.create_group('late', 'oldest')");
  assert_string_equal(claim(database, "2", "1 hour"), "1/1 2/1");
  run(database, "SELECT presence.ack('g', '{1}')");
  run(database, "UPDATE presence.outbox_horizon SET dropped_seq = 1");
  run(database, "DELETE FROM presence.outbox WHERE seq <= 1");
  assert_string_equal(sql_error(database, "SELECT presence.claim('late', 1, '1 s')"), "PR410");
  assert_string_equal(sql_text(database, "SELECT name, lost FROM presence.reader ORDER BY 1", NULL), "g f\nlate t");
  assert_string_equal(claim(database, "1", "1 hour"), "3/1"); /* 1 was handled before it went */
  run(database, "UPDATE presence.outbox_horizon SET dropped_seq = 2");
  run(database, "DELETE FROM presence.outbox WHERE seq <= 2");
  PGresult *expired = PQexec(database->connection, "SELECT presence.claim('g', 1, '1 s')");
  assert_string_equal(PQresultErrorField(expired, PG_DIAG_SQLSTATE), "PR410");
  assert_string_equal(PQresultErrorField(expired, PG_DIAG_MESSAGE_PRIMARY),
                      "cursor 1 is older than what is kept: the oldest seq is 3");
  PQclear(expired);
  /* Also one that is about to be given up, and a dead letter whose row is gone. */
  run(database, "UPDATE presence.worker_task SET attempts = 10, due_at = now() WHERE seq = 2");
  assert_string_equal(sql_error(database, "SELECT presence.claim('g', 1, '1 s')"), "PR410");
  assert_string_equal(sql_error(database, "SELECT presence.seek_group('g', 1)"), "PR410");
  run(database, "SELECT presence.seek_group('g', 2)");
  without_backoff(database, 1);
  assert_string_equal(claim(database, "9", "1 hour"), "3/1 4/1");
  run(database, "SELECT presence.nack('g', '{3}', 'no')");
  run(database, "UPDATE presence.outbox_horizon SET dropped_seq = 3");
  run(database, "DELETE FROM presence.outbox WHERE seq <= 3");
  assert_string_equal(sql_error(database, "SELECT presence.retry_dead('g')"), "PR410");
  assert_string_equal(sql_text(database, "SELECT seq FROM presence.dead_letter", NULL), "3");
}

/* While one worker's transaction is open, another gets other rows; what the first rolls back comes again, as if never given. */
static void an_open_claim_holds_nobody_up(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  append_rows(fixture, 6, 6);
  run(database, "SELECT presence.create_group('g', 'oldest')");
  assert_string_equal(claim(database, "4", "1 ms"), "1/1 2/1 3/1 4/1"); /* makes tasks of them */
  run(database, "UPDATE presence.worker_task SET attempts = 0, due_at = now()");
  struct database other = {.connection = database_connect(database)};
  run(&other, "BEGIN");
  assert_string_equal(claim(&other, "2", "1 hour"), "1/1 2/1");
  assert_string_equal(claim(database, "2", "1 hour"), "3/1 4/1");
  assert_string_equal(claim(&other, "1", "1 hour"), "5/1"); /* takes from the outbox: others wait a second for that */
  assert_string_equal(claim(database, "2", "1 hour"), "");
  run(&other, "ROLLBACK");
  PQfinish(other.connection);
  assert_string_equal(claim(database, "9", "1 hour"), "1/1 2/1 5/1 6/1");
}

static void roles_may_use_groups(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  append_rows(fixture, 2, 2);
  run(database, "SET ROLE presence_consumer");
  run(database, "SELECT presence.create_group('g', 'oldest')");
  assert_string_equal(claim(database, "1", "1 hour"), "1/1");
  run(database, "SELECT presence.ack('g', '{1}'), presence.nack('g', '{}', ''), presence.retry_dead('g')");
  run(database, "SELECT * FROM presence.dead_letter, presence.reader");
  static const char *const denied[] = {"UPDATE presence.worker_group SET cursor = 0", "DELETE FROM presence.worker_task",
                                       "SELECT presence.feed_group('g', 1)", "INSERT INTO presence.dead_task DEFAULT VALUES"};
  for (size_t i = 0; i < LENGTH(denied); i++) assert_string_equal(sql_error(database, denied[i]), "42501");
  run(database, "SET ROLE presence_service");
  run(database, "SELECT * FROM presence.reader");
  assert_string_equal(sql_error(database, "SELECT presence.claim('g', 1, '1 s')"), "42501");
  run(database, "RESET ROLE");
}

/* ---- many workers, some of which die */

enum { WORKERS = 4, DEVICES = 20, ROWS = 400 };

/* Never returns: claims, handles and acknowledges in one transaction until it is killed. */
static void work(const char *url) {
  PGconn *connection = PQconnectdb(url);
  for (;;) {
    PGresult *rows = PQexec(connection, "SELECT array_agg(seq ORDER BY seq), count(*) FROM presence.claim('g', 7, '300 ms')");
    if (PQresultStatus(rows) != PGRES_TUPLES_OK) _exit(1);
    const char *parameters[] = {PQgetvalue(rows, 0, 0), PQgetvalue(rows, 0, 1)};
    if (strcmp(parameters[1], "0") == 0) {
      wait_pause();
    } else {
      PQclear(PQexec(connection, "BEGIN"));
      PQclear(
          PQexecParams(connection, "INSERT INTO handled (seq) SELECT unnest($1::bigint[])", 1, NULL, parameters, NULL, NULL, 0));
      PGresult *acked = PQexecParams(connection, "SELECT presence.ack('g', $1) = $2", 2, NULL, parameters, NULL, NULL, 0);
      if (PQresultStatus(acked) != PGRES_TUPLES_OK) _exit(1);
      /* The lease ran out and another worker has acknowledged: its effect counts, not this one. */
      PQclear(PQexec(connection, *PQgetvalue(acked, 0, 0) == 't' ? "COMMIT" : "ROLLBACK"));
      PQclear(acked);
    }
    PQclear(rows);
  }
}

static void killed_workers_lose_and_double_nothing(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  pid_t workers[WORKERS];
  run(database, "CREATE TABLE handled (n bigint GENERATED ALWAYS AS IDENTITY, seq bigint)");
  run(database, "SELECT presence.create_group('g', 'oldest'), presence.set_group('g', 1000, '0', '0')");
  for (int i = 0; i < WORKERS; i++) workers[i] = forked_start(work, database->url);
  for (int part = 0; part < 20; part++) { /* rows come while workers die */
    forked_kill(workers[part % WORKERS]);
    workers[part % WORKERS] = forked_start(work, database->url);
    struct transition entries[ROWS / 20];
    for (int i = 0; i < ROWS / 20; i++) {
      const char *device = text_format("d%d", i % DEVICES);
      entries[i] = part % 2 == 0 ? online_at(device, 10 + part) : offline_at(device, 10 + part - 1);
    }
    (void)append_all(fixture->client, entries, LENGTH(entries));
    WAIT_UNTIL(sql_integer(database, "SELECT count(*) FROM handled", NULL) > part * 10, 20000);
  }
  WAIT_UNTIL(sql_integer(database, "SELECT count(DISTINCT seq) FROM handled", NULL) == ROWS, 30000);
  for (int i = 0; i < WORKERS; i++) forked_kill(workers[i]);
  assert_int_equal(sql_integer(database, "SELECT count(*) FROM handled", NULL), ROWS);
  assert_int_equal(sql_integer(database, "SELECT count(*) FROM presence.dead_letter", NULL), 0);
  assert_int_equal(sql_integer(database,
                               "SELECT count(*) FROM (SELECT seq < lag(seq) OVER (PARTITION BY device ORDER BY n) AS disordered"
                               " FROM handled JOIN presence.outbox USING (seq)) AS h WHERE disordered",
                               NULL),
                   0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_row_is_leased_until_acknowledged, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(a_lease_that_is_over_comes_again, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(a_failed_row_backs_off, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(a_device_is_handled_in_order, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(what_always_fails_is_a_dead_letter, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(what_is_wrong_is_an_error, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(a_group_left_behind_is_told, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(an_open_claim_holds_nobody_up, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(roles_may_use_groups, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(killed_workers_lose_and_double_nothing, outbox_setup, outbox_teardown),
  };
  return cmocka_run_group_tests_name("worker_groups", tests, NULL, NULL);
}
