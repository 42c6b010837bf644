/* GET …/devices: walks over the devices of a tenant. */
#include "support/test.h"

#include "support/fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a walk has brought, in order. */
struct walk {
  char **ids;
  size_t count, room, pages;
};

static void keep(struct walk *walk, const char *id) {
  if (walk->count == walk->room) {
    walk->room = walk->room == 0 ? 1024 : walk->room * 2;
    walk->ids = realloc(walk->ids, walk->room * sizeof walk->ids[0]);
    assert_non_null(walk->ids);
  }
  walk->ids[walk->count] = strdup(id);
  assert_non_null(walk->ids[walk->count++]);
}

static void walk_free(struct walk *walk) {
  for (size_t i = 0; i < walk->count; i++) free(walk->ids[i]);
  free(walk->ids);
}

/* query: "state=online&limit=10" or ""; on_page runs between two pages and may be NULL. */
static struct walk walk_all(struct world *world, struct client *client, const char *query, void (*on_page)(struct world *world)) {
  struct walk walk = {0};
  char cursor[512] = "";
  bool more = true;
  while (more) {
    const char *path = tenant_path(world, text_format("/devices?%s%s%s", query, cursor[0] != '\0' ? "&cursor=" : "", cursor));
    json_t *page = expect(client, 200, "GET", path, NULL);
    size_t i;
    json_t *device;
    json_array_foreach(json_object_get(page, "devices"), i, device) {
      keep(&walk, json_string_value(json_object_get(device, "device")));
    }
    const json_t *next = json_object_get(page, "next");
    more = !json_is_null(next);
    if (more) snprintf(cursor, sizeof cursor, "%s", json_string_value(next));
    json_decref(page);
    walk.pages++;
    assert_true(walk.pages < 5000);
    if (on_page != NULL && more) on_page(world);
  }
  for (size_t i = 1; i < walk.count; i++) assert_true(strcmp(walk.ids[i - 1], walk.ids[i]) < 0); /* bytes in order: none twice */
  return walk;
}

static const char *list(struct world *world, const char *query) {
  struct walk walk = walk_all(world, world->client, query, NULL);
  const char *text = "";
  for (size_t i = 0; i < walk.count; i++) text = text_format("%s%s%s", text, i > 0 ? " " : "", walk.ids[i]);
  walk_free(&walk);
  return text;
}

static void test_states_prefixes_and_pages(void **state) {
  struct world *world = world_begin(state);
  static const char *const names[] = {"b", "a", "a/1", "a b", "B", "\xc3\xa9", "\xf0\x9f\x98\x80", "z", "a+"};
  for (size_t i = 0; i < LENGTH(names); i++) beat(world, names[i], 60000);
  expect_status(world->client, 204, "POST", device_path(world, "b", "/disconnect"), NULL);
  expect_status(world->client, 204, "POST", device_path(world, "a/1", "/disconnect"), NULL);
  world_drain(world);
  const char *all = "B a a b a+ a/1 b z \xc3\xa9 \xf0\x9f\x98\x80";
  assert_string_equal(list(world, ""), all);
  for (int limit = 1; limit <= 10; limit++) assert_string_equal(list(world, text_format("limit=%d", limit)), all);
  assert_string_equal(list(world, "state=offline"), "a/1 b");
  assert_string_equal(list(world, "state=offline&limit=1"), "a/1 b");
  assert_string_equal(list(world, "state=online&limit=3"), "B a a b a+ z \xc3\xa9 \xf0\x9f\x98\x80");
  assert_string_equal(list(world, "state=unknown"), "");
  assert_string_equal(list(world, "prefix=a"), "a a b a+ a/1");
  assert_string_equal(list(world, "prefix=a&limit=2&state=online"), "a a b a+");
  assert_string_equal(list(world, "prefix=a+b"), "a b"); /* '+' is a space */
  assert_string_equal(list(world, "prefix=a%2B"), "a+");
  assert_string_equal(list(world, "prefix=%C3%A9"), "\xc3\xa9");
  assert_string_equal(list(world, "prefix=nothing"), "");
  assert_string_equal(list(world, "prefix="), all);
  world_check(world);
}

