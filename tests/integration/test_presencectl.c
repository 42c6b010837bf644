/* presencectl as people and scripts use it, beside a running service. */
#include "support/test.h"

#include "support/scratch.h"
#include "support/world.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

static struct world *shared;

static int start_shared(void **state) {
  shared = world_start(state, &(struct world_options){.dialect = DIALECT_NATIVE});
  return 0;
}

static int end_shared(void **state) {
  world_end(shared);
  return world_teardown(state);
}

/* A command's stdout as JSON; it must end well. */
#define control_json(...) parse(world_control(shared, __VA_ARGS__, "--json", NULL))

static json_t *parse(const char *text) {
  json_error_t error;
  json_t *json = json_loads(text, 0, &error);
  if (json == NULL) fail_msg("no JSON (%s): %s", error.text, text);
  return json;
}

static const char *text_of(const json_t *object, const char *member) {
  const char *text = json_string_value(json_object_get(object, member));
  if (text == NULL) fail_msg("%s is no text", member);
  return text;
}

static int64_t number_of(const json_t *object, const char *member) {
  const json_t *number = json_object_get(object, member);
  if (!json_is_integer(number)) fail_msg("%s is no integer", member);
  return json_integer_value(number);
}

/* The words must be refused with this exit code, one line on stderr that has this part, and nothing on stdout. */
static void expect_refused(int code, const char *part, const char *const *words) {
  struct outcome outcome = run_program("presencectl", world_environment(shared), words);
  if (outcome.code != code || strstr(outcome.err, part) == NULL || outcome.out[0] != '\0') {
    fail_msg("%s %s: exit code %d, \"%s\", \"%s\"", words[0], words[0] == NULL ? "" : words[1], outcome.code, outcome.err,
             outcome.out);
  }
  assert_ptr_equal(strchr(outcome.err, '\n'), outcome.err + strlen(outcome.err) - 1);
}

#define REFUSED(code, part, ...) expect_refused(code, part, (const char *const[]){__VA_ARGS__, NULL})

static void bad_usage_is_one_line_and_2(void **state) {
  (void)state;
  expect_refused(2, "no command", (const char *const[]){NULL});
  REFUSED(2, "unknown command nonsense", "nonsense");
  REFUSED(2, "unknown command tenant burn", "tenant", "burn", "t");
  REFUSED(2, "tenant what?", "tenant");
  REFUSED(2, "usage: presencectl tenant create ID", "tenant", "create");
  REFUSED(2, "usage: presencectl counts [TENANT]", "counts", "a", "b");
  REFUSED(2, "unknown flag --nonsense", "tenant", "list", "--nonsense");
  REFUSED(2, "--scope does not go with tenant list", "tenant", "list", "--scope", "read");
  REFUSED(2, "is no tenant id", "tenant", "create", "Upper");
  REFUSED(2, "--max-devices = -1", "tenant", "create", "x", "--max-devices", "-1");
  REFUSED(2, "--min-ttl-ms = 99", "tenant", "create", "x", "--min-ttl-ms", "99");
  REFUSED(2, "--max-ttl-ms = 2592000001", "tenant", "create", "x", "--max-ttl-ms", "2592000001");
  REFUSED(2, "must hold", "tenant", "create", "x", "--min-ttl-ms", "2000", "--default-ttl-ms", "1000");
  REFUSED(2, "8 partitions allow 32768", "tenant", "create", "x", "--max-devices", "1048577");
  REFUSED(2, "allowed: 1 to 32768", "tenant", "create", "x", "--buckets", "32769");
  REFUSED(2, "buckets cannot be set later", "tenant", "set", "x", "--buckets", "1");
  REFUSED(2, "needs --tenant and --scope", "token", "create");
  REFUSED(2, "needs --tenant and --scope", "token", "create", "--admin", "--tenant", "x", "--scope", "read");
  REFUSED(2, "some of device,read,events", "token", "create", "--tenant", "x", "--scope", "admin");
  REFUSED(2, "some of device,read,events", "token", "create", "--tenant", "x", "--scope", "read,read");
  REFUSED(2, "some of device,read,events", "token", "create", "--tenant", "x", "--scope", "");
  REFUSED(2, "--expires-in-s = 0", "token", "create", "--admin", "--expires-in-s", "0");
  REFUSED(2, "is no token id", "token", "revoke", "x");
  REFUSED(2, "no connection string", "tenant", "list", "--postgres-url", "postgres://u:secret@[x");
}

