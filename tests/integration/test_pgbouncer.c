/* PgBouncer in transaction mode before PostgreSQL: each statement may run on another server connection, nothing that belongs to a
 * session can be relied on, and LISTEN hears nothing. */
#include "support/test.h"

#include "support/pgbouncer.h"
#include "support/world.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

static struct pgbouncer pooler;

static struct world *start_through_pooler(void **state) {
  if (!pgbouncer_is_here()) {
    print_message("skipped: there is no PgBouncer here (deploy/local/setup pgbouncer)\n");
    skip();
  }
  struct world *world = world_start(state, &(struct world_options){.no_service = true});
  pgbouncer_start(&pooler, &world->database);
  const char *environment[] = {text_format("PRESENCE_POSTGRES_URL=%s", pgbouncer_url(&pooler, &world->database)), NULL};
  world_talk_to(world, world_process(world, NULL, environment));
  return world;
}

static int teardown(void **state) {
  int result = world_teardown(state);
  pgbouncer_stop(&pooler);
  return result;
}

static const char *control(struct world *world, const char *noun, const char *verb, const char *word) {
  return world_control(world, noun, "--postgres-url", pgbouncer_url(&pooler, &world->database), "--json", verb, word, NULL);
}

static void test_the_service_works_through_it(void **state) {
  struct world *world = start_through_pooler(state);
  for (int i = 0; i < 40; i++) beat(world, text_format("d%d", i), i % 2 == 0 ? 400 : 60000);
  expect_status(world->client, 204, "POST", device_path(world, "d1", "/disconnect"), NULL);
  for (int i = 0; i < 40; i += 2) history_wait(&world->database, world->tenant, text_format("d%d", i), "online offline(timeout)");
  world_drain(world);
  assert_string_equal(device_state(world, "d0"), "offline"); /* from its row */
  assert_string_equal(device_state(world, "d3"), "online");
  static const char *const paths[] = {"/devices?state=offline", "/counts", "/devices/d0/history", "/events?after=0"};
  for (size_t i = 0; i < LENGTH(paths); i++) {
    const struct response *response = client_call(world->client, "GET", tenant_path(world, paths[i]), NULL);
    if (response->status != 200) fail_msg("%s: %d %s", paths[i], response->status, response->body);
  }
  assert_true(metric(world, "presence_postgres_up") == 1);
  assert_true(metric(world, "presence_reader_retention_used_ratio") == 0); /* the maintenance thread's statement */
  assert_true(sql_integer(&world->database, "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'",
                          NULL) <= 1 + 4); /* the test's own, and the pool's */
  world_end(world);
}

static void test_presencectl_works_through_it(void **state) {
  struct world *world = start_through_pooler(state);
  beat(world, "d", 60000);
  world_drain(world);
  (void)control(world, "migrate", NULL, NULL);
  assert_non_null(strstr(control(world, "status", NULL, NULL), "\"up\""));
  (void)control(world, "tenant", "create", "another");
  assert_non_null(strstr(control(world, "tenant", "list", NULL), "another"));
  (void)control(world, "lag", NULL, NULL);
  const char *url = pgbouncer_url(&pooler, &world->database);
  assert_non_null(strstr(world_control(world, "token", "create", "--admin", "--postgres-url", url, "--json", NULL), "secret"));
  assert_non_null(strstr(world_control(world, "events", "tail", world->tenant, "--no-follow", "--postgres-url", url, NULL),
                         "presence.device.online"));
  world_end(world);
}

/* A long poll is answered when its event is there, not when its time is over, although no notification can have come. */
static void test_what_waits_for_events_gets_them(void **state) {
  struct world *world = start_through_pooler(state);
  beat(world, "d", 1500);
  history_wait(&world->database, world->tenant, "d", "online");
  int64_t begun_ms = wait_now_ms();
  const struct response *response = client_call(world->client, "GET", tenant_path(world, "/events?after=1&wait_ms=30000"), NULL);
  assert_int_equal(response->status, 200);
  assert_non_null(strstr(response->body, "presence.device.offline"));
  assert_true(wait_now_ms() - begun_ms < wait_limit_ms(10000));
  world_end(world);
}

static PGconn *connect_through_pooler(struct world *world) {
  PGconn *connection = PQconnectdb(pgbouncer_url(&pooler, &world->database));
  if (PQstatus(connection) != CONNECTION_OK) fail_msg("%s", PQerrorMessage(connection));
  return connection;
}

static void test_consumers_work_through_it(void **state) {
  struct world *world = start_through_pooler(state);
  struct database first = {.connection = connect_through_pooler(world)}, second = {.connection = connect_through_pooler(world)};
  PQclear(sql_query(&first, "SELECT presence.create_consumer('c', 'oldest'), presence.create_group('g', 'oldest')", NULL));
  for (int i = 0; i < 20; i++) beat(world, text_format("d%d", i), 60000);
  world_drain(world);
  int64_t read = 0;
  for (int turn = 0; read < 20; turn++) { /* two of a name, in turn */
    struct database *reader = turn % 2 == 0 ? &first : &second;
    PQclear(sql_query(reader, "BEGIN", NULL));
    PGresult *rows = sql_query(reader, "SELECT seq FROM presence.poll('c', 3)", NULL);
    for (int i = 0; i < PQntuples(rows); i++) assert_int_equal(strtoll(PQgetvalue(rows, i, 0), NULL, 10), ++read);
    PQclear(rows);
    PQclear(sql_query(reader, "SELECT presence.commit('c', $1)", text_format("%lld", (long long)read), NULL));
    PQclear(sql_query(reader, "COMMIT", NULL));
  }
  int64_t acknowledged = 0;
  for (int turn = 0; acknowledged < 20; turn++) {
    struct database *worker = turn % 2 == 0 ? &first : &second;
    const char *seqs = sql_text(worker, "SELECT array_agg(seq) FROM presence.claim('g', 3, '1 minute')", NULL);
    assert_string_not_equal(seqs, "");
    acknowledged += sql_integer(worker == &first ? &second : &first, "SELECT presence.ack('g', $1)", seqs, NULL);
  }
  assert_int_equal(acknowledged, 20);
  PQfinish(first.connection);
  PQfinish(second.connection);
  world_end(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_the_service_works_through_it, teardown),
      cmocka_unit_test_teardown(test_presencectl_works_through_it, teardown),
      cmocka_unit_test_teardown(test_what_waits_for_events_gets_them, teardown),
      cmocka_unit_test_teardown(test_consumers_work_through_it, teardown),
  };
  return cmocka_run_group_tests_name("pgbouncer", tests, NULL, NULL);
}
