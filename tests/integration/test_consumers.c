/* Named consumers, roles, and the directory that processes load. */
#include "support/test.h"

#include "support/outbox_fixture.h"
#include "support/unit.h"

#include <stdlib.h>

static void run(struct database *database, const char *statement) { PQclear(sql_query(database, statement, NULL)); }

static void append_sessions(struct outbox_fixture *fixture, int count) {
  for (int i = 1; i <= count; i++) {
    struct transition entry = i % 2 == 1 ? online_at("d", 10 + i) : offline_at("d", 10 + i - 1);
    (void)append_all(fixture->client, &entry, 1);
  }
}

static const char *poll_seqs(struct database *database, const char *name, const char *max) {
  return sql_text(database, "SELECT coalesce(string_agg(seq::text, ' ' ORDER BY seq), '') FROM presence.poll($1, $2::int)", name,
                  max, NULL);
}

static void a_consumer_reads_on_where_it_committed(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  append_sessions(fixture, 5);
  run(database, "SELECT presence.create_consumer('c', 'oldest')");
  assert_string_equal(poll_seqs(database, "c", "3"), "1 2 3");
  assert_string_equal(poll_seqs(database, "c", "3"), "1 2 3"); /* nothing committed */
  assert_string_equal(sql_text(database, "SELECT presence.commit('c', 2)", NULL), "t");
  assert_string_equal(poll_seqs(database, "c", "3"), "3 4 5");
  assert_string_equal(sql_text(database, "SELECT presence.commit('c', 2), presence.commit('c', 1)", NULL), "f f");
  assert_string_equal(poll_seqs(database, "c", "1"), "3");
  run(database, "SELECT presence.seek('c', 0)");
  assert_string_equal(poll_seqs(database, "c", "9"), "1 2 3 4 5");
  assert_string_equal(sql_text(database, "SELECT presence.commit('c', 5)", NULL), "t");
  assert_string_equal(poll_seqs(database, "c", "9"), "");
}

static void where_a_consumer_starts(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  append_sessions(fixture, 3);
  run(database, "SELECT presence.create_consumer('now', 'now'), presence.create_consumer('two', '2'), "
                "presence.create_consumer('all', 'oldest')");
  struct transition entry = offline_at("d", 13);
  (void)append_all(fixture->client, &entry, 1);
  assert_string_equal(poll_seqs(database, "now", "9"), "4");
  assert_string_equal(poll_seqs(database, "two", "9"), "3 4");
  assert_string_equal(poll_seqs(database, "all", "9"), "1 2 3 4");
}

static void what_is_wrong_is_an_error(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  append_sessions(fixture, 2);
  run(database, "SELECT presence.create_consumer('c', 'oldest')");
  assert_string_equal(sql_error(database, "SELECT presence.create_consumer('c', 'oldest')"), "23505");
  assert_string_equal(sql_error(database, "SELECT presence.create_consumer('', 'oldest')"), "23514");
  assert_string_equal(sql_error(database, "SELECT presence.create_consumer('x', 'newest')"), "22023");
  assert_string_equal(sql_error(database, "SELECT presence.create_consumer('x', '-1')"), "22023");
  assert_string_equal(sql_error(database, "SELECT presence.poll('unknown', 1)"), "P0002");
  assert_string_equal(sql_error(database, "SELECT presence.commit('unknown', 1)"), "P0002");
  assert_string_equal(sql_error(database, "SELECT presence.seek('unknown', 1)"), "P0002");
  assert_string_equal(sql_error(database, "SELECT presence.commit('c', 3)"), "22023"); /* there is no 3 yet */
  assert_string_equal(sql_error(database, "SELECT presence.seek('c', -1)"), "23514");
  run(database, "UPDATE presence.outbox_horizon SET dropped_seq = 1");
  assert_string_equal(sql_error(database, "SELECT presence.poll('c', 1)"), "PR410");
  assert_string_equal(sql_error(database, "SELECT presence.seek('c', 0)"), "PR410");
  assert_string_equal(sql_error(database, "SELECT presence.create_consumer('x', '0')"), "PR410");
  assert_string_equal(sql_error(database, "SELECT presence.tenant_events('t1', 0, 9)"), "PR410");
  assert_string_equal(sql_text(database, "SELECT seq FROM presence.tenant_events('t1', 1, 9)", NULL), "2");
}

/* A snapshot older than the drop of a day would see neither the rows nor that they are gone. */
static void an_old_snapshot_is_refused(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  run(database, "SELECT presence.create_consumer('c', 'oldest')");
  run(database, "BEGIN ISOLATION LEVEL REPEATABLE READ");
  assert_string_equal(sql_error(database, "SELECT presence.poll('c', 1)"), "25000");
  run(database, "ROLLBACK");
  run(database, "BEGIN ISOLATION LEVEL SERIALIZABLE");
  assert_string_equal(
      sql_error(database, "SELECT presence.append(0,'{}','{}','{}','{}','{}','{}','{}','{}','{}','{}','{}','{}','{}','{}')"),
      "25000");
  run(database, "ROLLBACK");
}

/* Two processes of one name: the second waits, and sees what the first committed. */
static void two_of_a_name_take_turns(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  append_sessions(fixture, 4);
  run(database, "SELECT presence.create_consumer('c', 'oldest')");
  struct database second = {.connection = database_connect(database)};
  run(database, "BEGIN");
  assert_string_equal(poll_seqs(database, "c", "2"), "1 2");
  assert_int_equal(PQsendQuery(second.connection, "SELECT string_agg(seq::text, ' ') FROM presence.poll('c', 2)"), 1);
  struct database watcher = {.connection = database_connect(database)};
  WAIT_UNTIL(sql_integer(&watcher, "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'", NULL) == 1, 5000);
  run(database, "SELECT presence.commit('c', 2)");
  run(database, "COMMIT");
  PGresult *page = PQgetResult(second.connection);
  assert_string_equal(PQgetvalue(page, 0, 0), "3 4");
  PQclear(page);
  PQclear(PQgetResult(second.connection));
  PQfinish(second.connection);
  PQfinish(watcher.connection);
}

