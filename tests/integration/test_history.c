/* GET …/devices/{d}/history: sessions and availability as the outbox tells them. */
#include "support/test.h"

#include "support/world.h"

#include <string.h>

#define MINUTE_MS INT64_C(60000)
#define HOUR_MS (60 * MINUTE_MS)
#define DAY_MS (24 * HOUR_MS)

static json_t *history(struct world *world, const char *device, const char *query) {
  return expect(world->client, 200, "GET", device_path(world, device, text_format("/history%s", query)), NULL);
}

static int64_t number(const json_t *object, const char *name) {
  const json_t *value = json_object_get(object, name);
  if (!json_is_integer(value)) fail_msg("%s is no integer", name);
  return json_integer_value(value);
}

static const json_t *session_at(const json_t *answer, size_t i) { return json_array_get(json_object_get(answer, "sessions"), i); }

static const json_t *window_of(const json_t *answer, const char *name) {
  return json_object_get(json_object_get(answer, "availability"), name);
}

/* A session of the past, by the append itself; end_ms 0: still open. Times: ms before now_ms. */
static void append_session(struct world *world, const char *device, int64_t now_ms, int64_t begin_ago_ms, int64_t end_ago_ms,
                           const char *reason) {
  int64_t begin_ms = now_ms - begin_ago_ms, end_ms = now_ms - end_ago_ms;
  const char *statement =
      "SELECT presence.append(0, ARRAY[$1], ARRAY[$2], ARRAY[$3::bigint], ARRAY[0::bigint], ARRAY[$4], ARRAY[$5],"
      " ARRAY[$3::bigint], ARRAY[1000::bigint], ARRAY[$6::bigint], ARRAY[$6::bigint], ARRAY[$6::bigint],"
      " ARRAY[NULL], ARRAY[gen_random_uuid()], ARRAY[gen_random_uuid()])";
  const char *begin = text_format("%lld", (long long)begin_ms), *end = text_format("%lld", (long long)end_ms);
  PQclear(sql_query(&world->database, statement, world->tenant, device, begin, "online", "", begin, NULL));
  if (reason != NULL) PQclear(sql_query(&world->database, statement, world->tenant, device, begin, "offline", reason, end, NULL));
}

static int64_t database_now_ms(struct world *world) {
  return sql_integer(&world->database, "SELECT presence.to_ms(clock_timestamp())", NULL);
}

static void test_sessions_newest_first(void **state) {
  struct world *world = world_begin(state);
  expect_error(world->client, 404, "not_found", "GET", device_path(world, "d", "/history"), NULL);
  beat(world, "d", 150);
  history_wait(&world->database, world->tenant, "d", "online offline(timeout)");
  int64_t ended_ms = device_number(world, "d", "offline_at_ms");
  beat(world, "d", 60000);
  expect_status(world->client, 204, "POST", device_path(world, "d", "/disconnect"), NULL);
  beat(world, "d", 60000);
  history_wait(&world->database, world->tenant, "d", "online offline(timeout) online offline(disconnect) online");
  json_t *answer = history(world, "d", "");
  assert_string_equal(json_string_value(json_object_get(answer, "device")), "d");
  assert_int_equal(json_array_size(json_object_get(answer, "sessions")), 3);
  assert_true(json_is_false(json_object_get(answer, "more")));
  const json_t *open = session_at(answer, 0), *second = session_at(answer, 1), *first = session_at(answer, 2);
  assert_true(json_is_null(json_object_get(open, "offline_at_ms")));
  assert_true(json_is_null(json_object_get(open, "reason")));
  assert_int_equal(number(open, "online_since_ms"), device_number(world, "d", "online_since_ms"));
  assert_string_equal(json_string_value(json_object_get(second, "reason")), "disconnect");
  assert_string_equal(json_string_value(json_object_get(first, "reason")), "timeout");
  assert_int_equal(number(first, "offline_at_ms"), ended_ms);
  assert_int_equal(number(first, "length_ms"), ended_ms - number(first, "online_since_ms"));
  assert_int_equal(number(first, "last_seen_ms"), ended_ms - 150);
  json_decref(answer);
  answer = history(world, "d", "?limit=2");
  assert_int_equal(json_array_size(json_object_get(answer, "sessions")), 2);
  assert_true(json_is_true(json_object_get(answer, "more")));
  json_decref(answer);
  world_check(world);
}