static void test_each_is_the_object_that_a_single_read_gives(void **state) {
  struct world *world = world_begin(state);
  expect_status(world->client, 204, "POST", device_path(world, "a", "/heartbeat"), "{\"ttl_ms\":60000,\"meta\":{\"v\": 1.50}}");
  beat(world, "b", 100);
  history_wait(&world->database, world->tenant, "b", "online offline(timeout)");
  world_drain(world);
  const char *a = text_format("%s", client_call(world->client, "GET", device_path(world, "a", ""), NULL)->body);
  const char *b = text_format("%s", client_call(world->client, "GET", device_path(world, "b", ""), NULL)->body);
  const char *both = client_call(world->client, "GET", tenant_path(world, "/devices"), NULL)->body;
  assert_string_equal(
      both, text_format("{\"devices\":[%.*s,%.*s],\"next\":null}\n", (int)strcspn(a, "\n"), a, (int)strcspn(b, "\n"), b));
  world_check(world);
}

static void test_bad_questions(void **state) {
  struct world *world = world_begin(state);
  beat(world, "a", 60000);
  beat(world, "b", 60000);
  world_drain(world);
  static const struct {
    const char *query, *word;
  } bad[] = {
      {"limit=0", "bad_parameter"},     {"limit=1001", "bad_parameter"},     {"limit=", "bad_parameter"},
      {"limit=-1", "bad_parameter"},    {"limit=1e2", "bad_parameter"},      {"limit=99999999999999999999", "bad_parameter"},
      {"state=", "bad_parameter"},      {"state=ONLINE", "bad_parameter"},   {"state=never_seen", "bad_parameter"},
      {"prefix=%00", "bad_parameter"},  {"prefix=%C3", "bad_parameter"},     {"cursor=", "bad_cursor"},
      {"cursor=a", "bad_cursor"},       {"cursor=zzzzzzzzzz", "bad_cursor"}, {"cursor=0000000061", "bad_cursor"},
      {"page=2", "unknown_parameter"},  {"limit=1&x=", "unknown_parameter"}, {"Limit=1", "unknown_parameter"},
      {"limit=1&limit=1", "bad_query"}, {"prefix=%zz", "bad_query"},
  };
  for (size_t i = 0; i < LENGTH(bad); i++)
    expect_error(world->client, 400, bad[i].word, "GET", tenant_path(world, text_format("/devices?%s", bad[i].query)), NULL);
  json_t *page = expect(world->client, 200, "GET", tenant_path(world, "/devices?limit=1"), NULL);
  const char *cursor = text_format("%s", json_string_value(json_object_get(page, "next")));
  json_decref(page);
  world_new_tenant(world, NULL); /* a cursor belongs to its tenant */
  expect_error(world->client, 400, "bad_cursor", "GET", tenant_path(world, text_format("/devices?cursor=%s", cursor)), NULL);
  assert_string_equal(list(world, ""), "");
  world_check(world);
}

/* ---- Churn: a third of the devices stays online all the time, a third offline, the rest comes and goes, new ones appear. */

enum { STEADY = 1000 };

static void beat_named(struct client *client, struct world *world, const char *prefix, int first, int count, int64_t ttl_ms) {
  char *body = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&body, &length);
  assert_non_null(out);
  for (int i = 0; i < count; i++)
    fprintf(out, "%s{\"device\":\"%04d-%s\",\"ttl_ms\":%lld}", i > 0 ? "," : "[", first + i, prefix, (long long)ttl_ms);
  fputc(']', out);
  fclose(out);
  json_decref(expect(client, 200, "POST", tenant_path(world, "/heartbeats"), body));
  free(body);
}

static void churn(struct world *world) {
  static int round;
  round++;
  beat_named(world->client, world, "churn", round * 37 % (STEADY - 50), 50, 100);
  beat_named(world->client, world, text_format("new%d", round), round * 61 % STEADY, 3, 60000);
  for (int i = 0; i < 3; i++)
    expect_status(world->client, 204, "POST",
                  device_path(world, text_format("%04d-churn", round * 37 % (STEADY - 50) + i), "/disconnect"), NULL);
}

