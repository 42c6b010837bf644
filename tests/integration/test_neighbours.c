/* A tenant that reports too much is slowed down; its neighbours in the same process notice nothing (P7). */
#include "support/test.h"

#include "support/fleet.h"
#include "support/scratch.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SLICES 8
#define PER_SLICE 60
#define ATTEMPTS 6

static int start(void **state) {
  world_start(state, &(struct world_options){0})->begun = 0;
  return 0;
}

static int status_of(struct world *world, const char *device) {
  return client_call(world->client, "POST", device_path(world, device, "/heartbeat"), NULL)->status;
}

static void test_p7_a_tenant_over_its_rate_slows_itself_down_only(void **state) {
  struct world *world = world_begin(state);
  struct client *neighbour = client_open_as(world->service->address, world->token);
  const char *neighbours_path = device_path(world, "d", "/heartbeat");
  static const char *const limited[] = {"--heartbeats-per-second", "20", NULL};
  world_new_tenant(world, limited);
  fleet_beat(world, 0, 1000, 60000); /* a burst of a thousand at least */
  WAIT_UNTIL(status_of(world, "d0") == 429, 5000);
  const struct response *response = client_call(world->client, "POST", device_path(world, "d0", "/heartbeat"), NULL);
  if (response->status == 429) assert_non_null(response_header(response, "Retry-After"));
  expect_error(world->client, 429, NULL, "POST", tenant_path(world, "/heartbeats"),
               "[\"d1\",\"d2\",\"d3\",\"d4\",\"d5\",\"d6\",\"d7\"]");
  expect_status(neighbour, 204, "POST", neighbours_path, NULL);
  expect_error(world->client, 400, NULL, "POST", device_path(world, "d0", "/heartbeat"), "{\"ttl_ms\":0}"); /* 400 before 429 */
  WAIT_UNTIL(status_of(world, "d0") == 204, 5000);
  client_close(neighbour);
  world_check(world);
}

/* ---- one tenant far over its rate does not slow another: p99 within twice of what it is alone */

struct latencies {
  int64_t us[SLICES * PER_SLICE];
  size_t count;
};

static int64_t now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static void measure(struct client *client, const char *path, struct latencies *latencies) {
  for (int i = 0; i < PER_SLICE; i++) {
    int64_t began_us = now_us();
    expect_status(client, 204, "POST", path, NULL);
    latencies->us[latencies->count++] = now_us() - began_us;
  }
}

static int compare(const void *left, const void *right) {
  int64_t a = *(const int64_t *)left, b = *(const int64_t *)right;
  return a == b ? 0 : a < b ? -1 : 1;
}

static int64_t p99_us(struct latencies *latencies) {
  qsort(latencies->us, latencies->count, sizeof latencies->us[0], compare);
  return latencies->us[latencies->count * 99 / 100];
}

/* 2000 heartbeats a second where 100 are allowed. */
static struct child offend(struct world *world) {
  const char *const argv[] = {place_built("presence-sim"),
                              "--url",
                              text_format("http://%s", world->service->address),
                              "--tenant",
                              world->tenant,
                              "--token",
                              world->token,
                              "--devices",
                              "2000",
                              "--interval-ms",
                              "1000",
                              "--connections",
                              "4",
                              NULL};
  return child_start(&(struct child_options){.argv = argv});
}

static double refused(struct world *world) { return metric(world, "presence_heartbeats_total{result=\"rate_limited\"}"); }

/* In turns, so that whatever else the machine does meets both alike. */
static bool is_within_twice(struct client *client, const char *path, const struct child *offender) {
  struct latencies alone = {0}, beside = {0};
  for (int slice = 0; slice < SLICES; slice++) {
    child_signal(offender, SIGSTOP);
    measure(client, path, &alone);
    child_signal(offender, SIGCONT);
    measure(client, path, &beside);
  }
  int64_t alone_us = p99_us(&alone), beside_us = p99_us(&beside);
  print_message("p99 alone %lld us, beside a tenant over its rate %lld us\n", (long long)alone_us, (long long)beside_us);
  return beside_us <= 2 * alone_us || beside_us < 1000; /* below a millisecond it is the test's own scheduling that counts */
}

static void test_p7_another_tenants_latency(void **state) {
  struct world *world = world_begin(state);
  struct client *neighbour = client_open_as(world->service->address, world->token);
  const char *path = device_path(world, "d", "/heartbeat");
  expect_status(neighbour, 204, "POST", path, NULL);
  static const char *const limited[] = {"--heartbeats-per-second", "100", NULL};
  world_new_tenant(world, limited);
  double before = refused(world);
  struct child offender = offend(world);
  WAIT_UNTIL(refused(world) > before + 500, 15000);
  bool within = false;
  for (int attempt = 0; attempt < ATTEMPTS && !within; attempt++) within = is_within_twice(neighbour, path, &offender);
  child_kill(&offender);
  assert_true(within);
  assert_true(refused(world) > before + 500);
  client_close(neighbour);
  world_check(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_p7_a_tenant_over_its_rate_slows_itself_down_only),
      cmocka_unit_test(test_p7_another_tenants_latency),
  };
  return cmocka_run_group_tests(tests, start, world_teardown);
}
