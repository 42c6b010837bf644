/* The connection through what happens to PostgreSQL servers. */
#include "support/test.h"

#include "support/outbox_fixture.h"
#include "support/proxy.h"
#include "support/scratch.h"
#include "support/unit.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>

#include "pg_pool.h"

static enum status ask(struct pg_client *client, const char *sql) {
  PGresult *result;
  enum status status = pg_client_exec(client, sql, 0, NULL, &result);
  PQclear(result);
  return status;
}

static void no_server_is_said_cheaply(void **state) {
  (void)state;
  struct pg_client *client;
  assert_status(STATUS_OK, pg_client_new("host=/nowhere user=x password=secret dbname=x", "test", clock_system(), &client));
  assert_false(pg_client_is_up(client));
  assert_status(STATUS_UNAVAILABLE, ask(client, "SELECT 1"));
  assert_non_null(strstr(pg_client_error(client), "/nowhere"));
  assert_null(strstr(pg_client_error(client), "secret"));
  assert_null(strchr(pg_client_error(client), '\n'));
  int64_t begun_ms = wait_now_ms();
  for (int i = 0; i < 10000; i++) assert_status(STATUS_UNAVAILABLE, ask(client, "SELECT 1"));
  assert_true(wait_now_ms() - begun_ms < wait_limit_ms(2000)); /* back-off: not 10000 connects */
  pg_client_free(client);
}

static void a_broken_url_is_refused(void **state) {
  (void)state;
  struct pg_client *client = NULL;
  assert_status(STATUS_INVALID, pg_client_new("postgres://u:p@[nonsense", "test", clock_system(), &client));
  assert_status(STATUS_INVALID, pg_client_new("no_such_word=1", "test", clock_system(), &client));
  assert_null(client);
}

static void an_error_keeps_the_connection(void **state) {
  struct outbox_fixture *fixture = *state;
  PGresult *result;
  assert_status(STATUS_REFUSED, pg_client_exec(fixture->client, "SELECT 1/0", 0, NULL, &result));
  assert_string_equal(PQresultErrorField(result, PG_DIAG_SQLSTATE), "22012");
  PQclear(result);
  assert_true(pg_client_is_up(fixture->client));
  assert_status(STATUS_OK, ask(fixture->client, "SELECT 1"));
}

static void settings_of_a_connection(void **state) {
  struct outbox_fixture *fixture = *state;
  PQclear(sql_query(&fixture->database,
                    text_format("ALTER DATABASE %s SET default_transaction_isolation = 'serializable'", fixture->database.name),
                    NULL));
  PGresult *result;
  assert_status(STATUS_OK, pg_client_exec(fixture->client,
                                          "SELECT current_setting('transaction_isolation'), current_setting('statement_timeout'),"
                                          " current_setting('client_encoding'), current_setting('application_name')",
                                          0, NULL, &result));
  static const char *const expected[] = {"read committed", "30s", "UTF8", "test"};
  for (int c = 0; c < 4; c++) assert_string_equal(PQgetvalue(result, 0, c), expected[c]);
  PQclear(result);
  struct transition entry = online_at("d", 1);
  (void)append_all(fixture->client, &entry, 1);
}