/* How many of the walk's ids end so; in order and without repeats they are, so that the number tells that none is missing. */
static size_t count_ending(const struct walk *walk, const char *ending) {
  size_t found = 0;
  for (size_t i = 0; i < walk->count; i++) {
    size_t length = strlen(walk->ids[i]);
    if (length >= strlen(ending) && strcmp(walk->ids[i] + length - strlen(ending), ending) == 0) found++;
  }
  return found;
}

static int64_t offline_rows(struct world *world) {
  return sql_integer(&world->database, "SELECT count(*) FROM presence.device WHERE tenant = $1 AND state = 'offline'",
                     world->tenant, NULL);
}

static void test_under_churn_each_steady_device_appears_once(void **state) {
  struct world *world = world_begin(state);
  for (int first = 0; first < STEADY; first += 500) {
    beat_named(world->client, world, "on", first, 500, 600000);
    beat_named(world->client, world, "off", first, 500, 100);
    beat_named(world->client, world, "churn", first, 500, 100);
  }
  WAIT_UNTIL(offline_rows(world) == 2 * STEADY, 20000);
  struct client *reader = client_open_as(world->service->address, world->token);
  static const char *const limits[] = {"100", "1000"};
  for (size_t i = 0; i < LENGTH(limits); i++) {
    struct walk online = walk_all(world, reader, text_format("state=online&limit=%s", limits[i]), churn);
    assert_int_equal(count_ending(&online, "-on"), STEADY);
    assert_int_equal(count_ending(&online, "-off"), 0);
    walk_free(&online);
    struct walk offline = walk_all(world, reader, text_format("state=offline&limit=%s", limits[i]), churn);
    assert_int_equal(count_ending(&offline, "-off"), STEADY);
    assert_int_equal(count_ending(&offline, "-on"), 0);
    walk_free(&offline);
    struct walk all = walk_all(world, reader, text_format("limit=%s", limits[i]), churn);
    assert_int_equal(count_ending(&all, "-on"), STEADY);
    assert_int_equal(count_ending(&all, "-off"), STEADY);
    assert_int_equal(count_ending(&all, "-churn"), STEADY);
    walk_free(&all);
  }
  client_close(reader);
  world_check(world);
}

/* Few match: each page looks at a bounded number of devices, and the walk still finds them. */
static void test_a_rare_state(void **state) {
  struct world *world = world_begin(state);
  fleet_beat(world, 0, 5000, 600000);
  expect_status(world->client, 204, "POST", device_path(world, "d4321", "/disconnect"), NULL);
  expect_status(world->client, 204, "POST", device_path(world, "d77", "/disconnect"), NULL);
  world_drain(world);
  struct walk walk = walk_all(world, world->client, "state=offline&limit=10", NULL);
  assert_int_equal(walk.count, 2);
  assert_string_equal(walk.ids[0], "d4321");
  assert_string_equal(walk.ids[1], "d77");
  assert_int_equal(walk.pages, 13); /* 400 devices looked at in each */
  walk_free(&walk);
  world_check(world);
}

/* A close is visible to the next read, here too, before its row is. */
static void test_what_redis_knows_goes_before_the_row(void **state) {
  struct world *world = world_start(state, &(struct world_options){.proxies = true});
  beat(world, "a", 600000);
  beat(world, "b", 600000);
  world_drain(world);
  expect_status(world->client, 204, "POST", device_path(world, "a", "/disconnect"), NULL);
  assert_string_equal(list(world, "state=online"), "b");
  assert_string_equal(list(world, "state=offline"), "a");
  world_end(world);
}

static int status_of(struct world *world, const char *path) {
  return client_call(world->client, "GET", tenant_path(world, path), NULL)->status;
}

