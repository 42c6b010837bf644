/* GET …/events as a stream: each event once and in order, whatever happens to clients, tokens and servers. */
#include "support/test.h"

#include "support/fleet.h"
#include "support/sse.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define CROWD 1000

static struct sse *follow(struct world *world, const char *query, const char *headers) {
  return sse_open(world->service->address, world->token, tenant_path(world, text_format("/events%s", query)), headers);
}

static struct sse *follow_from_now(struct world *world) {
  struct sse *sse = follow(world, "", NULL);
  sse_wait_started(sse);
  return sse;
}

/* It has had exactly the rows of this many devices' histories, by seq. */
static void expect_rows(struct world *world, struct sse *sse, int64_t after) {
  PGresult *rows =
      sql_query(&world->database, "SELECT seq, device FROM presence.outbox WHERE tenant = $1 AND seq > $2 ORDER BY seq",
                world->tenant, text_format("%lld", (long long)after), NULL);
  sse_wait(sse, (size_t)PQntuples(rows));
  assert_int_equal(sse->count, PQntuples(rows));
  for (size_t i = 0; i < sse->count; i++) {
    assert_int_equal(sse->events[i].id, strtoll(PQgetvalue(rows, (int)i, 0), NULL, 10));
    assert_non_null(strstr(sse->events[i].data, text_format("\"subject\":\"%s\"", PQgetvalue(rows, (int)i, 1))));
  }
  PQclear(rows);
}

static void test_p4_from_now_on_in_order_and_once(void **state) {
  struct world *world = world_begin(state);
  beat(world, "before", 60000);
  history_wait(&world->database, world->tenant, "before", "online");
  int64_t newest = sql_integer(&world->database, "SELECT presence.newest_seq()", NULL);
  struct sse *sse = follow_from_now(world);
  fleet_beat(world, 0, 300, 60000);
  for (int i = 0; i < 20; i++)
    expect_status(world->client, 204, "POST", device_path(world, text_format("d%d", i), "/disconnect"), NULL);
  world_drain(world);
  expect_rows(world, sse, newest);
  sse_close(sse);
  world_check(world);
}

/* From each place of the history, by both ways to say it. */
static void test_p4_resumes_where_it_was(void **state) {
  struct world *world = world_begin(state);
  fleet_beat(world, 0, 30, 60000);
  fleet_wait(world, 30, "online", 10000);
  struct sse *all = follow(world, "?after=0", NULL);
  expect_rows(world, all, 0);
  for (size_t i = 0; i < 30; i += 7) {
    long long id = (long long)all->events[i].id;
    struct sse *by_query = follow(world, text_format("?after=%lld", id), NULL);
    struct sse *by_header = follow(world, "?after=0", text_format("Last-Event-ID: %lld\r\n", id));
    expect_rows(world, by_query, id);
    expect_rows(world, by_header, id);
    beat(world, text_format("more%zu", i), 60000); /* joined to what comes */
    history_wait(&world->database, world->tenant, text_format("more%zu", i), "online");
    expect_rows(world, by_query, id);
    expect_rows(world, by_header, id);
    sse_close(by_query);
    sse_close(by_header);
  }
  expect_rows(world, all, 0);
  sse_close(all);
  world_check(world);
}

/* A history longer than a page and than what the process remembers, under load while it is caught up. */
static void test_p4_catches_up_while_more_comes(void **state) {
  struct world *world = world_begin(state);
  fleet_beat(world, 0, 4000, 600000);
  world_drain(world);
  struct sse *sse = follow(world, "?after=0", NULL);
  fleet_beat(world, 4000, 1000, 600000);
  world_drain(world);
  expect_rows(world, sse, 0);
  sse_close(sse);
  world_check(world);
}