static void a_cut_connection_comes_back(void **state) {
  struct outbox_fixture *fixture = *state;
  assert_status(STATUS_OK, ask(fixture->client, "SELECT 1"));
  PQclear(sql_query(&fixture->database,
                    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE application_name = 'test'", NULL));
  assert_status(STATUS_OK, ask(fixture->client, "SELECT 1")); /* seen before anything was sent */
}

static void cut_during_a_statement_is_closed(void **state) {
  struct outbox_fixture *fixture = *state;
  assert_status(STATUS_CLOSED, ask(fixture->client, "SELECT pg_terminate_backend(pg_backend_pid()), pg_sleep(5)"));
  assert_false(pg_client_is_up(fixture->client));
  WAIT_UNTIL(ask(fixture->client, "SELECT 1") == STATUS_OK, 5000);
  assert_true(pg_client_is_up(fixture->client));
}

static void a_restarted_server_is_found_again(void **state) {
  struct outbox_fixture *fixture = *state;
  assert_status(STATUS_OK, ask(fixture->client, "SELECT 1"));
  postgres_server_kill();
  assert_status(STATUS_UNAVAILABLE, ask(fixture->client, "SELECT 1"));
  postgres_server_restart();
  database_reconnect(&fixture->database);
  WAIT_UNTIL(ask(fixture->client, "SELECT 1") == STATUS_OK, 10000);
}

/* A primary that has become a standby, or is told to write no more: another is looked for. */
static void a_server_turned_read_only_is_left(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  struct transition entry = online_at("d", 1);
  struct outbox_counts counts;
  assert_status(STATUS_OK, ask(fixture->client, "SET default_transaction_read_only = on"));
  assert_status(STATUS_CLOSED, outbox_append(fixture->client, 3, &entry, 1, &counts));
  PQclear(sql_query(database, text_format("ALTER DATABASE %s SET default_transaction_read_only = on", database->name), NULL));
  WAIT_UNTIL(ask(fixture->client, "SELECT 1") == STATUS_UNAVAILABLE && strstr(pg_client_error(fixture->client), "read") != NULL,
             5000);
  assert_status(STATUS_UNAVAILABLE, outbox_append(fixture->client, 3, &entry, 1, &counts));
  PQclear(sql_query(database, text_format("ALTER DATABASE %s RESET default_transaction_read_only", database->name), NULL));
  WAIT_UNTIL(outbox_append(fixture->client, 3, &entry, 1, &counts) == STATUS_OK, 5000);
  assert_string_equal(outbox_lines(database), "d 1-0 online");
}

struct behind_proxy {
  struct proxy *proxy;
  struct pg_client *client;
};

static struct behind_proxy connect_through_proxy(struct outbox_fixture *fixture) {
  const char *folder = scratch_folder("px");
  struct behind_proxy behind = {.proxy = proxy_start(text_format("%s/.s.PGSQL.5432", folder), fixture->database.socket)};
  const char *url = database_url_through(&fixture->database, folder);
  assert_status(STATUS_OK, pg_client_new(url, "test", clock_system(), &behind.client));
  assert_status(STATUS_OK, ask(behind.client, "SELECT 1"));
  return behind;
}

static void disconnect_proxy(struct behind_proxy *behind) {
  pg_client_free(behind->client);
  proxy_stop(behind->proxy);
}

/* COMMIT happens, its answer does not arrive: repeating changes nothing. */
static void a_lost_answer_is_repeated_harmlessly(void **state) {
  struct outbox_fixture *fixture = *state;
  struct behind_proxy behind = connect_through_proxy(fixture);
  struct transition entries[] = {online_at("d", 1), offline_at("d", 1)};
  struct outbox_counts counts;
  proxy_cut_after_answers(behind.proxy, 1);
  assert_status(STATUS_CLOSED, outbox_append(behind.client, 3, entries, 2, &counts));
  WAIT_UNTIL(sql_integer(&fixture->database, "SELECT count(*) FROM presence.outbox", NULL) == 2, 5000);
  WAIT_UNTIL(outbox_append(behind.client, 3, entries, 2, &counts) == STATUS_OK, 5000);
  assert_int_equal(counts.repeats, 2);
  assert_string_equal(outbox_lines(&fixture->database), "d 1-0 online\nd 1-0 timeout");
  disconnect_proxy(&behind);
}

/* A call that arrives only in part has no effect: it goes out in one piece, in autocommit. */
static void a_call_cut_in_the_middle_has_no_effect(void **state) {
  struct outbox_fixture *fixture = *state;
  struct behind_proxy behind = connect_through_proxy(fixture);
  struct transition entries[] = {online_at("d", 1), offline_at("d", 1)};
  struct outbox_counts counts;
  proxy_cut_after_requests(behind.proxy, 300);
  assert_status(STATUS_CLOSED, outbox_append(behind.client, 3, entries, 2, &counts));
  WAIT_UNTIL(outbox_append(behind.client, 3, entries, 2, &counts) == STATUS_OK, 5000);
  assert_int_equal(counts.repeats, 0);
  assert_string_equal(outbox_lines(&fixture->database), "d 1-0 online\nd 1-0 timeout");
  disconnect_proxy(&behind);
}

static void *interrupt_later(void *client) {
  (void)poll(NULL, 0, 100);
  pg_client_interrupt(client);
  return NULL;
}

/* Also one that nobody answers any more. */
static void an_interrupt_ends_a_wait(void **state) {
  struct behind_proxy behind = connect_through_proxy(*state);
  pthread_t thread;
  int64_t begun_ms = wait_now_ms();
  proxy_blackhole(behind.proxy, true);
  assert_int_equal(pthread_create(&thread, NULL, interrupt_later, behind.client), 0);
  assert_status(STATUS_CLOSED, ask(behind.client, "SELECT 1"));
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_true(wait_now_ms() - begun_ms < wait_limit_ms(5000));
  assert_status(STATUS_UNAVAILABLE, ask(behind.client, "SELECT 1")); /* for good */
  disconnect_proxy(&behind);
}

/* ---- the pool */

struct question {
  struct pg_job job;
  const char *sql;
  enum status status;
  unsigned *done;
};

struct pool_stand {
  struct pg_pool *pool;
  struct loop *loop;
  struct loop_timer look;
  unsigned done, expected;
};

static void work_question(struct pg_job *job, struct pg_client *client) {
  struct question *question = (struct question *)job;
  question->status = ask(client, question->sql);
}

static void question_done(struct pg_job *job) { (*((struct question *)job)->done)++; }

static void look_for_end(struct loop_timer *timer) {
  struct pool_stand *stand = timer->context;
  if (stand->done == stand->expected)
    loop_stop(stand->loop);
  else
    loop_timer_set(stand->loop, timer, 1000);
}

static void stand_open(struct pool_stand *stand, const char *url, unsigned threads, size_t queue_limit) {
  *stand = (struct pool_stand){.look = {.fire = look_for_end, .context = stand}};
  assert_status(STATUS_OK, loop_new(clock_system(), &stand->loop));
  assert_status(STATUS_OK, pg_pool_new(url, threads, queue_limit, clock_system(), &stand->pool));
}

static struct question question_of(struct pool_stand *stand, const char *sql) {
  return (struct question){.job = {.work = work_question, .done = question_done, .loop = stand->loop},
                           .sql = sql,
                           .status = STATUS_PROTOCOL,
                           .done = &stand->done};
}

/* Runs the loop until all questions put are done. */
static void stand_wait(struct pool_stand *stand, unsigned expected) {
  stand->expected = expected;
  loop_timer_set(stand->loop, &stand->look, 0);
  assert_status(STATUS_OK, loop_run(stand->loop));
}

static void stand_close(struct pool_stand *stand) {
  pg_pool_stop(stand->pool);
  pg_pool_free(stand->pool);
  loop_free(stand->loop);
}

static void the_pool_answers_every_job(void **state) {
  struct outbox_fixture *fixture = *state;
  enum { JOBS = 50 };
  struct pool_stand stand;
  struct question questions[JOBS];
  stand_open(&stand, fixture->database.url, 3, JOBS);
  for (int i = 0; i < JOBS; i++) {
    questions[i] = question_of(&stand, i % 10 == 0 ? "SELECT 1/0" : "SELECT 1");
    assert_status(STATUS_OK, pg_pool_submit(stand.pool, &questions[i].job));
  }
  stand_wait(&stand, JOBS);
  for (int i = 0; i < JOBS; i++) assert_status(i % 10 == 0 ? STATUS_REFUSED : STATUS_OK, questions[i].status);
  assert_true(pg_pool_is_up(stand.pool));
  stand_close(&stand);
}

static void a_full_queue_is_said_at_once(void **state) {
  struct outbox_fixture *fixture = *state;
  struct pool_stand stand;
  struct question questions[4];
  stand_open(&stand, fixture->database.url, 1, 2);
  PQclear(sql_query(&fixture->database, "SELECT pg_advisory_lock(5)", NULL));
  questions[0] = question_of(&stand, "SELECT pg_advisory_lock(5)"); /* keeps the one thread */
  assert_status(STATUS_OK, pg_pool_submit(stand.pool, &questions[0].job));
  WAIT_UNTIL(sql_integer(&fixture->database, "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted", NULL) ==
                 1,
             5000);
  for (int i = 1; i < 4; i++) {
    questions[i] = question_of(&stand, "SELECT 1");
    assert_status(i < 3 ? STATUS_OK : STATUS_FULL, pg_pool_submit(stand.pool, &questions[i].job));
  }
  PQclear(sql_query(&fixture->database, "SELECT pg_advisory_unlock(5)", NULL));
  stand_wait(&stand, 3);
  assert_status(STATUS_PROTOCOL, questions[3].status); /* was never taken */
  stand_close(&stand);
}

/* A stop ends the job at hand, and every job's done() still runs. */
static void a_stop_answers_what_waits(void **state) {
  struct outbox_fixture *fixture = *state;
  struct pool_stand stand;
  struct question questions[3];
  stand_open(&stand, fixture->database.url, 1, 8);
  for (int i = 0; i < 3; i++) {
    questions[i] = question_of(&stand, i == 0 ? "SELECT pg_sleep(60)" : "SELECT 1");
    assert_status(STATUS_OK, pg_pool_submit(stand.pool, &questions[i].job));
  }
  WAIT_UNTIL(sql_integer(&fixture->database, "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT pg_sleep%'", NULL) >
                 0,
             5000);
  int64_t begun_ms = wait_now_ms();
  pg_pool_stop(stand.pool);
  assert_true(wait_now_ms() - begun_ms < wait_limit_ms(5000));
  struct question late = question_of(&stand, "SELECT 1");
  assert_status(STATUS_FULL, pg_pool_submit(stand.pool, &late.job));
  stand_wait(&stand, 3);
  assert_status(STATUS_CLOSED, questions[0].status);
  assert_status(STATUS_PROTOCOL, questions[1].status); /* was not worked on */
  stand_close(&stand);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_server_is_said_cheaply),
      cmocka_unit_test(a_broken_url_is_refused),
      cmocka_unit_test_setup_teardown(an_error_keeps_the_connection, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(settings_of_a_connection, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(a_cut_connection_comes_back, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(cut_during_a_statement_is_closed, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(a_restarted_server_is_found_again, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(a_server_turned_read_only_is_left, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(a_lost_answer_is_repeated_harmlessly, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(a_call_cut_in_the_middle_has_no_effect, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(an_interrupt_ends_a_wait, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(the_pool_answers_every_job, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(a_full_queue_is_said_at_once, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(a_stop_answers_what_waits, outbox_setup, outbox_teardown),
  };
  return cmocka_run_group_tests_name("pg_client", tests, NULL, NULL);
}
