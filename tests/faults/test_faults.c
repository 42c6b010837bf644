/* The seeded fault run: real Redis and PostgreSQL, two API and two worker processes, some hundred devices, and a fault of a
 * random kind every second or two. Afterwards everybody falls silent, and the outbox is compared with what the devices know.
 *
 *   make faults SEED=7 MINUTES=10        FAULTS_SEED, FAULTS_SECONDS in the environment
 *
 * The last line counts what judge.h names. */
#include "support/test.h"

#include "faults/judge.h"
#include "support/scratch.h"
#include "support/world.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TEXT_OF(value) #value
#define AS_TEXT(macro) TEXT_OF(macro)

enum { API, WORKER };
struct host {
  struct host_clock clock;
  int64_t offset_ms;
};

struct run {
  struct world *world;
  struct devices devices;
  uint64_t random;
  struct presenced *process[2][2]; /* role, number */
  struct host host[2][2];          /* that it runs on */
  struct timeline timeline;
  int faults;
};

static int64_t number_from(const char *name, int64_t otherwise) {
  const char *text = getenv(name);
  return text != NULL && *text != '\0' ? strtoll(text, NULL, 10) : otherwise;
}

static void wait_ms(int64_t ms) {
  int64_t until = wait_now_ms() + ms;
  while (wait_now_ms() < until) wait_pause();
}

static int64_t between(struct run *run, int64_t least, int64_t most) { return random_between(&run->random, least, most); }

static void start_process(struct run *run, int role, int i) {
  struct presenced **process = &run->process[role][i];
  const char *roles = role == API ? "api" : "worker";
  struct host *host = &run->host[role][i];
  if (*process == NULL)
    *process = world_spawn(run->world, roles, host->clock.environment);
  else
    world_respawn(run->world, *process, roles, host->clock.environment);
  presenced_wait_listening(*process);
  if (role == API) devices_address(&run->devices, i, (*process)->address);
}

static void kill_process(struct run *run, int role) {
  int i = (int)between(run, 0, 1);
  presenced_kill(run->process[role][i]);
  wait_ms(between(run, 0, 1500));
  start_process(run, role, i);
}

static void pause_process(struct run *run, int role) {
  struct presenced *process = run->process[role][between(run, 0, 1)];
  presenced_pause(process);
  wait_ms(between(run, 50, 4000));
  presenced_resume(process);
}

/* Of a host that nothing may depend on. */
static void step_host(struct run *run, int role) {
  static const int64_t steps[] = {3600000, -3600000, 86400000, -86400000};
  struct host *host = &run->host[role][between(run, 0, 1)];
  host->offset_ms += steps[between(run, 0, LENGTH(steps) - 1)];
  timeshim_offset(host->clock.shim, host->offset_ms);
}

static void step_redis(struct run *run) {
  static const int64_t steps[] = {3600000, -3600000, 86400000, -86400000, 5000, -5000, 700, -700, -60000};
  struct timeline *timeline = &run->timeline;
  redis_text(&run->world->redis, "PING"); /* once CLIENT PAUSE is over, whose end is a time on this clock */
  int64_t offset_ms = timeline->steps[timeline->step_count - 1].offset_ms + steps[between(run, 0, LENGTH(steps) - 1)];
  timeshim_offset(run->world->redis.clock, offset_ms);
  timeline->steps[timeline->step_count].from_ms = real_ms();
  timeline->steps[timeline->step_count++].offset_ms = offset_ms;
}