/* What Redis can answer alone is answered; the rest is 503 and names the server that is missing. */
static void test_p5_servers_away(void **state) {
  struct world *world = world_start(state, &(struct world_options){.proxies = true});
  const char *query = tenant_path(world, "/devices/query");
  beat(world, "on", 600000);
  beat(world, "off", 600000);
  expect_status(world->client, 204, "POST", device_path(world, "off", "/disconnect"), NULL);
  world_drain(world);
  proxy_refuse(world->postgres_proxy, true);
  assert_string_equal(device_state(world, "on"), "online");
  json_decref(expect(world->client, 200, "POST", query, "{\"devices\":[\"on\",\"on\"]}"));
  expect_status(world->client, 204, "POST", device_path(world, "on", "/disconnect"), NULL);
  json_decref(expect(world->client, 200, "POST", query, "{\"devices\":[\"on\"]}")); /* the close is still in Redis */
  expect_error(world->client, 503, "postgres_unavailable", "POST", query, "{\"devices\":[\"on\",\"off\"]}");
  expect_error(world->client, 503, "postgres_unavailable", "GET", device_path(world, "off", ""), NULL);
  expect_error(world->client, 503, "postgres_unavailable", "GET", tenant_path(world, "/devices"), NULL);
  size_t refused = proxy_cuts(world->postgres_proxy);
  WAIT_UNTIL(status_of(world, "/devices") == 503 && proxy_cuts(world->postgres_proxy) > refused + 20, 20000);
  proxy_refuse(world->postgres_proxy, false);
  WAIT_UNTIL(status_of(world, "/devices") == 200, 10000);
  for (int i = 0; i < 20; i++) assert_int_equal(status_of(world, "/devices"), 200); /* back for one thread is back for all */
  proxy_refuse(world->redis_proxy, true);
  expect_error(world->client, 503, "redis_unavailable", "POST", query, "{\"devices\":[\"on\"]}");
  expect_error(world->client, 503, "redis_unavailable", "GET", tenant_path(world, "/devices?state=offline"), NULL);
  proxy_refuse(world->redis_proxy, false);
  WAIT_UNTIL(status_of(world, "/devices") == 200, 10000);
  assert_string_equal(list(world, "state=offline"), "off on");
  world_end(world);
}

/* Every way to read, as fast as it goes, beyond the deadline: the device goes offline when it would have without. Were it
 * renewed, this would not end. */
static void test_p9_reading_renews_nothing(void **state) {
  struct world *world = world_start(state, &(struct world_options){.dialect = world_dialect});
  const char *query = tenant_path(world, "/devices/query"), *page = tenant_path(world, "/devices?state=online");
  beat(world, "d", 1500);
  int64_t last_seen_ms = device_number(world, "d", "last_seen_ms");
  int64_t give_up_ms = wait_now_ms() + wait_limit_ms(15000);
  while (strcmp(device_state(world, "d"), "online") == 0) {
    json_decref(expect(world->client, 200, "POST", query, "{\"devices\":[\"d\"]}"));
    json_decref(expect(world->client, 200, "GET", page, NULL));
    assert_true(wait_now_ms() < give_up_ms);
  }
  assert_true(redis_now_ms(&world->redis) > last_seen_ms + 1500);
  assert_int_equal(device_number(world, "d", "last_seen_ms"), last_seen_ms);
  history_wait(&world->database, world->tenant, "d", "online offline(timeout)");
  assert_int_equal(device_number(world, "d", "offline_at_ms"), last_seen_ms + 1500);
  world_end(world);
}

static int next_dialect(void **state) {
  world_dialect++;
  return world_teardown(state);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_states_prefixes_and_pages),
      cmocka_unit_test(test_each_is_the_object_that_a_single_read_gives),
      cmocka_unit_test(test_bad_questions),
      cmocka_unit_test(test_under_churn_each_steady_device_appears_once),
      cmocka_unit_test(test_a_rare_state),
  };
  const struct CMUnitTest alone[] = {
      cmocka_unit_test_teardown(test_what_redis_knows_goes_before_the_row, world_teardown),
      cmocka_unit_test_teardown(test_p5_servers_away, world_teardown),
      cmocka_unit_test_teardown(test_p9_reading_renews_nothing, next_dialect), /* native */
      cmocka_unit_test_teardown(test_p9_reading_renews_nothing, next_dialect), /* hpexpire */
      cmocka_unit_test_teardown(test_p9_reading_renews_nothing, next_dialect), /* compat */
      cmocka_unit_test_teardown(test_p9_reading_renews_nothing, next_dialect), /* compat on Redis 7.0 */
  };
  return cmocka_run_group_tests(tests, world_group_start, world_teardown) + cmocka_run_group_tests(alone, NULL, NULL);
}
