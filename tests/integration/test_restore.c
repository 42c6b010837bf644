/* pg_dump, and restored into a fresh cluster: readers go on where they were, nothing is appended twice. */
#include "support/test.h"

#include "support/child.h"
#include "support/outbox_fixture.h"
#include "support/scratch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A shell command's stdout; it must succeed. */
static const char *shell(const char *command) {
  const char *out = scratch_path("out"), *log = scratch_path("log");
  const char *dependencies = getenv("PRESENCE_DEPS_DIR");
  const char *environment[] = {text_format("PRESENCE_DEPS_DIR=%s", dependencies != NULL ? dependencies : ""), NULL};
  const char *argv[] = {"/bin/sh", "-c", command, NULL};
  struct child child = child_start(
      &(struct child_options){.argv = argv, .environment = dependencies != NULL ? environment : NULL, .log = log, .out = out});
  if (child_wait(&child, 90000) != 0) {
    child_show_log(command, log);
    fail_msg("failed: %s", command);
  }
  return place_text(out);
}

/* A second cluster, which dies with this program. */
static struct outbox_fixture start_fresh_cluster(void) {
  struct outbox_fixture fresh = {0};
  const char *told = shell(text_format("'%s/deploy/local/servers' start-postgres '%s' --fast --parent %d", place_root(),
                                       scratch_folder("fresh"), (int)getpid()));
  const char *url = strstr(told, "POSTGRES_URL=");
  assert_non_null(url);
  url += strlen("POSTGRES_URL=");
  fresh.database.url = text_format("%.*s", (int)strcspn(url, "\n"), url);
  fresh.database.connection = PQconnectdb(fresh.database.url);
  if (PQstatus(fresh.database.connection) != CONNECTION_OK) fail_msg("%s", PQerrorMessage(fresh.database.connection));
  fresh.client = outbox_client(&fresh);
  return fresh;
}

#define EVERYTHING_SQL                                                                                                           \
  "SELECT seq, id, device, session, type, payload, occurred_at, recorded_at FROM presence.outbox ORDER BY seq"

static void consumers_go_on_after_a_restore(void **state) {
  struct outbox_fixture *fixture = *state;
  struct database *database = &fixture->database;
  const struct transition entries[] = {online_at("a", 1), online_at("b", 2), offline_at("a", 1), online_at("a", 3),
                                       offline_at("b", 2)};
  (void)append_all(fixture->client, entries, 5);
  PQclear(sql_query(database, "SELECT presence.create_consumer('c', 'oldest'), presence.create_group('g', 'oldest')", NULL));
  PQclear(sql_query(database, "SELECT presence.commit('c', 2), presence.set_group('g', 3, '0', '0')", NULL));
  PQclear(sql_query(database, "SELECT presence.claim('g', 2, '1 ms')", NULL)); /* 1 and 2 */
  PQclear(sql_query(database, "SELECT presence.ack('g', '{1}')", NULL));

  struct outbox_fixture fresh = start_fresh_cluster();
  /* Roles belong to the cluster, not to the database: pg_dumpall --roles-only, or by hand. */
  PQclear(sql_query(&fresh.database, "CREATE ROLE presence_service", NULL));
  PQclear(sql_query(&fresh.database, "CREATE ROLE presence_consumer", NULL));
  PQclear(sql_query(&fresh.database, "CREATE ROLE presence_admin", NULL));
  const char *dump = scratch_path("dump.sql");
  (void)shell(text_format("'%s' -f '%s' \"%s\"", place_server("pg-pg_dump"), dump, database->url));
  (void)shell(text_format("'%s' -X -q -v ON_ERROR_STOP=1 -f '%s' \"%s\"", place_server("pg-psql"), dump, fresh.database.url));

  assert_string_equal(sql_text(&fresh.database, EVERYTHING_SQL, NULL), sql_text(database, EVERYTHING_SQL, NULL));
  size_t applied = 1;
  char *message = NULL;
  assert_status(STATUS_OK, outbox_migrate(fresh.client, &applied, &message));
  free(message);
  assert_int_equal(applied, 0);
  /* The publisher goes on: what it had appended is there, what is new gets the next seq. */
  assert_int_equal(append_all(fresh.client, entries, 5).repeats, 5);
  const struct transition next = offline_at("a", 3);
  assert_int_equal(append_all(fresh.client, &next, 1).timeout, 1);
  assert_status(STATUS_OK, outbox_maintain(fresh.client, 7, 0));
  assert_string_equal(sql_text(&fresh.database, "SELECT string_agg(seq::text, ' ') FROM presence.poll('c', 9)", NULL), "3 4 5 6");
  const char *claimed = "";
  WAIT_UNTIL_TEXT(
      strcmp(claimed = sql_text(&fresh.database,
                                "SELECT string_agg(seq || '/' || attempts, ' ') FROM presence.claim('g', 9, '1 hour')", NULL),
             "2/2 3/1") == 0,
      5000, claimed);
  pg_client_free(fresh.client);
  PQfinish(fresh.database.connection);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(consumers_go_on_after_a_restore, outbox_setup, outbox_teardown),
  };
  return cmocka_run_group_tests_name("restore", tests, NULL, NULL);
}