static void what_is_not_there_is_1(void **state) {
  (void)state;
  REFUSED(1, "no such tenant", "tenant", "show", "nobody");
  REFUSED(1, "no such tenant", "tenant", "set", "nobody", "--max-devices", "1");
  REFUSED(1, "no such tenant", "counts", "nobody");
  REFUSED(1, "no such tenant", "events", "tail", "nobody", "--no-follow");
  REFUSED(1, "no such tenant", "device", "show", "nobody", "d");
  REFUSED(1, "no tenant has the id nobody", "token", "create", "--tenant", "nobody", "--scope", "read");
  REFUSED(1, "no such token", "token", "revoke", "999999");
  REFUSED(1, "no rejected transition has the id 999999", "rejected", "retry", "999999");
  REFUSED(1, "there is no group", "dead", "retry", "nobody");
  REFUSED(1, "No such file or directory", "tenant", "list", "--postgres-url", "host=/nowhere");
  world_new_tenant(shared, NULL);
  REFUSED(1, "exists already", "tenant", "create", shared->tenant);
  REFUSED(1, "ever recorded", "device", "show", shared->tenant, "nobody");
}

static void a_redis_that_hangs_is_1(void **state) {
  (void)state;
  child_signal(&shared->redis.child, SIGSTOP);
  struct outcome outcome = run_program("presencectl", world_environment(shared), (const char *const[]){"lag", NULL});
  child_signal(&shared->redis.child, SIGCONT);
  assert_int_equal(outcome.code, 1);
  assert_string_equal(outcome.err, "presencectl: Redis: ROLE: no answer in time\n");
}

static void a_tenants_settings(void **state) {
  (void)state;
  json_t *made = control_json("tenant", "create", "settings", "--max-devices", "33", "--heartbeats-per-second", "5");
  assert_int_equal(number_of(made, "buckets"), 2);
  assert_int_equal(number_of(made, "default_ttl_ms"), 90000);
  assert_int_equal(number_of(made, "min_ttl_ms"), 1000);
  assert_int_equal(number_of(made, "max_ttl_ms"), 2592000000);
  json_t *set = control_json("tenant", "set", "settings", "--max-devices", "1000", "--default-ttl-ms", "5000");
  assert_int_equal(number_of(set, "max_devices"), 1000);
  assert_int_equal(number_of(set, "default_ttl_ms"), 5000);
  assert_int_equal(number_of(set, "heartbeats_per_second"), 5);
  assert_int_equal(number_of(set, "buckets"), 2);
  json_t *shown = control_json("tenant", "show", "settings");
  assert_true(json_equal(set, shown));
  json_t *list = control_json("tenant", "list");
  assert_true(json_is_array(list) && json_array_size(list) >= 1);
  json_t *one = control_json("tenant", "create", "tiny", "--max-devices", "1");
  assert_int_equal(number_of(one, "buckets"), 1);
  json_decref(made), json_decref(set), json_decref(shown), json_decref(list), json_decref(one);
}

static void a_token_works_until_it_is_revoked(void **state) {
  (void)state;
  world_new_tenant(shared, NULL);
  json_t *token =
      control_json("token", "create", "--tenant", shared->tenant, "--scope", "device,events", "--expires-in-s", "3600");
  const char *secret = text_of(token, "secret"), *id = text_of(token, "id");
  assert_int_equal(strlen(secret), 4 + 43);
  assert_true(number_of(token, "expires_ms") > 0);
  assert_int_equal(json_array_size(json_object_get(token, "scopes")), 2);
  assert_int_equal(sql_integer(&shared->database,
                               "SELECT count(*) FROM presence.token WHERE sha256 = sha256(convert_to($1, 'UTF8'))", secret, NULL),
                   1);
  assert_null(strstr(world_control(shared, "token", "list", "--json", NULL), secret));
  struct client *client = client_open_as(shared->service->address, secret);
  expect_status(client, 204, "POST", device_path(shared, "d", "/heartbeat"), NULL);
  expect_status(client, 403, "GET", device_path(shared, "d", ""), NULL);
  json_t *revoked = control_json("token", "revoke", id);
  json_t *again = control_json("token", "revoke", id);
  assert_true(json_equal(revoked, again));
  WAIT_UNTIL(client_call(client, "POST", device_path(shared, "d", "/heartbeat"), NULL)->status == 401, 5000);
  client_close(client);
  json_decref(token), json_decref(revoked), json_decref(again);
}