static void test_p7_a_stream_has_its_tenants_events_only(void **state) {
  struct world *world = world_begin(state);
  const char *first = world->tenant;
  struct sse *sse = follow_from_now(world);
  world_new_tenant(world, NULL);
  beat(world, "theirs", 60000);
  history_wait(&world->database, world->tenant, "theirs", "online");
  world->tenant = first;
  world->client->token = world_token(world, first, "device,read,events");
  beat(world, "mine", 60000);
  sse_wait(sse, 1);
  assert_int_equal(sse->count, 1);
  assert_non_null(strstr(sse->events[0].data, "\"subject\":\"mine\""));
  sse_close(sse);
  world_check(world);
}

/* Sends raw text on a connection of its own and reads until what comes holds `wanted`. */
static void expect_in_answer(const struct world *world, const char *request, const char *wanted) {
  struct client *client = client_open(world->service->address);
  char seen[4096] = "";
  size_t length = 0;
  client_send_text(client, request);
  int64_t limit_ms = wait_now_ms() + wait_limit_ms(10000);
  while (strstr(seen, wanted) == NULL) {
    if (wait_now_ms() > limit_ms || length == sizeof seen - 1) fail_msg("no %s in: %s", wanted, seen);
    ssize_t got = recv(client->fd, seen + length, sizeof seen - 1 - length, MSG_DONTWAIT);
    if (got == 0) fail_msg("the end, without %s, after: %s", wanted, seen);
    if (got > 0) length += (size_t)got;
    seen[length] = '\0';
    if (got < 0) wait_pause();
  }
  client_close(client);
}

/* HEAD has headers and no stream; an HTTP/1.0 client, which knows no chunks, has the bare text. */
static void test_other_ways_to_ask(void **state) {
  struct world *world = world_begin(state);
  beat(world, "d", 60000);
  history_wait(&world->database, world->tenant, "d", "online");
  const char *headers = text_format("Authorization: Bearer %s\r\nAccept: text/html, Text/Event-Stream;q=0.9\r\n", world->token);
  const char *path = tenant_path(world, "/events?after=0");
  expect_in_answer(world,
                   text_format("HEAD %s HTTP/1.1\r\nHost: x\r\n%s\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", path, headers),
                   "\r\n\r\nHTTP/1.1 200");
  expect_in_answer(world, text_format("GET %s HTTP/1.0\r\n%s\r\n", path, headers), "\r\n\r\n:\n\nid: ");
  WAIT_UNTIL((int)metric(world, "presence_event_streams") == 0, 10000);
  world_check(world);
}

/* In the order of the contract, before anything of a stream. */
static void test_p5_a_cursor_that_is_too_old(void **state) {
  struct world *world = world_start(state, &(struct world_options){0});
  fleet_beat(world, 0, 5, 600000);
  fleet_wait(world, 5, "online", 10000);
  PQclear(sql_query(&world->database, "DELETE FROM presence.outbox WHERE seq <= 3", NULL));
  PQclear(sql_query(&world->database, "SELECT presence.raise_horizon(3)", NULL));
  world->client->headers = "Accept: text/event-stream\r\nLast-Event-ID: 2\r\n";
  expect_error(world->client, 410, "cursor_expired", "GET", tenant_path(world, "/events"), NULL);
  world->client->headers = NULL;
  world->checked = world->begun;
}

/* One reader of the database, however many clients; each gets each event once. */
static void test_a_thousand_clients(void **state) {
  struct world *world = world_begin(state);
  static struct sse *crowd[CROWD];
  for (size_t i = 0; i < CROWD; i++) crowd[i] = follow(world, "", NULL);
  for (size_t i = 0; i < CROWD; i++) sse_wait_started(crowd[i]);
  WAIT_UNTIL((int)metric(world, "presence_event_streams") == CROWD, 10000); /* those of the tests before have been missed */
  int64_t newest = sql_integer(&world->database, "SELECT presence.newest_seq()", NULL);
  fleet_beat(world, 0, 20, 60000);
  for (int i = 0; i < 20; i++)
    expect_status(world->client, 204, "POST", device_path(world, text_format("d%d", i), "/disconnect"), NULL);
  fleet_wait(world, 20, "online offline(disconnect)", 10000);
  expect_rows(world, crowd[0], newest);
  for (size_t i = 0; i < CROWD; i++) {
    sse_wait(crowd[i], 40);
    assert_int_equal(crowd[i]->count, 40);
    for (size_t k = 0; k < 40; k++) assert_int_equal(crowd[i]->events[k].id, crowd[0]->events[k].id);
  }
  for (size_t i = 0; i < CROWD; i++) sse_close(crowd[i]);
  WAIT_UNTIL((int)metric(world, "presence_event_streams") == 0, 10000); /* that they have gone is noticed without an event */
  world_check(world);
}

