/* P6: drift in Redis is found, repaired and reported: by the worker, over HTTP, by presencectl. */
#include "support/test.h"

#include "support/fleet.h"

#include <string.h>

/* ---- drift, made by hand */

static const char *session_key(struct world *world, const char *device) {
  const char *key = keyspace_session_key(&world->redis, world->tenant, device);
  assert_non_null(key);
  return key;
}

/* "prod:presence:session:v1:{3}:t42:7" -> "prod:presence:due:v1:{3}:t42:7" */
static const char *beside(const char *session, const char *resource) {
  return text_format("prod:presence:%s:v1:%s", resource, strchr(session, '{'));
}

/* "{3}" */
static const char *tag(const char *key) { return text_format("%.3s", strchr(key, '{')); }

static void miscount(struct world *world, const char *device, int by) {
  redis_text(&world->redis, "HINCRBY prod:presence:count:v1:%s %s %d", tag(session_key(world, device)), world->tenant, by);
}

static void lose_facts(struct world *world, const char *device) {
  redis_text(&world->redis, "HDEL %s %s", session_key(world, device), device);
}

static void lose_due(struct world *world, const char *device) {
  redis_text(&world->redis, "ZREM %s %s", beside(session_key(world, device), "due"), device);
}

static void add_ghost(struct world *world, const char *device) {
  redis_text(&world->redis, "ZADD %s 99999999999999 ghost", beside(session_key(world, device), "due"));
}

/* ---- what is said of it */

static int64_t number(json_t *object, const char *member) {
  const json_t *value = json_object_get(object, member);
  if (!json_is_integer(value)) fail_msg("%s is no integer", member);
  return json_integer_value(value);
}

static int64_t count_of(struct world *world, const char *member) {
  json_t *answer = expect(world->client, 200, "GET", tenant_path(world, "/counts"), NULL);
  int64_t value = number(answer, member);
  json_decref(answer);
  return value;
}

static double findings(struct world *world, const char *kind) {
  return metric(world, text_format("presence_audit_findings_total{kind=\"%s\"}", kind));
}

static double sum_of_partitions(struct world *world, const char *name) {
  double sum = 0;
  for (int p = 0; p < 8; p++) sum += metric(world, text_format("%s{partition=\"%d\"}", name, p));
  return sum;
}

static const char *session_of(struct world *world, const char *device) {
  json_t *object = device_object(world, device);
  const char *session = text_format("%s", json_string_value(json_object_get(object, "session")));
  json_decref(object);
  return session;
}

/* ---- by the worker */

static void test_p6_the_worker_repairs_a_count(void **state) {
  static const char *const often[] = {"PRESENCE_RECALIBRATE_MS=1500", NULL};
  struct world *world = world_start(state, &(struct world_options){.environment = often});
  fleet_beat(world, 0, 200, 600000);
  miscount(world, "d1", 7);
  WAIT_UNTIL(sum_of_partitions(world, "presence_count_drift") == 7, 10000);
  assert_true(findings(world, "count") == 1);
  assert_int_equal(count_of(world, "online"), 200);
  WAIT_UNTIL(sum_of_partitions(world, "presence_count_drift") == 0, 10000);
  assert_true(presenced_logged(world->service, text_format("event=drift_found tenant=%s", world->tenant)));
  miscount(world, "d2", -1000);
  WAIT_UNTIL(sum_of_partitions(world, "presence_count_drift") == 1000, 10000);
  assert_int_equal(count_of(world, "online"), 200);
  world_end(world);
}

static void test_p6_the_worker_repairs_each_kind(void **state) {
  static const char *const often[] = {"PRESENCE_RECALIBRATE_MS=1500", NULL};
  struct world *world = world_start(state, &(struct world_options){.environment = often});
  fleet_beat(world, 0, 200, 600000);
  const char *session = session_of(world, "d1");
  lose_facts(world, "d1");
  lose_due(world, "d2");
  add_ghost(world, "d3");
  /* The audit against the rows, which runs at a worker's start, may come first: it finds them as well. */
  WAIT_UNTIL(findings(world, "facts_lost") + findings(world, "not_in_redis") == 1, 10000);
  WAIT_UNTIL(findings(world, "due_lost") == 1 && findings(world, "orphan") == 1, 10000);
  assert_string_equal(session_of(world, "d1"), session);
  redis_text(&world->redis, "ZREM prod:presence:next:v1:%s %s", tag(session_key(world, "d4")),
             text_format("%s:%s", world->tenant, strrchr(session_key(world, "d4"), ':') + 1));
  WAIT_UNTIL(findings(world, "next_late") == 1, 10000);
  WAIT_UNTIL(sum_of_partitions(world, "presence_facts_due_mismatch") == 0, 10000); /* that of d2 */
  lose_due(world, "d5");
  WAIT_UNTIL(sum_of_partitions(world, "presence_facts_due_mismatch") == 1, 10000);
  WAIT_UNTIL(sum_of_partitions(world, "presence_facts_due_mismatch") == 0, 10000);
  assert_int_equal(count_of(world, "online"), 200);
  assert_int_equal(fleet_with_history(world, "online"), 200);
  world_end(world);
}

/* ---- by hand: the worker stands still meanwhile */

static struct presenced *worker;