static void a_device_as_the_api_shows_it(void **state) {
  (void)state;
  static const char *const devices[] = {"plain", "a/b", "-x", "\xF0\x9F\x98\x80"};
  world_new_tenant(shared, NULL);
  for (size_t i = 0; i < LENGTH(devices); i++) {
    expect_status(shared->client, 204, "POST", device_path(shared, devices[i], "/heartbeat"),
                  "{\"ttl_ms\":60000,\"meta\":{\"n\" : 1}}");
    json_t *by_api = device_object(shared, devices[i]);
    json_t *by_control = parse(world_control(shared, "device", "show", "--json", "--", shared->tenant, devices[i], NULL));
    assert_true(json_equal(by_api, by_control));
    json_decref(by_api), json_decref(by_control);
  }
  expect_status(shared->client, 204, "POST", device_path(shared, "plain", "/disconnect"), NULL);
  json_t *closed = control_json("device", "show", shared->tenant, "plain");
  assert_string_equal(text_of(closed, "state"), "offline");
  assert_string_equal(text_of(closed, "reason"), "disconnect");
  json_decref(closed);
  world_drain(shared);
  json_t *published = control_json("device", "show", shared->tenant, "plain");
  assert_string_equal(text_of(published, "reason"), "disconnect");
  json_decref(published);
  assert_non_null(strstr(world_control(shared, "device", "show", shared->tenant, "plain", NULL), "\nreason        disconnect\n"));
}

static void counts_of_a_tenant(void **state) {
  (void)state;
  world_new_tenant(shared, NULL);
  for (int i = 0; i < 5; i++) beat(shared, text_format("d%d", i), 60000);
  expect_status(shared->client, 204, "POST", device_path(shared, "d0", "/disconnect"), NULL);
  world_drain(shared);
  json_t *counts = control_json("counts", shared->tenant);
  assert_int_equal(number_of(counts, "online"), 4);
  assert_int_equal(number_of(counts, "offline"), 1);
  assert_int_equal(number_of(counts, "known"), 5);
  json_t *all = control_json("counts");
  size_t found = 0;
  for (size_t i = 0; i < json_array_size(all); i++) found += json_equal(json_array_get(all, i), counts) != 0;
  assert_int_equal(found, 1);
  json_decref(counts), json_decref(all);
}

static void status_and_lag(void **state) {
  (void)state;
  world_drain(shared);
  json_t *status = control_json("status");
  assert_string_equal(text_of(status, "redis"), "up");
  assert_string_equal(text_of(status, "redis_mode"), dialect_name(dialect_or_instead(DIALECT_NATIVE)));
  assert_string_equal(text_of(status, "postgres"), "up");
  assert_int_equal(number_of(status, "partitions"), 8);
  assert_int_equal(number_of(status, "unpublished"), 0);
  PQclear(sql_query(&shared->database, "SELECT presence.create_consumer('lagging', 'oldest')", NULL));
  json_t *lag = control_json("lag");
  assert_int_equal(json_array_size(json_object_get(lag, "partitions")), 8);
  const json_t *consumer = json_array_get(json_object_get(lag, "consumers"), 0);
  assert_int_equal(number_of(consumer, "behind"), number_of(status, "newest_seq"));
  struct outcome down = world_presencectl(shared, "status", "--json", "--redis-url", "unix:///nowhere/redis.sock", NULL);
  assert_int_equal(down.code, 1);
  json_t *half = parse(down.out);
  assert_string_equal(text_of(half, "redis"), "down");
  assert_string_equal(text_of(half, "postgres"), "up");
  json_decref(status), json_decref(lag), json_decref(half);
}

static int64_t served_partitions(void) {
  json_t *status = control_json("status");
  int64_t served = number_of(status, "served_partitions");
  json_decref(status);
  return served;
}

static void status_tells_whether_workers_work(void **state) {
  (void)state;
  WAIT_UNTIL(served_partitions() == 8, 10000);
  presenced_pause(shared->service);
  WAIT_UNTIL(served_partitions() == 0, 10000);
  presenced_resume(shared->service);
  WAIT_UNTIL(served_partitions() == 8, 10000);
}