static void test_a_revoked_token_ends_it(void **state) {
  struct world *world = world_begin(state);
  json_t *token = json_loads(
      world_control(world, "token", "create", "--tenant", world->tenant, "--scope", "events", "--json", NULL), 0, NULL);
  const char *secret = json_string_value(json_object_get(token, "secret"));
  struct sse *sse = sse_open(world->service->address, secret, tenant_path(world, "/events"), NULL);
  struct sse *other = follow_from_now(world);
  sse_wait_started(sse);
  json_t *id = json_object_get(token, "id");
  world_control(world, "token", "revoke",
                json_is_integer(id) ? text_format("%lld", (long long)json_integer_value(id)) : json_string_value(id), NULL);
  sse_wait_ended(sse, 5000);
  assert_true(sse->complete);
  beat(world, "d", 60000);
  sse_wait(other, 1);
  assert_int_equal(sse->count, 0);
  json_decref(token);
  sse_close(sse);
  sse_close(other);
  world_check(world);
}

static long memory_kib(const struct presenced *process) {
  FILE *file = fopen(text_format("/proc/%d/status", (int)process->child.pid), "r");
  char line[256];
  long kib = -1;
  assert_non_null(file);
  while (fgets(line, sizeof line, file) != NULL)
    if (strncmp(line, "VmRSS:", 6) == 0) kib = strtol(line + 6, NULL, 10);
  fclose(file);
  return kib;
}

/* Megabytes of events for clients that never read: they are dropped, others get everything, memory stays where it was. It takes
 * a while, and so shows the comments too. */
static void test_p8_clients_that_do_not_read(void **state) {
  struct world *world = world_start(state, &(struct world_options){0});
  enum { DEAF = 20, DEVICES = 20000 };
  struct sse *deaf[DEAF];
  for (size_t i = 0; i < DEAF; i++) deaf[i] = follow_from_now(world);
  struct sse *sse = follow_from_now(world);
  int64_t since_ms = wait_now_ms();
  long before_kib = memory_kib(world->service);
  for (int done = 0; done < DEVICES; done += FLEET_BATCH) {
    fleet_beat(world, done, FLEET_BATCH, 600000);
    sse_read(sse);
  }
  sse_wait(sse, DEVICES);
  assert_int_equal(sse->count, DEVICES);
  long grown_kib = memory_kib(world->service) - before_kib;
  print_message("the service grew by %ld KiB\n", grown_kib);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* which keep what was freed */
  assert_true(grown_kib < 65536);
#endif
  WAIT_UNTIL((int)metric(world, "presence_event_streams") == 1, 20000);
  assert_int_equal((int)metric(world, "presence_streams_dropped_total"), DEAF);
  for (size_t i = 0; i < DEAF; i++) {
    sse_wait_ended(deaf[i], 5000);
    assert_false(deaf[i]->complete);
    sse_close(deaf[i]);
  }
  WAIT_UNTIL((sse_read(sse), sse->comments) >= 2, 16000); /* one each 15 s, the first at once */
  assert_true(wait_now_ms() - since_ms > 12000);
  sse_close(sse);
  world_end(world);
}

/* The database goes in mid-stream and comes back, with and without connections that are told. */
static void test_p4_postgres_restarts_in_mid_stream(void **state) {
  struct world *world = world_start(state, &(struct world_options){0});
  struct sse *sse = follow(world, "?after=0", NULL);
  sse_wait_started(sse);
  for (int round = 0; round < 3; round++) {
    fleet_beat(world, round * 100, 50, 600000);
    postgres_server_kill();
    fleet_beat(world, round * 100 + 50, 50, 600000);
    postgres_server_restart();
    database_reconnect(&world->database);
    world_drain(world);
    expect_rows(world, sse, 0);
  }
  sse_close(sse);
  world_end(world);
}