static int start(void **state) {
  struct world *world = world_start(state, &(struct world_options){.roles = "api"});
  worker = world_process(world, "worker", NULL);
  presenced_wait_ready(world->service);
  world->begun = 0;
  return 0;
}

/* A hundred devices whose rows are written. */
static struct world *begin(void **state) {
  struct world *world = world_begin(state);
  fleet_beat(world, 0, 100, 600000);
  world_drain(world);
  presenced_pause(worker);
  return world;
}

static void end(struct world *world) {
  presenced_resume(worker);
  world_check(world);
}

static void expect_recalibrated(struct client *admin, struct world *world, int64_t before, int64_t after) {
  json_t *answer = expect(admin, 200, "POST", tenant_path(world, "/counts/recalibrate"), NULL);
  assert_int_equal(number(answer, "before"), before);
  assert_int_equal(number(answer, "after"), after);
  assert_int_equal(number(answer, "drift"), before - after);
  assert_int_equal(json_object_size(answer), 3);
  json_decref(answer);
}

static void test_p6_over_http(void **state) {
  struct world *world = begin(state);
  struct client *admin = client_open_as(world->service->address, world_token(world, NULL, NULL));
  const char *path = tenant_path(world, "/counts/recalibrate");
  expect_recalibrated(admin, world, 100, 100);
  assert_int_equal(count_of(world, "last_drift"), 0);
  int64_t compared_ms = count_of(world, "recalibrated_ms");
  miscount(world, "d0", 5);
  miscount(world, "d1", -2);
  lose_facts(world, "d2");
  expect_recalibrated(admin, world, 103, 100);
  assert_int_equal(count_of(world, "last_drift"), 3);
  assert_true(count_of(world, "recalibrated_ms") >= compared_ms);
  assert_int_equal(count_of(world, "online"), 100);

  expect_error(world->client, 403, NULL, "POST", path, NULL);
  expect_error(admin, 404, NULL, "POST", "/v1/tenants/nobody/counts/recalibrate", NULL);
  expect_error(admin, 405, NULL, "GET", path, NULL);
  expect_error(admin, 400, NULL, "POST", path, "{\"tenant\":\"other\"}");
  expect_status(admin, 200, "POST", path, "{}");
  client_close(admin);
  end(world);
}

static json_t *control_json(const char *text) {
  json_error_t error;
  json_t *json = json_loads(text, 0, &error);
  if (json == NULL) fail_msg("no JSON: %s", text);
  return json;
}

static int64_t found(const json_t *rows, const char *tenant, const char *kind, bool repaired) {
  size_t i;
  json_t *row;
  json_array_foreach(rows, i, row) {
    if (strcmp(json_string_value(json_object_get(row, "tenant")), tenant) != 0 ||
        strcmp(json_string_value(json_object_get(row, "kind")), kind) != 0)
      continue;
    assert_int_equal(json_is_true(json_object_get(row, "repaired")), repaired);
    return number(row, "found");
  }
  return 0;
}

static void expect_audit(struct world *world, bool repair, int64_t of_each) {
  static const char *const kinds[] = {"count", "facts_lost", "orphan", "due_lost"};
  json_t *rows = control_json(repair ? world_control(world, "audit", "--json", NULL)
                                     : world_control(world, "audit", "--report", "--json", NULL));
  for (size_t i = 0; i < LENGTH(kinds); i++) assert_int_equal(found(rows, world->tenant, kinds[i], repair), of_each);
  json_decref(rows);
}

static void test_p6_by_presencectl(void **state) {
  struct world *world = begin(state);
  expect_audit(world, false, 0);
  lose_facts(world, "d1");
  lose_due(world, "d2");
  add_ghost(world, "d3");
  miscount(world, "d4", 1);
  json_t *report = control_json(world_control(world, "audit", "--report", "--json", NULL));
  assert_int_equal(found(report, world->tenant, "facts_lost", false), 1);
  assert_int_equal(found(report, world->tenant, "due_lost", false), 1);
  assert_int_equal(found(report, world->tenant, "orphan", false), 1);
  json_decref(report);
  expect_audit(world, true, 1);
  expect_audit(world, true, 0);
  miscount(world, "d5", 9);
  json_t *one = control_json(world_control(world, "recalibrate", world->tenant, "--json", NULL));
  assert_int_equal(number(one, "before"), 109);
  assert_int_equal(number(one, "after"), 100);
  assert_int_equal(number(one, "drift"), 9);
  json_decref(one);
  assert_non_null(strstr(world_control(world, "recalibrate", NULL), world->tenant));
  struct outcome nobody = world_presencectl(world, "recalibrate", "nobody", NULL);
  assert_int_equal(nobody.code, 1);
  assert_string_equal(nobody.err, "presencectl: no such tenant\n");
  end(world);
}

int main(void) {
  const struct CMUnitTest by_worker[] = {
      cmocka_unit_test_teardown(test_p6_the_worker_repairs_a_count, world_teardown),
      cmocka_unit_test_teardown(test_p6_the_worker_repairs_each_kind, world_teardown),
  };
  const struct CMUnitTest by_hand[] = {
      cmocka_unit_test(test_p6_over_http),
      cmocka_unit_test(test_p6_by_presencectl),
  };
  int failures = cmocka_run_group_tests(by_worker, NULL, NULL);
  return failures + cmocka_run_group_tests(by_hand, start, world_teardown);
}