static void step_api(struct run *run) { step_host(run, API); }
static void step_worker(struct run *run) { step_host(run, WORKER); }
static void kill_api(struct run *run) { kill_process(run, API); }
static void kill_worker(struct run *run) { kill_process(run, WORKER); }
static void pause_api(struct run *run) { pause_process(run, API); }
static void pause_worker(struct run *run) { pause_process(run, WORKER); }
static void restart_redis(struct run *run) {
  redis_server_kill(&run->world->redis);
  int64_t from_ms = real_ms();
  wait_ms(between(run, 0, 2000));
  timeline_deaf(&run->timeline, from_ms, real_ms());
  redis_server_restart(&run->world->redis);
}
static void empty_redis(struct run *run) {
  redis_text(&run->world->redis, "FLUSHALL");
  run->timeline.flushes[run->timeline.flush_count++] = real_ms();
}
static void pause_clients(struct run *run) {
  int64_t pause_ms = between(run, 100, 2500);
  redis_text(&run->world->redis, "CLIENT PAUSE %d ALL", (int)pause_ms);
  timeline_deaf(&run->timeline, real_ms(), real_ms() + pause_ms);
}
static void restart_postgres(struct run *run) {
  postgres_server_kill();
  wait_ms(between(run, 0, 2000));
  postgres_server_restart();
}
static void cut_redis(struct run *run) {
  if (between(run, 0, 1) == 0)
    proxy_cut(run->world->redis_proxy);
  else
    proxy_cut_after_answers(run->world->redis_proxy, (size_t)between(run, 1, 4000));
}
static void cut_postgres(struct run *run) {
  if (between(run, 0, 1) == 0)
    proxy_cut(run->world->postgres_proxy);
  else
    proxy_cut_after_answers(run->world->postgres_proxy, (size_t)between(run, 1, 2000));
}
static void slow_redis(struct run *run) {
  proxy_delay(run->world->redis_proxy, (int)between(run, 20, 400));
  wait_ms(between(run, 300, 2500));
  proxy_delay(run->world->redis_proxy, 0);
}
static void lose_redis(struct run *run) {
  proxy_blackhole(run->world->redis_proxy, true);
  int64_t from_ms = real_ms();
  wait_ms(between(run, 300, 3500));
  timeline_deaf(&run->timeline, from_ms, real_ms());
  proxy_blackhole(run->world->redis_proxy, false);
}
static void lose_postgres(struct run *run) {
  proxy_blackhole(run->world->postgres_proxy, true);
  wait_ms(between(run, 300, 3500));
  proxy_blackhole(run->world->postgres_proxy, false);
}

static const struct {
  const char *name;
  void (*strike)(struct run *run);
} faults[] = {
    {"kill -9 of an API process", kill_api},
    {"kill -9 of a worker", kill_worker},
    {"an API process stands still", pause_api},
    {"a worker stands still", pause_worker},
    {"Redis restarts", restart_redis},
    {"Redis is emptied", empty_redis},
    {"Redis answers nobody", pause_clients},
    {"PostgreSQL crashes", restart_postgres},
    {"connections to Redis are cut", cut_redis},
    {"connections to PostgreSQL are cut", cut_postgres},
    {"Redis is slow", slow_redis},
    {"Redis cannot be reached", lose_redis},
    {"PostgreSQL cannot be reached", lose_postgres},
    {"the clock of Redis's host steps", step_redis},
    {"the clock of an API host steps", step_api},
    {"the clock of a worker host steps", step_worker},
};

static void strike(struct run *run, int64_t until_ms) {
  const char *only = getenv("FAULTS_ONLY");
  while (wait_now_ms() < until_ms && run->faults < STEPS_MAX - 2) {
    wait_ms(between(run, 200, 2000));
    size_t kind = (size_t)between(run, 0, LENGTH(faults) - 1);
    if (only != NULL && strstr(faults[kind].name, only) == NULL) continue;
    if (getenv("FAULTS_SEED") != NULL) print_message("%" PRId64 " %s\n", real_ms(), faults[kind].name);
    faults[kind].strike(run);
    run->faults++;
  }
}

