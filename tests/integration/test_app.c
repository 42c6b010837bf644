/* The process from outside: exit codes, one clear line, signals. */
#include "support/test.h"

#include "support/scratch.h"
#include "support/world.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>

static const char *last_line(const char *text) {
  const char *line = text;
  for (const char *at = text; *at != '\0'; at++) {
    if (*at == '\n' && at[1] != '\0') line = at + 1;
  }
  return line;
}

/* presenced must end by itself with this code; the last line on stderr, after those of the log, says why. */
static void refuses(const char *const *environment, const char *const *arguments, int code, const char *said) {
  struct outcome outcome = run_program("presenced", environment, arguments);
  const char *line = last_line(outcome.err);
  if (outcome.code != code || strstr(line, said) == NULL || strncmp(line, "presenced: ", 11) != 0) {
    fail_msg("wanted %d and \"%s\", got %d and: %s", code, said, outcome.code, outcome.err);
  }
  if (code == 2) assert_ptr_equal(line, outcome.err); /* nothing else where it has not even begun */
}

#define ARGUMENTS(...) ((const char *const[]){__VA_ARGS__, NULL})
#define NOTHING ((const char *const[]){NULL})

static void test_a_stray_word_or_an_unknown_failure_point_is_2(void **state) {
  (void)state;
  refuses(NOTHING, ARGUMENTS("serve"), 2, "serve");
  refuses(ARGUMENTS("PRESENCE_FAILPOINT=no_such_place"), NOTHING, 2, "PRESENCE_FAILPOINT");
}

static void test_a_server_that_is_not_there_is_1_after_the_wait(void **state) {
  struct world *world = world_start(state, &(struct world_options){.no_service = true});
  const char *const redis_away[] = {text_format("PRESENCE_POSTGRES_URL=%s", world->database.url),
                                    "PRESENCE_REDIS_URL=unix:///tmp/no-such-redis", "PRESENCE_STARTUP_WAIT_MS=300", NULL};
  int64_t began_ms = wait_now_ms();
  refuses(redis_away, NOTHING, 1, "cannot reach Redis");
  assert_true(wait_now_ms() - began_ms >= 300);
  const char *const postgres_away[] = {text_format("PRESENCE_REDIS_URL=%s", world->redis.url),
                                       "PRESENCE_POSTGRES_URL=host=/tmp/no-such-postgres", "PRESENCE_STARTUP_WAIT_MS=300", NULL};
  refuses(postgres_away, NOTHING, 1, "cannot reach PostgreSQL");
  world_end(world);
}

static void test_other_partitions_are_1(void **state) {
  struct world *world = world_start(state, &(struct world_options){0});
  const char *const other[] = {text_format("PRESENCE_REDIS_URL=%s", world->redis.url),
                               text_format("PRESENCE_POSTGRES_URL=%s", world->database.url), "PRESENCE_PARTITIONS=16", NULL};
  refuses(other, NOTHING, 1, "16");
  world_end(world);
}

static void test_no_schema_is_1(void **state) {
  struct world *world = world_start(state, &(struct world_options){.no_service = true});
  struct database empty;
  database_create(&empty, false);
  const char *const environment[] = {text_format("PRESENCE_REDIS_URL=%s", world->redis.url),
                                     text_format("PRESENCE_POSTGRES_URL=%s", empty.url), NULL};
  refuses(environment, NOTHING, 1, "migrate");
  database_drop(&empty);
  world_end(world);
}

static void test_an_evicting_redis_is_1(void **state) {
  struct world *world = world_start(state, &(struct world_options){.no_service = true});
  redis_text(&world->redis, "CONFIG SET maxmemory-policy allkeys-lru");
  refuses(world_environment(world), NOTHING, 1, "maxmemory-policy");
  world_end(world);
}

static void test_sigterm_while_it_waits_for_a_server_ends_it(void **state) {
  (void)state;
  struct presenced process;
  presenced_spawn(&process, ARGUMENTS("PRESENCE_POSTGRES_URL=host=/tmp/no-such-postgres", "PRESENCE_STARTUP_WAIT_MS=60000",
                                      "PRESENCE_REDIS_URL=unix:///tmp/no-such-redis", "PRESENCE_LOG_LEVEL=debug"));
  char path[64];
  snprintf(path, sizeof path, "/proc/%ld/status", (long)process.child.pid);
  bool blocks = false;
  while (!blocks) { /* SIGTERM is held back from main's beginning on: before that it would just kill */
    char *status = place_read(path, NULL);
    const char *mask = strstr(status, "SigBlk:");
    bool begun = strncmp(status, "Name:\tpresenced\n", 16) == 0; /* before exec the C library may block everything for a moment */
    blocks = begun && mask != NULL && (strtoull(mask + 7, NULL, 16) & (1ULL << (SIGTERM - 1))) != 0;
    free(status);
    wait_pause();
  }
  assert_int_equal(presenced_stop(&process), 0);
}

static void test_stops_in_order_in_mid_load(void **state) {
  static const int signals[] = {SIGTERM, SIGINT};
  struct world *world = world_start(state, &(struct world_options){.no_service = true});
  for (size_t i = 0; i < LENGTH(signals); i++) {
    struct presenced *process = world_process(world, NULL, NULL);
    world->service = process;
    world_talk_to(world, process);
    for (int j = 0; j < 200; j++) beat(world, text_format("d%d", j), 300);
    int64_t began_ms = wait_now_ms();
    assert_int_equal(child_stop(&process->child, signals[i], 6000), 0);
    assert_true(wait_now_ms() - began_ms < 5000);
    assert_true(presenced_logged(process, "stopped"));
  }
  world->service = world_process(world, NULL, NULL);
  world_talk_to(world, world->service);
  WAIT_UNTIL(keyspace_open_sessions(&world->redis) == 0, 10000);
  world_end(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_stray_word_or_an_unknown_failure_point_is_2),
      cmocka_unit_test_teardown(test_a_server_that_is_not_there_is_1_after_the_wait, world_teardown),
      cmocka_unit_test_teardown(test_other_partitions_are_1, world_teardown),
      cmocka_unit_test_teardown(test_no_schema_is_1, world_teardown),
      cmocka_unit_test_teardown(test_an_evicting_redis_is_1, world_teardown),
      cmocka_unit_test(test_sigterm_while_it_waits_for_a_server_ends_it),
      cmocka_unit_test_teardown(test_stops_in_order_in_mid_load, world_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
