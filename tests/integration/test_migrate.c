#include "support/test.h"

#include "support/outbox_fixture.h"
#include "support/unit.h"

#include <pthread.h>
#include <stdlib.h>

#include "embedded.h"

struct migrator {
  pthread_t thread;
  struct pg_client *client;
  enum status status;
  size_t applied;
  char *message;
};

static size_t numbered_files(void) { return embedded_migrations_count - 1; /* 0000 is no migration of its own */ }

static int empty_setup(void **state) {
  struct outbox_fixture *fixture = calloc(1, sizeof *fixture);
  assert_non_null(fixture);
  database_create(&fixture->database, false);
  fixture->client = outbox_client(fixture);
  *state = fixture;
  return 0;
}

static void migrate(struct outbox_fixture *fixture, size_t expected) {
  size_t applied;
  char *message;
  enum status status = outbox_migrate(fixture->client, &applied, &message);
  if (status != STATUS_OK) fail_msg("%s: %s", status_name(status), message);
  assert_int_equal(applied, expected);
}

static void twice_is_once(void **state) {
  struct outbox_fixture *fixture = *state;
  migrate(fixture, numbered_files());
  migrate(fixture, 0);
  assert_int_equal(sql_integer(&fixture->database, "SELECT count(*) FROM presence.migration", NULL), numbered_files());
  assert_int_equal(sql_integer(&fixture->database, "SELECT max(version) FROM presence.migration", NULL), numbered_files());
}

static void *run_migrator(void *argument) {
  struct migrator *migrator = argument;
  migrator->status = outbox_migrate(migrator->client, &migrator->applied, &migrator->message);
  return NULL;
}

static void many_at_once_take_turns(void **state) {
  enum { MIGRATORS = 4 };
  struct outbox_fixture *fixture = *state;
  struct migrator migrators[MIGRATORS];
  for (int i = 0; i < MIGRATORS; i++) {
    migrators[i] = (struct migrator){.client = outbox_client(fixture)};
    assert_int_equal(pthread_create(&migrators[i].thread, NULL, run_migrator, &migrators[i]), 0);
  }
  size_t applied = 0;
  for (int i = 0; i < MIGRATORS; i++) {
    assert_int_equal(pthread_join(migrators[i].thread, NULL), 0);
    if (migrators[i].status != STATUS_OK) fail_msg("%s", migrators[i].message);
    applied += migrators[i].applied;
    pg_client_free(migrators[i].client);
  }
  assert_int_equal(applied, numbered_files());
}

static void an_edited_file_is_refused(void **state) {
  struct outbox_fixture *fixture = *state;
  migrate(fixture, numbered_files());
  PQclear(sql_query(&fixture->database, "UPDATE presence.migration SET sha256 = 'x' WHERE version = 2", NULL));
  size_t applied;
  char *message;
  assert_status(STATUS_REFUSED, outbox_migrate(fixture->client, &applied, &message));
  assert_non_null(strstr(message, "0002_append.sql"));
  free(message);
}

/* A file that fails leaves nothing of itself, and what came before it stays. */
static void a_failing_file_leaves_nothing(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  PQclear(sql_query(database, "CREATE SCHEMA presence", NULL));
  PQclear(sql_query(database, "CREATE TABLE presence.consumer (in_the_way int)", NULL)); /* of 0004 */
  size_t applied;
  char *message;
  assert_status(STATUS_REFUSED, outbox_migrate(fixture->client, &applied, &message));
  assert_int_equal(applied, 3);
  assert_non_null(strstr(message, "0004_consumers.sql: ERROR: relation \"consumer\" already exists"));
  free(message);
  assert_string_equal(sql_text(database, "SELECT to_regproc('presence.poll') IS NULL", NULL), "t");
  PQclear(sql_query(database, "DROP TABLE presence.consumer", NULL));
  migrate(fixture, numbered_files() - 3);
}

static void the_encoding_must_be_utf8(void **state) {
  struct outbox_fixture *fixture = *state;
  PQclear(sql_query(&fixture->database, "CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0 LOCALE 'C'", NULL));
  struct pg_client *client;
  const char *url = text_format("%s dbname=latin", fixture->database.url); /* the last one counts */
  assert_status(STATUS_OK, pg_client_new(url, "test", clock_system(), &client));
  size_t applied;
  char *message;
  assert_status(STATUS_REFUSED, outbox_migrate(client, &applied, &message));
  assert_string_equal(message, "the database's encoding is LATIN1; it must be UTF8");
  free(message);
  pg_client_free(client);
  PQclear(sql_query(&fixture->database, "DROP DATABASE latin WITH (FORCE)", NULL));
}

static void expect_refused(struct outbox_fixture *fixture, int64_t partitions, const char *part) {
  char *message;
  assert_status(STATUS_REFUSED, outbox_check_deployment(fixture->client, partitions, &message));
  if (strstr(message, part) == NULL) fail_msg("\"%s\" does not say \"%s\"", message, part);
  free(message);
}

static void the_deployment_is_checked(void **state) {
  struct outbox_fixture *fixture = *state;
  char *message;
  expect_refused(fixture, 8, "run `presencectl migrate`");
  migrate(fixture, numbered_files());
  assert_status(STATUS_OK, outbox_check_deployment(fixture->client, 16, &message)); /* the first start records */
  assert_null(message);
  assert_status(STATUS_OK, outbox_check_deployment(fixture->client, 16, &message));
  expect_refused(fixture, 8, "PRESENCE_PARTITIONS=16, not 8");
  PQclear(sql_query(&fixture->database, "DELETE FROM presence.migration WHERE version > 3", NULL));
  expect_refused(fixture, 16, "schema version is 3");
  PQclear(sql_query(&fixture->database, "INSERT INTO presence.migration VALUES (99, 'a later one', '')", NULL));
  assert_status(STATUS_OK, outbox_check_deployment(fixture->client, 16, &message)); /* during an upgrade */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(twice_is_once, empty_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(many_at_once_take_turns, empty_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(an_edited_file_is_refused, empty_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(a_failing_file_leaves_nothing, empty_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(the_encoding_must_be_utf8, empty_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(the_deployment_is_checked, empty_setup, outbox_teardown),
  };
  return cmocka_run_group_tests_name("migrate", tests, NULL, NULL);
}
