/* Several API and worker processes behind HAProxy with the shipped configuration, replaced one after the other under load: no
 * heartbeat fails, nobody's session ends, the leases move on. */
#include "support/test.h"

#include "support/scratch.h"
#include "support/world.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { PROCESSES = 2, DEVICES = 100, PARTITIONS = 8 };

static struct {
  struct world *world;
  struct presenced *api[PROCESSES], *worker[PROCESSES];
  const char *listen[PROCESSES]; /* "PRESENCE_LISTEN=…": a new process takes the place of the old one */
  struct child proxy, load;
  const char *proxy_address, *load_out;
} at;

/* ---- who is there */

static int readyz(const char *address) {
  if (!client_try(address)) return 0;
  struct client *client = client_open(address);
  client_ask(client, "GET", "/readyz", NULL);
  const struct response *response = client_read_or_end(client);
  int status = response != NULL ? response->status : 0;
  client_close(client);
  return status;
}

static int64_t answered_by(const struct presenced *process) {
  struct client *client = client_open(process->address);
  const struct response *response = client_call(client, "GET", "/metrics", NULL);
  const char *series = "presence_heartbeats_total{result=\"renewed\"} ", *line = strstr(response->body, series);
  int64_t count = line != NULL ? strtoll(line + strlen(series), NULL, 10) : 0;
  client_close(client);
  return count;
}

/* How many partitions' leases a process holds: a worker's name has its process id. */
static int leases_of(pid_t pid) {
  int held = 0;
  for (int p = 0; p < PARTITIONS; p++) {
    const char *holder = redis_text(&at.world->redis, "GET prod:presence:lease:v1:{%d}", p);
    held += strstr(holder, text_format("-%d-", (int)pid)) != NULL;
  }
  return held;
}

/* ---- the stage */

static void start_proxy(void) {
  const char *addresses[PROCESSES];
  at.proxy_address = text_format("127.0.0.1:%d", free_port());
  for (int i = 0; i < PROCESSES; i++) addresses[i] = text_format("PRESENCE_API_%d=%s", i + 1, at.api[i]->address);
  const char *environment[] = {text_format("PRESENCE_PROXY=%s", at.proxy_address), addresses[0], addresses[1], NULL};
  const char *argv[] = {place_server("haproxy"), "-db", "-f", text_format("%s/deploy/proxy/haproxy.cfg", place_root()), NULL};
  at.proxy = child_start(&(struct child_options){.argv = argv, .environment = environment, .log = scratch_path("haproxy.log")});
  WAIT_UNTIL(readyz(at.proxy_address) == 200, 15000);
}

static void start_load(void) {
  at.load_out = scratch_path("load.json");
  const char *argv[] = {place_built("presence-sim"),
                        "--url",
                        text_format("http://%s", at.proxy_address),
                        "--tenant",
                        at.world->tenant,
                        "--token",
                        at.world->token,
                        "--devices",
                        text_format("%d", DEVICES),
                        "--interval-ms",
                        "400",
                        "--connections",
                        "6",
                        "--ttl-ms",
                        "60000",
                        "--json",
                        NULL};
  at.load = child_start(&(struct child_options){.argv = argv, .log = scratch_path("load.log"), .out = at.load_out});
}

static void start_api(int i) {
  if (at.listen[i] == NULL) at.listen[i] = text_format("PRESENCE_LISTEN=127.0.0.1:%d", free_port());
  const char *environment[] = {at.listen[i], "PRESENCE_DRAIN_MS=3000", NULL};
  at.api[i] = world_process(at.world, "api", environment);
}

static struct world *start(void **state) {
  if (place_server("haproxy") == NULL) {
    print_message("skipped: there is no HAProxy here (deploy/local/setup haproxy)\n");
    skip();
  }
  memset(&at, 0, sizeof at);
  at.world = world_start(state, &(struct world_options){.no_service = true});
  for (int i = 0; i < PROCESSES; i++) start_api(i);
  for (int i = 0; i < PROCESSES; i++) at.worker[i] = world_process(at.world, "worker", NULL);
  for (int i = 0; i < PROCESSES; i++) presenced_wait_ready(at.api[i]);
  for (int i = 0; i < PROCESSES; i++) WAIT_UNTIL(leases_of(at.worker[i]->child.pid) > 0, 15000);
  start_proxy();
  start_load();
  WAIT_UNTIL(answered_by(at.api[0]) > DEVICES && answered_by(at.api[1]) > DEVICES, 30000);
  return at.world;
}

static int teardown(void **state) {
  child_kill(&at.load);
  child_kill(&at.proxy);
  return world_teardown(state);
}

/* Every answer was 2xx, none was missed on the way, and no session ended. */
static void check_load(void) {
  assert_int_equal(child_stop(&at.load, SIGTERM, 15000), 0);
  json_t *summary = json_loads(place_text(at.load_out), 0, NULL);
  assert_non_null(summary);
  json_t *statuses = json_object_get(summary, "statuses"), *failures = json_object_get(summary, "failures");
  if (json_object_size(statuses) != 1 || json_object_get(statuses, "204") == NULL || json_object_size(failures) != 0 ||
      json_integer_value(json_object_get(summary, "lost")) != 0)
    fail_msg("heartbeats failed: %s", place_text(at.load_out));
  json_decref(summary);
  world_drain(at.world);
  assert_int_equal(sql_integer(&at.world->database, "SELECT count(*) FROM presence.outbox", NULL), DEVICES);
  assert_int_equal(sql_integer(&at.world->database, "SELECT count(*) FROM presence.outbox WHERE type LIKE '%offline'", NULL), 0);
}

/* ---- the tests */

static void test_api_processes_are_replaced(void **state) {
  struct world *world = start(state);
  for (int i = 0; i < PROCESSES; i++) {
    struct presenced *old = at.api[i];
    const char *address = old->address;
    child_signal(&old->child, SIGTERM);
    WAIT_UNTIL(readyz(address) == 503, 15000); /* it says so while it still answers */
    assert_int_equal(child_wait(&old->child, 20000), 0);
    assert_false(client_try(address));
    old->address = NULL;
    start_api(i);
    presenced_wait_ready(at.api[i]);
    WAIT_UNTIL(answered_by(at.api[i]) > DEVICES, 30000); /* the proxy has noticed */
  }
  check_load();
  world_talk_to(world, at.api[0]);
  world_end(world);
}

static void test_worker_processes_are_replaced(void **state) {
  struct world *world = start(state);
  for (int i = 0; i < PROCESSES; i++) {
    pid_t other = at.worker[1 - i]->child.pid;
    int64_t from_ms = wait_now_ms();
    if (i == 0)
      assert_int_equal(presenced_stop(at.worker[i]), 0); /* gives its leases back */
    else
      presenced_kill(at.worker[i]); /* they run out */
    WAIT_UNTIL(leases_of(other) == PARTITIONS, 15000);
    print_message("leases moved %lld ms after a worker was %s\n", (long long)(wait_now_ms() - from_ms),
                  i == 0 ? "stopped" : "killed");
    at.worker[i] = world_process(world, "worker", NULL);
    WAIT_UNTIL(leases_of(at.worker[i]->child.pid) > 0, 15000);
  }
  check_load();
  world_end(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_api_processes_are_replaced, teardown),
      cmocka_unit_test_teardown(test_worker_processes_are_replaced, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
