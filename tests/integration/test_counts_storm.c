/* P6 under load: recalibration runs all the time, by workers and over HTTP, beside heartbeats, timeouts, disconnects sent twice
 * and workers killed. Nothing is ever off, so that every correction it made would be a fault of its own. */
#include "support/test.h"

#include "support/fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES 400
#define ROUNDS 120
#define KILL_EVERY 30 /* rounds */

static unsigned random_state = 20260731;

static int random_below(int limit) {
  random_state = random_state * 1103515245U + 12345U;
  return (int)(random_state >> 16) % limit;
}

static int64_t number(json_t *object, const char *member) {
  const json_t *value = json_object_get(object, member);
  if (!json_is_integer(value)) fail_msg("%s is no integer", member);
  return json_integer_value(value);
}

static json_t *read_json(struct client *client, int status) {
  const struct response *response = client_read(client);
  if (response->status != status) fail_msg("status %d: %s", response->status, response->body);
  json_t *json = json_loads(response->body, 0, NULL);
  assert_non_null(json);
  return json;
}

/* Some fifty devices; ttls that end in the midst of it. */
static char *batch(void) {
  char *body = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&body, &length);
  assert_non_null(out);
  for (int i = 0, count = 1 + random_below(100); i < count; i++)
    fprintf(out, "%c{\"device\":\"d%d\",\"ttl_ms\":%d}", i == 0 ? '[' : ',', random_below(DEVICES), 100 + random_below(900));
  fputc(']', out);
  fclose(out);
  return body;
}

/* All on their way at once, on connections of their own. */
static void one_round(struct world *world, struct client *admin, struct client *reader, struct client *leaver) {
  char *body = batch();
  const char *leaving = device_path(world, text_format("d%d", random_below(DEVICES)), "/disconnect");
  client_ask(admin, "POST", tenant_path(world, "/counts/recalibrate"), NULL);
  client_ask(world->client, "POST", tenant_path(world, "/heartbeats"), body);
  client_ask(leaver, "POST", leaving, NULL);
  client_ask(leaver, "POST", leaving, NULL);
  client_ask(reader, "GET", tenant_path(world, "/counts"), NULL);
  free(body);
  json_decref(read_json(world->client, 200));
  assert_int_equal(client_read(leaver)->status, 204);
  assert_int_equal(client_read(leaver)->status, 204);
  json_t *counts = read_json(reader, 200), *recalibrated = read_json(admin, 200);
  assert_in_range(number(counts, "online"), 0, DEVICES);
  assert_int_equal(number(counts, "last_drift"), 0);
  assert_in_range(number(recalibrated, "before"), 0, DEVICES);
  assert_int_equal(number(recalibrated, "drift"), 0);
  json_decref(counts);
  json_decref(recalibrated);
}

static int64_t online_in(json_t *answer) {
  int64_t count = 0;
  size_t i;
  json_t *device;
  json_array_foreach(json_object_get(answer, "devices"), i, device) {
    count += strcmp(json_string_value(json_object_get(device, "state")), "online") == 0;
  }
  json_decref(answer);
  return count;
}

static int64_t queried(struct world *world) {
  char *body = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&body, &length);
  assert_non_null(out);
  for (int i = 0; i < DEVICES; i++) fprintf(out, "%s\"d%d\"", i == 0 ? "{\"devices\":[" : ",", i);
  fputs("]}", out);
  fclose(out);
  json_t *answer = expect(world->client, 200, "POST", tenant_path(world, "/devices/query"), body);
  free(body);
  return online_in(answer);
}

static int64_t counted(struct world *world) {
  json_t *answer = expect(world->client, 200, "GET", tenant_path(world, "/counts"), NULL);
  int64_t online = number(answer, "online");
  json_decref(answer);
  return online;
}

/* count = list = query = facts; that facts = due = live is among the rules that world_end checks. */
static void expect_rest(struct world *world, int64_t online) {
  WAIT_UNTIL(counted(world) == online, 10000);
  world_drain(world);
  assert_int_equal(keyspace_open_sessions(&world->redis), online);
  assert_int_equal(queried(world), online);
  assert_int_equal(online_in(expect(world->client, 200, "GET", tenant_path(world, "/devices?state=online&limit=1000"), NULL)),
                   online);
}

static void test_p6_recalibration_in_a_storm(void **state) {
  static const char *const often[] = {"PRESENCE_RECALIBRATE_MS=100", NULL};
  struct world *world = world_start(state, &(struct world_options){.roles = "api", .environment = often});
  struct presenced *workers[2] = {world_process(world, "worker", NULL), world_process(world, "worker", NULL)};
  presenced_wait_ready(world->service);
  struct client *admin = client_open_as(world->service->address, world_token(world, NULL, NULL));
  struct client *reader = client_open_as(world->service->address, world->token);
  struct client *leaver = client_open_as(world->service->address, world->token);
  for (int round = 1; round <= ROUNDS; round++) {
    one_round(world, admin, reader, leaver);
    if (round % KILL_EVERY != 0) continue;
    struct presenced **killed = &workers[round / KILL_EVERY % 2]; /* the other one goes on, and takes over */
    presenced_kill(*killed);
    *killed = world_spawn(world, "worker", NULL);
  }
  fleet_beat(world, 0, DEVICES / 4, 600000);
  expect_rest(world, DEVICES / 4);
  for (size_t i = 0; i < world->process_count; i++) assert_false(presenced_logged(&world->processes[i], "drift_found"));
  client_close(admin);
  client_close(reader);
  client_close(leaver);
  world_end(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_p6_recalibration_in_a_storm, world_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
