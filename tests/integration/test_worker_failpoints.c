/* A worker ends, or stands still for a while, at every named place between two systems: each session is still told exactly once.
 * The places come from the table of names, so that a new one cannot be forgotten. */
#include "support/test.h"

#include "failpoint.h"
#include "support/world.h"

#include <signal.h>
#include <string.h>

#define DEVICES 12

static const char *const *names_of_worker(void) {
  static const char *names[FAILPOINT_COUNT + 1];
  static const char *const modules[] = {"coordinator_", "detector_", "publisher_", "maintenance_", "rebuild_"};
  size_t count = 0;
  for (size_t i = 0; i < FAILPOINT_COUNT; i++) {
    for (size_t j = 0; j < LENGTH(modules); j++) {
      if (strncmp(failpoint_names()[i], modules[j], strlen(modules[j])) == 0) names[count++] = failpoint_names()[i];
    }
  }
  names[count] = NULL;
  return names;
}

static const char *device(int number) { return text_format("d%d", number); }

/* An entry that no release of the service ever wrote, at the head of every partition's stream. */
static void put_broken_entries(struct world *world) {
  for (int partition = 0; partition < 8; partition++) {
    redis_text(&world->redis, "XADD prod:presence:transitions:v1:{%d} * type nonsense device d\xff", partition);
  }
}

/* Markers of the audit that find nothing wrong: a device that nobody has ever heard of. */
static void put_markers(struct world *world) {
  for (int partition = 0; partition < 8; partition++) {
    redis_text(&world->redis,
               "XADD prod:presence:transitions:v1:{%d} * type mark tenant %s device nobody session %b online_since 0 last_seen %b"
               " ttl 0 reason %b offline_at %b detected_at 0 meta %b",
               partition, world->tenant, "", (size_t)0, "", (size_t)0, "", (size_t)0, "", (size_t)0, "", (size_t)0);
  }
}

struct victim {
  struct presenced *process;
  const char *name, *action;
};

static bool has_stopped(const struct victim *victim) {
  char path[64], line[512] = "";
  snprintf(path, sizeof path, "/proc/%ld/stat", (long)victim->process->child.pid);
  FILE *file = fopen(path, "r");
  if (file == NULL) return true;
  bool read = fgets(line, sizeof line, file) != NULL;
  fclose(file);
  const char *state = strrchr(line, ')');
  return !read || state == NULL || strchr("TtZX", state[2]) != NULL;
}

static bool fell(const struct victim *victim) {
  return strcmp(victim->action, "pause") == 0 ? has_stopped(victim) : !child_is_running(&victim->process->child);
}

static bool is_ready(const struct presenced *process) {
  struct client *client = client_open(process->address);
  int status = client_call(client, "GET", "/readyz", NULL)->status;
  client_close(client);
  return status == 200;
}

/* Sessions that end by themselves, one that is ended, one that comes back. */
static void live_a_little(struct world *world) {
  for (int i = 0; i < DEVICES; i++) beat(world, device(i), 300);
  expect_status(world->client, 204, "POST", device_path(world, device(0), "/disconnect"), NULL);
  beat(world, device(0), 300);
}

static void wait_for_histories(struct world *world) {
  history_wait(&world->database, world->tenant, device(0), "online offline(disconnect) online offline(timeout)");
  for (int i = 1; i < DEVICES; i++) history_wait(&world->database, world->tenant, device(i), "online offline(timeout)");
}

static void survives(void **state, const char *name, const char *action) {
  print_message("%s at %s\n", action, name);
  struct world *world = world_start(state, &(struct world_options){.no_service = true});
  const char *environment[] = {text_format("PRESENCE_FAILPOINT=%s", name), text_format("PRESENCE_FAILPOINT_ACTION=%s", action),
                               NULL};
  if (strcmp(name, "publisher_put_aside") == 0) put_broken_entries(world);
  if (strncmp(name, "publisher_marker", 16) == 0 || strcmp(name, "publisher_repaired") == 0) put_markers(world);
  struct presenced *api = world_process(world, "api", NULL);
  struct victim victim = {.process = world_spawn(world, "worker", environment), .name = name, .action = action};
  WAIT_UNTIL(is_ready(api) || fell(&victim), 15000);
  if (fell(&victim)) world_process(world, "worker", NULL);
  presenced_wait_ready(api);
  world->service = api;
  world_talk_to(world, api);
  live_a_little(world);
  WAIT_UNTIL_TEXT(fell(&victim), 15000, text_format("%s was never reached", name));
  if (world->process_count == 2) world_process(world, "worker", NULL);
  wait_for_histories(world);
  if (strcmp(action, "pause") == 0) { /* goes on with what it knew then */
    presenced_resume(victim.process);
    live_a_little(world);
    for (int i = 1; i < DEVICES; i++) {
      history_wait(&world->database, world->tenant, device(i), "online offline(timeout) online offline(timeout)");
    }
    if (strcmp(name, "publisher_put_aside") != 0) assert_false(presenced_logged(victim.process, "stream_entry_put_aside"));
  }
  world_end(world);
  world_teardown(state);
}

static void test_killed_at_each_place(void **state) {
  for (const char *const *name = names_of_worker(); *name != NULL; name++) survives(state, *name, "kill");
}

static void test_paused_at_each_place(void **state) {
  for (const char *const *name = names_of_worker(); *name != NULL; name++) survives(state, *name, "pause");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_killed_at_each_place, world_teardown),
      cmocka_unit_test_teardown(test_paused_at_each_place, world_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