static void expect_share(const json_t *answer, const char *name, double share, int64_t from_ago_ms) {
  const json_t *window = window_of(answer, name);
  double seen = json_number_value(json_object_get(window, "share"));
  if (seen < share - 0.001 || seen > share + 0.001) fail_msg("share of %s: %f, wanted %f", name, seen, share);
  int64_t ago_ms = number(answer, "as_of_ms") - number(window, "from_ms");
  assert_in_range(ago_ms, from_ago_ms - 60000, from_ago_ms + 60000);
}

/* Half of the last hour, in two pieces; then a day before it, all of it; the device is two days old. */
static void test_availability(void **state) {
  struct world *world = world_begin(state);
  int64_t now_ms = database_now_ms(world);
  append_session(world, "d", now_ms, 2 * DAY_MS, 12 * HOUR_MS, "timeout");
  append_session(world, "d", now_ms, 50 * MINUTE_MS, 30 * MINUTE_MS, "disconnect");
  append_session(world, "d", now_ms, 10 * MINUTE_MS, 0, NULL);
  json_t *answer = history(world, "d", "");
  expect_share(answer, "1h", 0.5, HOUR_MS);
  expect_share(answer, "24h", 12.5 / 24, DAY_MS);
  expect_share(answer, "7d", 36.5 / 48, 2 * DAY_MS); /* from the first session on, and it says so */
  assert_int_equal(number(answer, "complete_since_ms"), now_ms - 2 * DAY_MS);
  assert_int_equal(number(session_at(answer, 1), "length_ms"), 20 * MINUTE_MS);
  json_decref(answer);
  world->clock_stepped = true; /* sessions of the past among those of now */
  world->checked = world->begun;
}

/* What the retention has dropped is not guessed at. */
static void test_p5_what_is_no_longer_kept(void **state) {
  struct world *world = world_start(state, &(struct world_options){.roles = "api,worker"});
  int64_t now_ms = database_now_ms(world);
  append_session(world, "d", now_ms, 6 * DAY_MS, 5 * DAY_MS, "timeout");
  append_session(world, "d", now_ms, 2 * HOUR_MS, HOUR_MS, "timeout");
  PQclear(sql_query(&world->database,
                    "WITH gone AS (DELETE FROM presence.outbox WHERE seq <= 2 RETURNING seq)"
                    " SELECT presence.raise_horizon(max(seq)) FROM gone",
                    NULL));
  json_t *answer = history(world, "d", "");
  assert_int_equal(json_array_size(json_object_get(answer, "sessions")), 1);
  int64_t complete_since_ms = number(answer, "complete_since_ms");
  assert_true(complete_since_ms > now_ms - 2 * DAY_MS); /* at the earliest the begin of today */
  assert_int_equal(number(window_of(answer, "7d"), "from_ms"), complete_since_ms);
  json_decref(answer);
  world->checked = world->begun;
}

static void test_what_is_asked_is_checked(void **state) {
  struct world *world = world_begin(state);
  beat(world, "d", 60000);
  static const char *const bad[] = {"?limit=0", "?limit=1001", "?limit=x", "?after=1"};
  for (size_t i = 0; i < LENGTH(bad); i++)
    expect_error(world->client, 400, NULL, "GET", device_path(world, "d", text_format("/history%s", bad[i])), NULL);
  world_check(world);
}

/* Redis is not needed; PostgreSQL is, and the answer says that it is away. */
static void test_servers_away(void **state) {
  struct world *world = world_start(state, &(struct world_options){.proxies = true});
  beat(world, "d", 600000);
  world_drain(world);
  proxy_refuse(world->redis_proxy, true);
  json_decref(history(world, "d", ""));
  proxy_refuse(world->redis_proxy, false);
  proxy_refuse(world->postgres_proxy, true);
  expect_error(world->client, 503, "postgres_unavailable", "GET", device_path(world, "d", "/history"), NULL);
  proxy_refuse(world->postgres_proxy, false);
  WAIT_UNTIL(client_call(world->client, "GET", device_path(world, "d", "/history"), NULL)->status == 200, 10000);
  world_end(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_sessions_newest_first),
      cmocka_unit_test(test_what_is_asked_is_checked),
      cmocka_unit_test(test_availability),
  };
  const struct CMUnitTest alone[] = {
      cmocka_unit_test_teardown(test_p5_what_is_no_longer_kept, world_teardown),
      cmocka_unit_test_teardown(test_servers_away, world_teardown),
  };
  return cmocka_run_group_tests(tests, world_group_start, world_teardown) + cmocka_run_group_tests(alone, NULL, NULL);
}
