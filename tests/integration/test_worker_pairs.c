/* Several workers at once. Leases share the work out, but nothing may depend on them: here detectors and publishers also work on
 * the same partitions, without any lease. */
#include "support/test.h"

#include "clock.h"
#include "config.h"
#include "detector.h"
#include "metrics.h"
#include "partition_set.h"
#include "publisher.h"
#include "support/world.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define PARTITIONS 8

static const char *device(int number) { return text_format("d%d", number); }

/* `count` devices with one heartbeat each, in one call. */
static void beat_many(struct world *world, int count, int64_t ttl_ms) {
  for (int first = 0; first < count; first += 1000) {
    size_t room = 64000, length = 0;
    char *body = malloc(room);
    assert_non_null(body);
    for (int i = first; i < count && i < first + 1000; i++) {
      length += (size_t)snprintf(body + length, room - length, "%c{\"device\":\"d%d\",\"ttl_ms\":%lld}", i == first ? '[' : ',',
                                 i, (long long)ttl_ms);
    }
    body[length++] = ']';
    body[length] = '\0';
    expect_status(world->client, 200, "POST", tenant_path(world, "/heartbeats"), body);
    free(body);
  }
}

static void wait_for_rows(struct world *world, int64_t online, int64_t offline) {
  WAIT_UNTIL_TEXT(history_count(&world->database, "online") >= online && history_count(&world->database, "offline") >= offline,
                  30000,
                  text_format("%lld online, %lld offline", (long long)history_count(&world->database, "online"),
                              (long long)history_count(&world->database, "offline")));
  assert_int_equal(history_count(&world->database, "online"), online);
  assert_int_equal(history_count(&world->database, "offline"), offline);
}

/* How many partitions' leases are held by a worker of this process. */
static int leases_of(struct world *world, const struct presenced *process) {
  int held = 0;
  for (int partition = 0; partition < PARTITIONS; partition++) {
    const char *worker = redis_text(&world->redis, "GET prod:presence:lease:v1:{%d}", partition);
    held += strstr(worker, text_format("-%ld-", (long)process->child.pid)) != NULL;
  }
  return held;
}

static void test_workers_share_the_partitions(void **state) {
  struct world *world = world_start(state, &(struct world_options){0});
  WAIT_UNTIL(leases_of(world, world->service) == 8, 3000);
  struct presenced *second = world_process(world, "worker", NULL);
  WAIT_UNTIL(leases_of(world, world->service) == 4 && leases_of(world, second) == 4, 5000);
  struct presenced *third = world_process(world, "worker", NULL);
  WAIT_UNTIL(leases_of(world, world->service) <= 3 && leases_of(world, second) <= 3 && leases_of(world, third) >= 2, 5000);
  assert_int_equal(presenced_stop(third), 0); /* gives its leases up: no need to wait for them */
  WAIT_UNTIL(leases_of(world, world->service) == 4 && leases_of(world, second) == 4, 5000);
  world_end(world);
}

static void test_leases_of_a_killed_worker_move_within_two_seconds(void **state) {
  struct world *world = world_start(state, &(struct world_options){0});
  struct presenced *second = world_process(world, "worker", NULL);
  WAIT_UNTIL(leases_of(world, second) == 4, 5000);
  beat_many(world, 200, 300);
  int64_t killed_ms = wait_now_ms();
  presenced_kill(second);
  WAIT_UNTIL(leases_of(world, world->service) == 8, 5000);
  int64_t took_ms = wait_now_ms() - killed_ms;
  print_message("leases moved after %lld ms\n", (long long)took_ms);
  assert_true(took_ms <= wait_limit_ms(2000));
  wait_for_rows(world, 200, 200);
  world_end(world);
}

/* Killed again and again in the midst of it, another one beside it. */
static void test_workers_killed_in_mid_work_lose_and_double_nothing(void **state) {
  const int devices = 4000, kills = 5;
  int64_t rows = 0;
  struct world *world = world_start(state, &(struct world_options){.roles = "api"});
  struct presenced *steady = world_process(world, "worker", NULL);
  for (int i = 0; i < kills; i++) {
    struct presenced *victim = world_process(world, "worker", NULL);
    WAIT_UNTIL(leases_of(world, victim) == 4, 5000);
    world_new_tenant(world, NULL);
    beat_many(world, devices, 200);
    WAIT_UNTIL(history_count(&world->database, "offline") > rows, 10000);
    presenced_kill(victim);
    rows += devices;
    wait_for_rows(world, rows, rows);
  }
  assert_true(child_is_running(&steady->child));
  world_end(world);
}

/* ---- without leases */

struct racer {
  pthread_t thread;
  struct detector *detector;
  struct publisher *publisher;
  atomic_bool *stop;
};

