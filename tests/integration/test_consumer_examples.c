/* deploy/consumers: each example, where its language and driver are here, reads all once and goes on where it was. */
#include "support/test.h"

#include "support/child.h"
#include "support/outbox_fixture.h"
#include "support/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *example(const char *name) { return text_format("%s/deploy/consumers/%s", place_root(), name); }

/* Runs a command with the database in libpq's variables; its stdout, or NULL where it failed. */
static const char *output_of(const struct database *database, const char *command) {
  const char *out = scratch_path("out"), *log = scratch_path("log");
  const char *environment[] = {
      text_format("PGHOST=%.*s", (int)(strrchr(database->socket, '/') - database->socket), database->socket), "PGUSER=presence",
      text_format("PGDATABASE=%s", database->name), NULL};
  const char *argv[] = {"/bin/sh", "-c", command, NULL};
  struct child child = child_start(&(struct child_options){.argv = argv, .environment = environment, .log = log, .out = out});
  int code = child_wait(&child, 60000);
  if (code != 0) child_show_log(command, log);
  return code == 0 ? place_text(out) : NULL;
}

static bool works(const struct database *database, const char *command) {
  return output_of(database, text_format("%s 2>/dev/null || echo no", command))[0] != 'n';
}

/* How many lines of the text hold the word. */
static int lines_with(const char *text, const char *word) {
  int count = 0;
  for (const char *at = text; (at = strstr(at, word)) != NULL; at++) count++;
  return count;
}

static void append_range(struct outbox_fixture *fixture, int from, int to) {
  for (int i = from; i < to; i++) {
    const struct transition entries[] = {online_at(text_format("d%d", i), 10), offline_at(text_format("d%d", i), 10)};
    (void)append_all(fixture->client, entries, 2);
  }
}

/* command: reads with the consumer named "example" until all is read, a line per row. */
static void reads_all_once(struct outbox_fixture *fixture, const char *command) {
  append_range(fixture, 0, 3);
  const char *first = output_of(&fixture->database, command);
  if (first == NULL) fail_msg("%s failed", command);
  append_range(fixture, 3, 5);
  const char *second = output_of(&fixture->database, command);
  if (second == NULL || lines_with(first, "presence.device.online") != 3 || lines_with(first, "timeout") != 3 ||
      lines_with(second, "presence.device.online") != 2 || lines_with(second, "timeout") != 2)
    fail_msg("%s read:\n%s\nthen:\n%s", command, first, second);
  assert_int_equal(sql_integer(&fixture->database, "SELECT cursor FROM presence.consumer WHERE name = 'example'", NULL), 10);
}

static void in_sql(void **state) {
  struct outbox_fixture *fixture = *state;
  reads_all_once(fixture, text_format("'%s' -X -q -v ON_ERROR_STOP=1 -v name=example -f '%s'", place_server("pg-psql"),
                                      example("consumer.sql")));
  assert_string_equal(sql_text(&fixture->database, "SELECT count(*), min(reason) FROM offline_log", NULL), "5 timeout");
}

static void in_c(void **state) {
  struct outbox_fixture *fixture = *state;
  const char *program = scratch_path("consumer");
  if (!works(&fixture->database, "command -v cc >/dev/null && pkg-config --exists libpq")) {
    print_message("skipped: there is no cc, or no pkg-config, here\n");
    skip();
  }
  assert_non_null(
      output_of(&fixture->database,
                text_format("cc -std=c11 -Wall -Wextra -Werror -D_GNU_SOURCE -o '%s' '%s' $(pkg-config --cflags --libs libpq)",
                            program, example("consumer.c"))));
  reads_all_once(fixture, text_format("'%s' example once", program));
}

static void in_python(void **state) {
  struct outbox_fixture *fixture = *state;
  if (!works(&fixture->database, "/usr/bin/python3 -c 'import psycopg2'")) {
    print_message("skipped: there is no Python with psycopg2 here (Debian: python3-psycopg2)\n");
    skip();
  }
  reads_all_once(fixture, text_format("/usr/bin/python3 '%s' example once", example("consumer.py")));
}

static void in_go(void **state) {
  struct outbox_fixture *fixture = *state;
  /* Debian's driver, from its folder: nothing is fetched. */
  const char *go = text_format("HOME='%s' GO111MODULE=off GOPATH=/usr/share/gocode go", scratch_folder("go"));
  if (!works(&fixture->database, text_format("%s list github.com/lib/pq", go))) {
    print_message("skipped: there is no Go with lib/pq here (Debian: golang-go golang-github-lib-pq-dev)\n");
    skip();
  }
  const char *program = scratch_path("consumer-go");
  assert_non_null(output_of(&fixture->database, text_format("%s build -o '%s' '%s'", go, program, example("consumer.go"))));
  reads_all_once(fixture, text_format("'%s' example once", program));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(in_sql, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(in_c, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(in_python, outbox_setup, outbox_teardown),
      cmocka_unit_test_setup_teardown(in_go, outbox_setup, outbox_teardown),
  };
  return cmocka_run_group_tests_name("consumer_examples", tests, NULL, NULL);
}
