/* The seeded fault run: real Redis and PostgreSQL, two API and two worker processes, some hundred devices, and a fault of a
 * random kind every second or two. Afterwards everybody falls silent, and the outbox is compared with what the devices know.
 *
 *   make faults SEED=7 MINUTES=10        FAULTS_SEED, FAULTS_SECONDS in the environment
 *
 * The last line counts:
 *   lost     heartbeats that were accepted and lie in no session (those shortly before Redis was emptied left out: a session that
 *            had not yet reached PostgreSQL is gone with Redis), and sessions that never ended
 *   doubled  breaches of support/invariants.sql: rows twice, out of order, that belong to no history
 *   early    timeouts although a heartbeat was accepted within the ttl before
 *   false    timeouts although the device tried all the time, disconnects that nobody asked for */
#include "support/test.h"

#include "faults/devices.h"
#include "support/scratch.h"
#include "support/timeshim.h"
#include "support/world.h"

#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define SLACK_MS 100            /* the two clocks are read one after the other */
#define FLUSH_TOLERANCE_MS 8000 /* what had not reached PostgreSQL before Redis was emptied: it may have been cut off before */
#define STEPS_MAX 4000

enum { API, WORKER };
struct run {
  struct world *world;
  struct devices devices;
  uint64_t random;
  struct presenced *process[2][2];
  int64_t offset_ms;
  /* Since when Redis's clock is how far off. */
  struct {
    int64_t from_ms, offset_ms;
  } steps[STEPS_MAX];
  size_t step_count;
  int64_t flushes[STEPS_MAX];
  size_t flush_count;
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
  struct presenced *process = run->process[role][i];
  if (process == NULL) {
    run->process[role][i] = process = world_spawn(run->world, role == API ? "api" : "worker", NULL);
  } else {
    const char *all[48] = {NULL};
    size_t count = 0;
    for (const char *const *each = world_environment(run->world); *each != NULL; each++) all[count++] = *each;
    all[count] = role == API ? "PRESENCE_ROLES=api" : "PRESENCE_ROLES=worker";
    presenced_spawn(process, all);
  }
  presenced_wait_listening(process);
  if (role == API) devices_address(&run->devices, i, process->address);
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

static void step_clock(struct run *run) {
  static const int64_t steps[] = {3600000, -3600000, 86400000, -86400000, 5000, -5000, 700, -700, -60000};
  run->offset_ms += steps[between(run, 0, LENGTH(steps) - 1)];
  timeshim_offset(run->world->redis.clock, run->offset_ms);
  run->steps[run->step_count].from_ms = real_ms();
  run->steps[run->step_count++].offset_ms = run->offset_ms;
}

static void kill_api(struct run *run) { kill_process(run, API); }
static void kill_worker(struct run *run) { kill_process(run, WORKER); }
static void pause_api(struct run *run) { pause_process(run, API); }
static void pause_worker(struct run *run) { pause_process(run, WORKER); }
static void restart_redis(struct run *run) {
  redis_server_kill(&run->world->redis);
  wait_ms(between(run, 0, 2000));
  redis_server_restart(&run->world->redis);
}
static void empty_redis(struct run *run) {
  run->flushes[run->flush_count++] = real_ms();
  redis_text(&run->world->redis, "FLUSHALL");
}
static void pause_clients(struct run *run) {
  redis_text(&run->world->redis, "CLIENT PAUSE %d ALL", (int)between(run, 100, 2500));
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
  wait_ms(between(run, 300, 3500));
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
    {"Redis's clock steps", step_clock},
};

/* ---- the reference */

/* A time on Redis's clock as a real one. After a step back the same time comes again: then it may be either. */
struct moment {
  int64_t earliest_ms, latest_ms; /* -1: no interval fits */
};

static struct moment to_real(const struct run *run, int64_t redis_ms, int64_t no_later_than_ms) {
  struct moment moment = {-1, -1};
  for (size_t i = 0; i < run->step_count; i++) {
    int64_t real = redis_ms - run->steps[i].offset_ms;
    int64_t end = i + 1 < run->step_count ? run->steps[i + 1].from_ms : INT64_MAX / 2;
    if (real < run->steps[i].from_ms - SLACK_MS || real > end + SLACK_MS || real > no_later_than_ms) continue;
    if (moment.earliest_ms < 0 || real < moment.earliest_ms) moment.earliest_ms = real;
    if (real > moment.latest_ms) moment.latest_ms = real;
  }
  return moment;
}

static bool is_certain(struct moment moment) {
  return moment.earliest_ms >= 0 && moment.latest_ms - moment.earliest_ms <= 2 * SLACK_MS;
}

struct session {
  struct moment start, end; /* end: when it was detected */
  bool is_over;
  bool timeout, disconnect, lost;
};

static bool after_flush(const struct run *run, int64_t at_ms, int64_t tolerance_ms) {
  for (size_t i = 0; i < run->flush_count; i++) {
    if (at_ms <= run->flushes[i] && run->flushes[i] - at_ms < tolerance_ms) return true;
  }
  return false;
}

struct verdict {
  int sessions, lost, doubled, early, untrue;
  int judged;        /* timeouts whose time is known on the real clock */
  int64_t latest_ms; /* worst: from deadline to detection, in real time */
};

/* Was the device trying all the time from..to? */
static bool tried(const struct device *device, int64_t from_ms, int64_t to_ms) {
  int64_t last_ms = from_ms;
  for (size_t i = 0; i < device->count; i++) {
    const struct attempt *attempt = &device->attempts[i];
    if (attempt->answered_ms < from_ms) continue;
    if (attempt->sent_ms > to_ms) break;
    if (attempt->sent_ms - last_ms > DEVICE_TTL_MS / 2 || attempt->answered_ms - attempt->sent_ms > DEVICE_TTL_MS / 2)
      return false;
    last_ms = attempt->sent_ms;
  }
  return to_ms - last_ms <= DEVICE_TTL_MS / 2;
}

static void judge_timeout(int number, const struct device *device, const struct session *session, struct verdict *verdict) {
  int64_t end_ms = session->end.latest_ms, seen_ms = -1;
  if (!is_certain(session->end)) return;
  verdict->judged++;
  for (size_t i = 0; i < device->count; i++) {
    const struct attempt *attempt = &device->attempts[i];
    if (attempt->accepted && attempt->answered_ms < end_ms - SLACK_MS && attempt->sent_ms > seen_ms) seen_ms = attempt->sent_ms;
  }
  if (seen_ms > end_ms - DEVICE_TTL_MS + SLACK_MS) {
    verdict->early++;
    print_message("early: d%d timed out at %" PRId64 ", %" PRId64 " ms after a heartbeat was accepted\n", number, end_ms,
                  end_ms - seen_ms);
  } else if (tried(device, end_ms - DEVICE_TTL_MS, end_ms)) {
    verdict->untrue++;
    print_message("false: d%d timed out at %" PRId64 " although it tried all the time\n", number, end_ms);
  }
  if (seen_ms >= 0 && end_ms - seen_ms - DEVICE_TTL_MS > verdict->latest_ms)
    verdict->latest_ms = end_ms - seen_ms - DEVICE_TTL_MS;
}

static void judge_heartbeats(const struct run *run, int number, const struct session *sessions, size_t count,
                             struct verdict *verdict) {
  const struct device *device = &run->devices.device[number];
  for (size_t i = 0; i < device->count; i++) {
    const struct attempt *attempt = &device->attempts[i];
    bool covered = !attempt->accepted || after_flush(run, attempt->sent_ms, FLUSH_TOLERANCE_MS);
    for (size_t s = 0; s < count && !covered; s++) {
      bool begun = sessions[s].start.earliest_ms <= attempt->answered_ms + SLACK_MS;
      bool open =
          !sessions[s].is_over || sessions[s].end.latest_ms < 0 || sessions[s].end.latest_ms >= attempt->sent_ms - SLACK_MS;
      covered = begun && open;
    }
    if (covered) continue;
    verdict->lost++;
    print_message("lost: a heartbeat of d%d accepted at %" PRId64 " lies in no session\n", number, attempt->answered_ms);
  }
}

static void judge_device(struct run *run, int number, struct verdict *verdict) {
  PGresult *rows = sql_query(&run->world->database,
                             "SELECT split_part(type, '.', 3), coalesce(payload->>'reason', ''), payload->>'online_since_ms',"
                             " coalesce(payload->>'detected_at_ms', ''), presence.to_ms(recorded_at) FROM presence.outbox"
                             " WHERE tenant = $1 AND device = $2 ORDER BY seq",
                             run->world->tenant, text_format("d%d", number), NULL);
  static struct session sessions[10000];
  size_t count = 0;
  for (int i = 0; i < PQntuples(rows) && count < LENGTH(sessions); i++) {
    int64_t recorded_ms = strtoll(PQgetvalue(rows, i, 4), NULL, 10) + SLACK_MS;
    if (strcmp(PQgetvalue(rows, i, 0), "online") == 0) {
      sessions[count++] = (struct session){.start = to_real(run, strtoll(PQgetvalue(rows, i, 2), NULL, 10), recorded_ms)};
    } else if (count > 0) {
      struct session *session = &sessions[count - 1];
      session->is_over = true;
      session->end = to_real(run, strtoll(PQgetvalue(rows, i, 3), NULL, 10), recorded_ms);
      session->timeout = strcmp(PQgetvalue(rows, i, 1), "timeout") == 0;
      session->disconnect = strcmp(PQgetvalue(rows, i, 1), "disconnect") == 0;
    }
  }
  PQclear(rows);
  const struct device *device = &run->devices.device[number];
  verdict->sessions += (int)count;
  for (size_t i = 0; i < count; i++) {
    if (!sessions[i].is_over) verdict->lost++;
    if (sessions[i].timeout) judge_timeout(number, device, &sessions[i], verdict);
    if (sessions[i].disconnect && !device->tried_disconnect) verdict->untrue++;
  }
  judge_heartbeats(run, number, sessions, count, verdict);
}

static int breaches(struct run *run) {
  PGresult *rows =
      sql_query(&run->world->database, place_text(text_format("%s/tests/support/invariants.sql", place_root())), "true", NULL);
  int count = PQntuples(rows);
  for (int i = 0; i < count; i++) print_message("doubled: %s, %s\n", PQgetvalue(rows, i, 0), PQgetvalue(rows, i, 2));
  PQclear(rows);
  return count;
}

static void strike(struct run *run, int64_t until_ms) {
  const char *only = getenv("FAULTS_ONLY");
  while (wait_now_ms() < until_ms && run->step_count < STEPS_MAX - 1 && run->flush_count < STEPS_MAX - 1) {
    wait_ms(between(run, 200, 2000));
    size_t kind = (size_t)between(run, 0, LENGTH(faults) - 1);
    if (only != NULL && strstr(faults[kind].name, only) == NULL) continue;
    if (getenv("FAULTS_SEED") != NULL) print_message("%" PRId64 " %s\n", real_ms(), faults[kind].name);
    faults[kind].strike(run);
    run->faults++;
  }
}

static void start(struct run *run, void **state) {
  static const char *const environment[] = {"PRESENCE_OUTAGE_MS=300",         "PRESENCE_SETTLE_MS=500", "PRESENCE_PARTITIONS=4",
                                            "PRESENCE_STARTUP_WAIT_MS=60000", "PRESENCE_AUDIT_MS=3000", NULL};
  run->world = world_start(
      state, &(struct world_options){
                 .own_clock = true, .appendonly = true, .proxies = true, .no_service = true, .environment = environment});
  run->world->clock_stepped = true;
  redis_text(&run->world->redis, "CONFIG SET appendfsync always");
  run->steps[run->step_count++].from_ms = real_ms() - 60000;
  pthread_mutex_init(&run->devices.lock, NULL);
  for (int i = 0; i < 2; i++) {
    start_process(run, WORKER, i);
    start_process(run, API, i);
  }
  for (int i = 0; i < 2; i++) presenced_wait_ready(run->process[API][i]);
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
  struct verdict verdict = {.doubled = breaches(&run)};
  for (int i = 0; i < DEVICES; i++) judge_device(&run, i, &verdict);
  keyspace_check(&run.world->redis);
  print_message("seed %" PRId64 ": %d timeouts, the latest %" PRId64 " ms after its deadline, outages included\n", seed,
                verdict.judged, verdict.latest_ms);
  print_message("%d faults, %d sessions, %d lost, %d doubled, %d early, %d false\n", run.faults, verdict.sessions, verdict.lost,
                verdict.doubled, verdict.early, verdict.untrue);
  assert_true(verdict.sessions >= DEVICES);
  assert_true(verdict.judged >= DEVICES / 10); /* else nothing was proved */
  assert_int_equal(verdict.lost + verdict.doubled + verdict.early + verdict.untrue, 0);
  devices_free(&run.devices);
  world_end(run.world);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(test_faults, world_teardown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