static void ready_asks_the_process_itself(void **state) {
  (void)state;
  const char *address = shared->service->address;
  struct outcome outcome = world_presencectl(shared, "ready", "--listen", address, NULL);
  assert_int_equal(outcome.code, 0);
  assert_non_null(strstr(outcome.out, "\"ready\":true"));
  outcome = world_presencectl(shared, "ready", "--alive", "--listen", text_format("0.0.0.0%s", strchr(address, ':')), NULL);
  assert_int_equal(outcome.code, 0);
  assert_non_null(strstr(outcome.out, "alive"));
  REFUSED(2, "names no port", "ready", "--listen", "127.0.0.1:0");
  REFUSED(1, "http://127.0.0.1:1/readyz", "ready", "--listen", "127.0.0.1:1");
  child_signal(&shared->redis.child, SIGSTOP); /* alive, but not ready */
  WAIT_UNTIL(world_presencectl(shared, "ready", "--listen", address, NULL).code == 1, 15000);
  outcome = world_presencectl(shared, "ready", "--alive", "--listen", address, NULL);
  child_signal(&shared->redis.child, SIGCONT);
  assert_int_equal(outcome.code, 0);
  WAIT_UNTIL(world_presencectl(shared, "ready", "--listen", address, NULL).code == 0, 15000);
}

/* Each server's half of the answer, without the other one. */
static void lag_without_one_of_the_servers(void **state) {
  (void)state;
  struct outcome no_redis = world_presencectl(shared, "lag", "--json", "--redis-url", "unix:///nowhere/redis.sock", NULL);
  assert_int_equal(no_redis.code, 1);
  assert_non_null(strstr(no_redis.err, "presencectl: Redis: "));
  json_t *half = parse(no_redis.out);
  assert_true(json_is_null(json_object_get(half, "partitions")));
  assert_true(json_is_array(json_object_get(half, "consumers")));
  json_decref(half);
  struct outcome no_postgres = world_presencectl(shared, "lag", "--json", "--postgres-url", "host=/nowhere", NULL);
  assert_int_equal(no_postgres.code, 1);
  assert_non_null(strstr(no_postgres.err, "presencectl: PostgreSQL: "));
  half = parse(no_postgres.out);
  assert_int_equal(json_array_size(json_object_get(half, "partitions")), 8);
  assert_true(json_is_null(json_object_get(half, "consumers")));
  json_decref(half);
  no_postgres = world_presencectl(shared, "lag", "--postgres-url", "host=/nowhere", NULL);
  assert_int_equal(no_postgres.code, 1);
  assert_non_null(strstr(no_postgres.out, "oldest_age"));
  assert_null(strstr(no_postgres.out, "position"));
}

static void events_of_a_tenant(void **state) {
  (void)state;
  world_new_tenant(shared, NULL);
  beat(shared, "d", 60000);
  expect_status(shared->client, 204, "POST", device_path(shared, "d", "/disconnect"), NULL);
  world_drain(shared);
  const char *out = world_control(shared, "events", "tail", shared->tenant, "--after", "0", "--no-follow", "--json", NULL);
  const char *line_end = strchr(out, '\n');
  assert_non_null(line_end);
  json_t *online = json_loadb(out, (size_t)(line_end - out), 0, NULL), *offline = parse(line_end + 1);
  assert_string_equal(text_of(online, "specversion"), "1.0");
  assert_string_equal(text_of(online, "type"), "presence.device.online");
  assert_string_equal(text_of(offline, "type"), "presence.device.offline");
  assert_string_equal(text_of(offline, "source"), text_format("/tenants/%s", shared->tenant));
  assert_string_equal(text_of(offline, "subject"), "d");
  assert_string_equal(
      text_of(offline, "sequence"),
      sql_text(&shared->database, "SELECT max(seq) FROM presence.outbox WHERE tenant = $1", shared->tenant, NULL));
  assert_string_equal(text_of(json_object_get(offline, "data"), "reason"), "disconnect");
  assert_string_equal(
      world_control(shared, "events", "tail", shared->tenant, "--after", text_of(offline, "sequence"), "--no-follow", NULL), "");
  json_decref(online), json_decref(offline);
}

static bool file_has(const char *path, const char *text) {
  size_t length;
  char *whole = place_read(path, &length);
  bool has = strstr(whole, text) != NULL;
  free(whole);
  return has;
}

/* Follows: what comes later is printed without another call. */
static void a_tail_follows(void **state) {
  (void)state;
  world_new_tenant(shared, NULL);
  const char *log = scratch_path("tail");
  const char *argv[] = {place_built("presencectl"), "events", "tail", shared->tenant, NULL};
  struct child tail = child_start(&(struct child_options){.argv = argv, .environment = world_environment(shared), .log = log});
  beat(shared, "late", 60000);
  WAIT_UNTIL(file_has(log, "presence.device.online  \"late\""), 10000);
  child_kill(&tail);
}