static void *race(void *context) {
  struct racer *racer = context;
  int64_t sleep_us;
  while (!atomic_load(racer->stop)) {
    enum status status =
        racer->detector != NULL ? detector_tick(racer->detector, &sleep_us) : publisher_tick(racer->publisher, &sleep_us);
    (void)status; /* servers that are away are the world's business */
  }
  return NULL;
}

/* The options of the world's processes. Nothing of this process's environment reaches its children. */
static void make_config(const struct world *world, struct config *config) {
  for (const char *const *line = world_environment(world); *line != NULL; line++) {
    const char *value = strchr(*line, '=') + 1;
    setenv(text_format("%.*s", (int)(value - *line - 1), *line), value, 1);
  }
  char name[] = "test", *argv[] = {name, NULL}, *error = NULL;
  struct config_command_line line = {.argc = 1, .argv = argv};
  if (config_load(config, &line, &error) != STATUS_OK) fail_msg("%s", error);
}

static void test_detectors_and_publishers_race_on_the_same_entries(void **state) {
  enum { RACERS = 4 };
  const int devices = 3000, rounds = 3;
  int64_t rows = 0;
  struct world *world = world_start(state, &(struct world_options){0});
  struct config config;
  struct redis_target *target;
  struct partition_set held = {0};
  char *error = NULL;
  atomic_bool stop = false;
  struct racer racers[RACERS] = {{0}};
  struct publisher_lags lags = {0};
  make_config(world, &config);
  assert_int_equal(redis_target_new(&config, &target, &error), STATUS_OK);
  assert_int_equal(partition_set_init(&held, PARTITIONS), STATUS_OK);
  for (uint32_t partition = 0; partition < PARTITIONS; partition++) partition_set_put(&held, partition, true);
  for (size_t i = 0; i < LENGTH(racers); i++) {
    struct racer *racer = &racers[i];
    racer->stop = &stop;
    if (i % 2 == 0) {
      struct detector_options options = {.target = target, .clock = clock_system(), .held = &held, .outage_ms = 5000};
      assert_int_equal(detector_new(&options, &racer->detector), STATUS_OK);
    } else {
      struct publisher_options options = {.target = target,
                                          .clock = clock_system(),
                                          .held = &held,
                                          .postgres_url = config.postgres_url,
                                          .lanes = 1,
                                          .lags = &lags};
      assert_int_equal(publisher_new(&options, &racer->publisher), STATUS_OK);
    }
    assert_int_equal(pthread_create(&racer->thread, NULL, race, racer), 0);
  }
  for (int i = 0; i < rounds; i++) {
    beat_many(world, devices, 200);
    rows += devices;
    wait_for_rows(world, rows, rows);
  }
  atomic_store(&stop, true);
  for (size_t i = 0; i < LENGTH(racers); i++) {
    pthread_join(racers[i].thread, NULL);
    detector_free(racers[i].detector);
    publisher_free(racers[i].publisher);
  }
  double repeats = metric_value(metrics_series(METRIC_OUTBOX_REPEATS)) + metric(world, "presence_outbox_repeats_total");
  print_message("entries that came twice and were refused: %.0f\n", repeats);
  assert_true(repeats > 0);
  partition_set_free(&held);
  redis_target_free(target);
  config_free(&config);
  world_end(world);
}

/* A worker that stood still while another one did its work goes on with what it knew then. */
static void test_paused_workers_go_on_without_harm(void **state) {
  const int devices = 500, pauses = 4;
  int64_t rows = 0;
  struct world *world = world_start(state, &(struct world_options){.roles = "api"});
  struct presenced *workers[2] = {world_process(world, "worker", NULL), world_process(world, "worker", NULL)};
  for (int i = 0; i < pauses; i++) {
    struct presenced *paused = workers[i % 2];
    beat_many(world, devices, 200);
    presenced_pause(paused);
    rows += devices;
    wait_for_rows(world, rows, rows);
    presenced_resume(paused);
  }
  for (int i = 0; i < 3; i++) assert_string_equal(device_state(world, device(i)), "offline");
  world_end(world);
}

static int set_up(void **state) {
  (void)state;
  return metrics_init() == STATUS_OK ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  metrics_free();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_workers_share_the_partitions, world_teardown),
      cmocka_unit_test_teardown(test_leases_of_a_killed_worker_move_within_two_seconds, world_teardown),
      cmocka_unit_test_teardown(test_workers_killed_in_mid_work_lose_and_double_nothing, world_teardown),
      cmocka_unit_test_teardown(test_detectors_and_publishers_race_on_the_same_entries, world_teardown),
      cmocka_unit_test_teardown(test_paused_workers_go_on_without_harm, world_teardown),
  };
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
