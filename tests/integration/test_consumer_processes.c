/* Readers as processes of their own: killed between reading and committing, several of one name, beside writers that roll back
 * and transactions that stay open. */
#include "support/test.h"

#include "support/forked.h"
#include "support/outbox_fixture.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void run(struct database *database, const char *statement) { PQclear(sql_query(database, statement, NULL)); }

/* In a forked process: the statement must work. */
static PGresult *must(PGconn *connection, const char *statement) {
  PGresult *result = PQexec(connection, statement);
  if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK) _exit(1);
  return result;
}

/* Reads with the consumer c for ever; what it does with the rows, and the cursor, in one transaction. */
static void consume(const char *url) {
  PGconn *connection = PQconnectdb(url);
  for (;;) {
    PQclear(must(connection, "BEGIN"));
    PGresult *page = must(connection, "WITH page AS MATERIALIZED (SELECT seq FROM presence.poll('c', 7)), kept AS ("
                                      "INSERT INTO handled (seq) SELECT seq FROM page ORDER BY seq) SELECT max(seq) FROM page");
    const char *last = PQgetvalue(page, 0, 0);
    bool more = *last != '\0';
    if (more) PQclear(must(connection, text_format("SELECT presence.commit('c', %s)", last)));
    PQclear(page);
    PQclear(must(connection, "COMMIT"));
    if (!more) wait_pause();
  }
}

static void append_part(struct outbox_fixture *fixture, int part, int devices) {
  struct transition entries[50];
  for (int i = 0; i < devices; i++) {
    const char *device = text_format("d%d", i);
    entries[i] = part % 2 == 0 ? online_at(device, 10 + part) : offline_at(device, 10 + part - 1);
  }
  (void)append_all(fixture->client, entries, (size_t)devices);
}

/* Three processes of one name, one of which is killed again and again at any point: each row is handled once, in order. */
static void killed_consumers_of_one_name(void **state) {
  enum { READERS = 3, PARTS = 20, DEVICES = 20 };
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  pid_t readers[READERS];
  run(database, "CREATE TABLE handled (n bigint GENERATED ALWAYS AS IDENTITY, seq bigint)");
  run(database, "SELECT presence.create_consumer('c', 'oldest')");
  for (int i = 0; i < READERS; i++) readers[i] = forked_start(consume, database->url);
  for (int part = 0; part < PARTS; part++) {
    append_part(fixture, part, DEVICES);
    WAIT_UNTIL(sql_integer(database, "SELECT count(*) FROM handled", NULL) > part * 10, 20000);
    forked_kill(readers[part % READERS]);
    readers[part % READERS] = forked_start(consume, database->url);
  }
  WAIT_UNTIL(sql_integer(database, "SELECT count(*) FROM handled", NULL) >= PARTS * DEVICES, 20000);
  for (int i = 0; i < READERS; i++) forked_kill(readers[i]);
  assert_string_equal(sql_text(database, "SELECT count(*), count(DISTINCT seq), max(seq) FROM handled", NULL), "400 400 400");
  assert_string_equal(
      sql_text(database, "SELECT count(*) FROM (SELECT seq < lag(seq) OVER (ORDER BY n) AS back FROM handled) AS h WHERE back",
               NULL),
      "0");
}

#define GHOST_SQL                                                                                                                \
  "SELECT presence.append(1, '{t1}', '{ghost}', '{5}', '{0}', '{online}', '{NULL}', '{5}', '{1}', '{5}', '{NULL}', '{5}',"       \
  " '{NULL}', ARRAY[gen_random_uuid()], ARRAY[gen_random_uuid()])"

/* Draws numbers and takes them back, for ever. */
static void roll_back(const char *url) {
  PGconn *connection = PQconnectdb(url);
  for (;;) {
    PQclear(must(connection, "BEGIN"));
    PQclear(must(connection, GHOST_SQL));
    PQclear(must(connection, "ROLLBACK"));
    wait_pause();
  }
}

/* The two-line reader: nothing it has passed turns up later, nothing rolled back is ever seen. */
static void the_simplest_reader_beside_all_of_them(void **state) {
  enum { PARTS = 30, DEVICES = 50 };
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  struct database snapshot = {.connection = database_connect(database)}, open = {.connection = database_connect(database)};
  run(database, "CREATE TABLE elsewhere (n integer)");
  run(&snapshot, "BEGIN ISOLATION LEVEL REPEATABLE READ");
  run(&snapshot, "SELECT count(*) FROM presence.outbox"); /* a snapshot from before all of it */
  run(&open, "BEGIN");
  run(&open, "INSERT INTO elsewhere VALUES (1)"); /* the oldest transaction that has written, of the whole server */
  pid_t ghosts[] = {forked_start(roll_back, database->url), forked_start(roll_back, database->url)};
  WAIT_UNTIL(sql_integer(database, "SELECT last_value FROM presence.outbox_seq", NULL) > 4, 20000); /* both are at it */
  int64_t cursor = 0, rows = 0;
  for (int part = 0; part < PARTS || rows < PARTS * DEVICES; part++) {
    if (part < PARTS) append_part(fixture, part, DEVICES);
    PGresult *page = sql_query(database, "SELECT seq, device FROM presence.outbox WHERE seq > $1 ORDER BY seq LIMIT 60",
                               text_format("%lld", (long long)cursor), NULL);
    for (int i = 0; i < PQntuples(page); i++) {
      int64_t seq = strtoll(PQgetvalue(page, i, 0), NULL, 10);
      assert_true(seq > cursor);
      assert_string_not_equal(PQgetvalue(page, i, 1), "ghost");
      cursor = seq;
      rows++;
    }
    PQclear(page);
    assert_int_equal(sql_integer(database, "SELECT count(*) FROM presence.outbox WHERE seq <= $1",
                                 text_format("%lld", (long long)cursor), NULL),
                     rows);
  }
  assert_int_equal(rows, PARTS * DEVICES);
  assert_true(cursor > rows); /* numbers were drawn and taken back */
  for (size_t i = 0; i < LENGTH(ghosts); i++) forked_kill(ghosts[i]);
  assert_int_equal(sql_integer(&snapshot, "SELECT count(*) FROM presence.outbox", NULL), 0);
  PQfinish(snapshot.connection);
  PQfinish(open.connection);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(killed_consumers_of_one_name, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(the_simplest_reader_beside_all_of_them, outbox_setup, outbox_teardown),
  };
  return cmocka_run_group_tests_name("consumer_processes", tests, NULL, NULL);
}