/* Neither NOTIFY nor an unbroken connection is needed. */
static void test_p4_connections_to_postgres_are_cut(void **state) {
  struct world *world = world_start(state, &(struct world_options){.proxies = true});
  struct sse *sse = follow(world, "?after=0", NULL);
  sse_wait_started(sse);
  for (int round = 0; round < 10; round++) {
    proxy_cut_after_answers(world->postgres_proxy, (size_t)round * 977 + 100);
    fleet_beat(world, round * 50, 50, 600000);
    WAIT_UNTIL((int64_t)(sse_read(sse), sse->count) >= (round + 1) * 50, 15000);
  }
  world_drain(world);
  expect_rows(world, sse, 0);
  sse_close(sse);
  world_end(world);
}

static void test_p4_without_notifications(void **state) {
  struct world *world = world_start(state, &(struct world_options){0});
  /* As through a pooler: nobody listens. */
  PQclear(sql_query(&world->database, "CREATE FUNCTION presence.pg_notify(text, text) RETURNS void LANGUAGE sql AS ''", NULL));
  PQclear(sql_query(&world->database,
                    "DO $do$ BEGIN EXECUTE replace(pg_get_functiondef('presence.append'::regproc),"
                    " 'PERFORM pg_notify', 'PERFORM presence.pg_notify'); END $do$",
                    NULL));
  struct sse *sse = follow_from_now(world);
  int64_t since_ms = 0;
  for (int i = 0; i < 3; i++) {
    beat(world, text_format("d%d", i), 600000);
    history_wait(&world->database, world->tenant, text_format("d%d", i), "online");
    since_ms = wait_now_ms();
    sse_wait(sse, (size_t)i + 1);
    assert_true(wait_now_ms() - since_ms < wait_limit_ms(1500));
  }
  sse_close(sse);
  world_end(world);
}

static void test_the_service_stops(void **state) {
  struct world *world = world_start(state, &(struct world_options){0});
  struct sse *streams[20];
  for (size_t i = 0; i < LENGTH(streams); i++) streams[i] = follow_from_now(world);
  beat(world, "d", 600000);
  for (size_t i = 0; i < LENGTH(streams); i++) sse_wait(streams[i], 1);
  int64_t since_ms = wait_now_ms();
  assert_int_equal(presenced_stop(world->service), 0);
  assert_true(wait_now_ms() - since_ms < wait_limit_ms(3000));
  for (size_t i = 0; i < LENGTH(streams); i++) {
    sse_wait_ended(streams[i], 1000);
    assert_true(streams[i]->complete);
    sse_close(streams[i]);
  }
  world->checked = world->begun;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_p4_from_now_on_in_order_and_once),
      cmocka_unit_test(test_p4_resumes_where_it_was),
      cmocka_unit_test(test_p4_catches_up_while_more_comes),
      cmocka_unit_test(test_p7_a_stream_has_its_tenants_events_only),
      cmocka_unit_test(test_other_ways_to_ask),
      cmocka_unit_test(test_a_thousand_clients),
      cmocka_unit_test(test_a_revoked_token_ends_it),
  };
  const struct CMUnitTest alone[] = {
      cmocka_unit_test_teardown(test_p5_a_cursor_that_is_too_old, world_teardown),
      cmocka_unit_test_teardown(test_p4_postgres_restarts_in_mid_stream, world_teardown),
      cmocka_unit_test_teardown(test_p4_connections_to_postgres_are_cut, world_teardown),
      cmocka_unit_test_teardown(test_p4_without_notifications, world_teardown),
      cmocka_unit_test_teardown(test_p8_clients_that_do_not_read, world_teardown),
      cmocka_unit_test_teardown(test_the_service_stops, world_teardown),
  };
  return cmocka_run_group_tests(tests, world_group_start, world_teardown) + cmocka_run_group_tests(alone, NULL, NULL);
}