static void rejected_are_listed_and_tried_again(void **state) {
  (void)state;
  struct database *database = &shared->database;
  world_new_tenant(shared, NULL);
  PQclear(sql_query(database, "ALTER TABLE presence.device ADD CONSTRAINT test CHECK (device <> 'refused')", NULL));
  beat(shared, "refused", 60000);
  WAIT_UNTIL(sql_integer(database, "SELECT count(*) FROM presence.rejected", NULL) == 1, 10000);
  json_t *list = control_json("rejected", "list");
  const json_t *entry = json_array_get(list, 0);
  assert_string_equal(text_of(entry, "sqlstate"), "23514");
  assert_string_equal(text_of(json_object_get(entry, "fields"), "device"), "refused");
  struct outcome refused = world_presencectl(shared, "rejected", "retry", "--json", NULL);
  assert_int_equal(refused.code, 1);
  json_t *outcomes = parse(refused.out);
  assert_string_equal(text_of(json_array_get(outcomes, 0), "outcome"), "refused");
  PQclear(sql_query(database, "ALTER TABLE presence.device DROP CONSTRAINT test", NULL));
  json_t *retried = control_json("rejected", "retry", text_format("%lld", (long long)number_of(entry, "id")));
  assert_string_equal(text_of(json_array_get(retried, 0), "outcome"), "appended");
  assert_int_equal(sql_integer(database, "SELECT count(*) FROM presence.rejected", NULL), 0);
  history_wait(database, shared->tenant, "refused", "online");
  json_decref(list), json_decref(outcomes), json_decref(retried);
}

static void dead_letters_are_listed_and_handed_out_again(void **state) {
  (void)state;
  struct database *database = &shared->database;
  world_new_tenant(shared, NULL);
  PQclear(
      sql_query(database, "SELECT presence.create_group('pager', 'now'), presence.set_group('pager', 1, '0 s', '0 s')", NULL));
  beat(shared, "poison", 60000);
  history_wait(database, shared->tenant, "poison", "online");
  const char *seq = sql_text(database, "SELECT seq FROM presence.claim('pager', 10, '1 minute')", NULL);
  PQclear(sql_query(database, text_format("SELECT presence.nack('pager', ARRAY[%s], 'no answer')", seq), NULL));
  json_t *list = control_json("dead", "list", "pager");
  const json_t *letter = json_array_get(list, 0);
  assert_int_equal(json_array_size(list), 1);
  assert_string_equal(text_of(letter, "error"), "no answer");
  assert_string_equal(text_of(letter, "device"), "poison");
  assert_string_equal(text_of(json_object_get(letter, "payload"), "device"), "poison");
  REFUSED(1, "no such dead letter", "dead", "retry", "pager", "999999");
  REFUSED(2, "is no seq", "dead", "retry", "pager", "x");
  json_t *retried = control_json("dead", "retry", "pager", seq);
  assert_int_equal(number_of(retried, "retried"), 1);
  assert_string_equal(sql_text(database, "SELECT seq FROM presence.claim('pager', 10, '1 minute')", NULL), seq);
  json_t *none = control_json("dead", "list");
  assert_int_equal(json_array_size(none), 0);
  PQclear(sql_query(database, "SELECT presence.drop_group('pager')", NULL));
  json_decref(list), json_decref(retried), json_decref(none);
}

static void help_and_version(void **state) {
  (void)state;
  const char *help = world_control(shared, "--help", NULL);
  static const char *const words[] = {"tenant create", "token revoke", "device show", "events tail", "--postgres-url"};
  for (size_t i = 0; i < LENGTH(words); i++)
    if (strstr(help, words[i]) == NULL) fail_msg("--help does not tell of %s", words[i]);
  assert_non_null(strstr(world_control(shared, "--version", NULL), "presencectl "));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bad_usage_is_one_line_and_2),
      cmocka_unit_test(what_is_not_there_is_1),
      cmocka_unit_test(a_redis_that_hangs_is_1),
      cmocka_unit_test(a_tenants_settings),
      cmocka_unit_test(a_token_works_until_it_is_revoked),
      cmocka_unit_test(a_device_as_the_api_shows_it),
      cmocka_unit_test(counts_of_a_tenant),
      cmocka_unit_test(events_of_a_tenant),
      cmocka_unit_test(a_tail_follows),
      cmocka_unit_test(status_and_lag),
      cmocka_unit_test(status_tells_whether_workers_work),
      cmocka_unit_test(ready_asks_the_process_itself),
      cmocka_unit_test(lag_without_one_of_the_servers),
      cmocka_unit_test(rejected_are_listed_and_tried_again),
      cmocka_unit_test(dead_letters_are_listed_and_handed_out_again),
      cmocka_unit_test(help_and_version),
  };
  return cmocka_run_group_tests_name("presencectl", tests, start_shared, end_shared);
}