static void a_reader_that_dies_reads_again(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  append_sessions(fixture, 2);
  run(database, "SELECT presence.create_consumer('c', 'oldest')");
  struct database dying = {.connection = database_connect(database)};
  run(&dying, "BEGIN");
  assert_string_equal(poll_seqs(&dying, "c", "9"), "1 2");
  run(&dying, "SELECT presence.commit('c', 2)");
  PQfinish(dying.connection); /* without COMMIT */
  assert_string_equal(poll_seqs(database, "c", "9"), "1 2");
}

static void an_append_notifies_once_a_batch(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  run(database, "LISTEN presence_outbox");
  const struct transition entries[] = {online_at("a", 1), online_at("b", 2), online_at("c", 3)};
  (void)append_all(fixture->client, entries, 3);
  (void)append_all(fixture->client, entries, 3); /* nothing new: nothing said */
  run(database, "SELECT 1");
  PGnotify *notify = PQnotifies(database->connection);
  assert_non_null(notify);
  assert_string_equal(notify->extra, "3");
  PQfreemem(notify);
  assert_null(PQnotifies(database->connection));
}

static void roles_may_do_their_part_only(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  append_sessions(fixture, 2);
  run(database, "SET ROLE presence_consumer");
  run(database, "SELECT presence.create_consumer('c', 'oldest')");
  assert_string_equal(poll_seqs(database, "c", "9"), "1 2");
  assert_string_equal(sql_text(database, "SELECT count(*) FROM presence.outbox", NULL), "2");
  static const char *const denied_to_consumers[] = {
      "INSERT INTO presence.outbox SELECT * FROM presence.outbox",
      "DELETE FROM presence.outbox",
      "UPDATE presence.consumer SET cursor = 0",
      "SELECT * FROM presence.token",
      "SELECT * FROM presence.device",
      "SELECT presence.append(0,'{}','{}','{}','{}','{}','{}','{}','{}','{}','{}','{}','{}','{}','{}')",
      "SELECT presence.drop_day(now())",
      "CALL presence.maintain(7, 0)",
  };
  for (size_t i = 0; i < LENGTH(denied_to_consumers); i++)
    assert_string_equal(sql_error(database, denied_to_consumers[i]), "42501");
  run(database, "SET ROLE presence_service");
  run(database, "SELECT presence.append(0,'{}','{}','{}','{}','{}','{}','{}','{}','{}','{}','{}','{}','{}','{}')");
  run(database, "CALL presence.maintain(7, 30)");
  run(database,
      "SELECT * FROM presence.directory_token, presence.directory_tenant, presence.directory_state, presence.tenant_stats");
  run(database, "SELECT presence.record_partitions(8), presence.device_rows('t1', '{d}')");
  assert_string_equal(sql_error(database, "INSERT INTO presence.outbox SELECT * FROM presence.outbox"), "42501");
  assert_string_equal(sql_error(database, "UPDATE presence.tenant SET buckets = 1"), "42501");
  run(database, "SET ROLE presence_admin");
  run(database, "INSERT INTO presence.tenant (id, buckets) VALUES ('t1', 1)");
  run(database, "INSERT INTO presence.token (tenant, sha256, scopes) VALUES ('t1', sha256('x'), '{read}')");
  run(database, "SELECT * FROM presence.rejected, presence.overview");
  assert_string_equal(sql_error(database, "DELETE FROM presence.outbox"), "42501");
  run(database, "RESET ROLE");
}

/* Each change of tenants and tokens is a new version, in order of COMMIT. */
static void the_directory_has_a_version(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  static const char *const changes[] = {
      "INSERT INTO presence.tenant (id, buckets) VALUES ('t1', 1), ('t2', 2)",
      "UPDATE presence.tenant SET max_devices = 5 WHERE id = 't1'",
      "INSERT INTO presence.token (tenant, sha256, scopes) VALUES ('t1', sha256('x'), '{read,device}')",
      "UPDATE presence.token SET revoked_at = now()",
      "DELETE FROM presence.tenant WHERE id = 't1'",
  };
  int64_t version = sql_integer(database, "SELECT version FROM presence.directory_state", NULL);
  for (size_t i = 0; i < LENGTH(changes); i++) {
    run(database, changes[i]);
    int64_t next = sql_integer(database, "SELECT version FROM presence.directory_state", NULL);
    assert_true(next > version);
    version = next;
  }
  assert_int_equal(sql_integer(database, "SELECT count(*) FROM presence.directory_token", NULL), 0); /* with its tenant */
  int64_t generation = sql_integer(database, "SELECT generation FROM presence.directory_tenant WHERE id = 't2'", NULL);
  run(database, "DELETE FROM presence.tenant");
  run(database, "INSERT INTO presence.tenant (id, buckets) VALUES ('t2', 7)");
  assert_true(sql_integer(database, "SELECT generation FROM presence.directory_tenant", NULL) > generation);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(a_consumer_reads_on_where_it_committed, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(where_a_consumer_starts, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(what_is_wrong_is_an_error, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(an_old_snapshot_is_refused, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(two_of_a_name_take_turns, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(a_reader_that_dies_reads_again, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(an_append_notifies_once_a_batch, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(roles_may_do_their_part_only, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(the_directory_has_a_version, outbox_setup, outbox_teardown),
  };
  return cmocka_run_group_tests_name("consumers", tests, NULL, NULL);
}