/* Else steps of that clock would prove nothing. */
static void assert_lives_by_host_clock(const struct presenced *process, int64_t offset_ms) {
  time_t now = (time_t)((real_ms() + offset_ms) / 1000);
  char today[16], yesterday[16]; /* the log may have begun right before midnight */
  struct tm date;
  strftime(today, sizeof today, "%F", gmtime_r(&now, &date));
  now -= 60;
  strftime(yesterday, sizeof yesterday, "%F", gmtime_r(&now, &date));
  assert_true(presenced_logged(process, today) || presenced_logged(process, yesterday));
}

static void start(struct run *run, void **state) {
  static const char *const environment[] = {
      "PRESENCE_OUTAGE_MS=300",         "PRESENCE_SETTLE_MS=500", "PRESENCE_PARTITIONS=" AS_TEXT(PARTITIONS),
      "PRESENCE_STARTUP_WAIT_MS=60000", "PRESENCE_AUDIT_MS=3000", NULL};
  run->world = world_start(
      state, &(struct world_options){
                 .own_clock = true, .appendonly = true, .proxies = true, .no_service = true, .environment = environment});
  run->world->clock_stepped = true;
  redis_text(&run->world->redis, "CONFIG SET appendfsync always");
  run->timeline.steps[run->timeline.step_count++].from_ms = real_ms() - 60000;
  pthread_mutex_init(&run->devices.lock, NULL);
  for (int i = 0; i < 2; i++) {
    for (int role = API; role <= WORKER; role++) {
      struct host *host = &run->host[role][i];
      host_clock_open(&host->clock, scratch_path("clock"));
      host->offset_ms = i * 86400000; /* one is wrong by a day from the start */
      timeshim_offset(host->clock.shim, host->offset_ms);
    }
    start_process(run, WORKER, i);
    start_process(run, API, i);
  }
  for (int i = 0; i < 2; i++) presenced_wait_ready(run->process[API][i]);
  assert_lives_by_host_clock(run->process[API][1], run->host[API][1].offset_ms);
}

static void test_faults(void **state) {
  static struct run run;
  int64_t seed = number_from("FAULTS_SEED", 1), seconds = number_from("FAULTS_SECONDS", 15);
  run.random = (uint64_t)seed * 2 + 1;
  start(&run, state);
  devices_start(&run.devices, (uint64_t)seed, run.world->tenant, run.world->token);
  strike(&run, wait_now_ms() + seconds * 1000);
  atomic_store(&run.devices.silent, true);
  for (int i = 0; i < 2; i++) presenced_wait_ready(run.process[API][i]);
  WAIT_UNTIL_TEXT(keyspace_open_sessions(&run.world->redis) == 0 && keyspace_unpublished(&run.world->redis) == 0, 60000,
                  text_format("%" PRId64 " open", keyspace_open_sessions(&run.world->redis)));
  devices_stop(&run.devices);
  database_reconnect(&run.world->database);
  struct verdict verdict = judge(&run.timeline, &run.devices, &run.world->database);
  keyspace_check(&run.world->redis);
  print_message("seed %" PRId64 ": %d timeouts judged, %d of them of devices that reached no process while others were heard\n",
                seed, verdict.judged, verdict.unreached);
  print_message("worst lateness: %" PRId64 " ms of listening after the deadline, %" PRId64 " ms with all outages\n",
                verdict.latest_heard_ms, verdict.latest_ms);
  print_message("%d faults, %d sessions, %d lost, %d doubled, %d early, %d false\n", run.faults, verdict.sessions, verdict.lost,
                verdict.doubled, verdict.early, verdict.untrue);
  assert_true(verdict.sessions >= DEVICES);
  assert_true(verdict.judged >= DEVICES / 10); /* else nothing was proved */
  assert_int_equal(verdict.lost + verdict.doubled + verdict.early + verdict.untrue, 0);
  devices_free(&run.devices);
  for (int i = 0; i < 4; i++) host_clock_close(&run.host[i / 2][i % 2].clock);
  world_end(run.world);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(test_faults, world_teardown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
