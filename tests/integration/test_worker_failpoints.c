/* A worker ends, stands still for a while, or loses a reply at every named place between two systems: each session is still told
 * exactly once. The places come from the table of names, so that a new one cannot be forgotten: all but those of presencectl
 * (test_tenant_delete) and those that need a webhook (test_webhooks) must be reached here. */
#include "support/test.h"

#include "failpoint.h"
#include "support/world.h"

#include <string.h>
#include <time.h>

#define DEVICES 12

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

enum action { KILL, PAUSE, CUT };
static const char *const actions[] = {"kill", "pause", "cut"};

struct victim {
  struct presenced *process;
  enum action action;
  const char *report; /* what it logs when it is there */
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

static bool was_there(const struct victim *victim) {
  switch (victim->action) {
  case KILL: return !child_is_running(&victim->process->child);
  case PAUSE: return has_stopped(victim);
  case CUT: break;
  }
  return presenced_logged(victim->process, victim->report);
}

static bool is_ready(const struct presenced *process) {
  struct client *client = client_open(process->address);
  int status = client_call(client, "GET", "/readyz", NULL)->status;
  client_close(client);
  return status == 200;
}

/* Sessions that end by themselves, one that is ended, one that comes back. */
static void live_a_little(struct world *world) {
  for (int i = 1; i < DEVICES; i++) beat(world, device(i), 300);
  beat(world, device(0), 60000); /* ends by its disconnect, however slow the machine is */
  expect_status(world->client, 204, "POST", device_path(world, device(0), "/disconnect"), NULL);
  beat(world, device(0), 300);
}

static void wait_for_histories(struct world *world) {
  history_wait(&world->database, world->tenant, device(0), "online offline(disconnect) online offline(timeout)");
  for (int i = 1; i < DEVICES; i++) history_wait(&world->database, world->tenant, device(i), "online offline(timeout)");
}

/* Reaches the place; where that ends it or makes it stand still there is a second worker afterwards. */
static struct victim start_victim(struct world *world, struct presenced *api, const char *name, enum action action) {
  const char *environment[] = {text_format("PRESENCE_FAILPOINT=%s", name),
                               text_format("PRESENCE_FAILPOINT_ACTION=%s", actions[action]), NULL};
  struct victim victim = {
      .process = world_spawn(world, "worker", environment), .action = action, .report = text_format("failpoint name=%s", name)};
  WAIT_UNTIL(is_ready(api) || was_there(&victim), 15000);
  bool early = was_there(&victim);
  if (early && action != CUT) world_process(world, "worker", NULL);
  presenced_wait_ready(api);
  live_a_little(world);
  WAIT_UNTIL_TEXT(was_there(&victim), 15000, text_format("%s was never reached", name));
  if (!early && action != CUT) world_process(world, "worker", NULL);
  return victim;
}

static void survives(void **state, const char *name, enum action action) {
  print_message("%s at %s\n", actions[action], name);
  struct world *world = world_start(state, &(struct world_options){.no_service = true});
  if (strcmp(name, "publisher_put_aside") == 0) put_broken_entries(world);
  if (strncmp(name, "publisher_marker", 16) == 0 || strcmp(name, "publisher_repaired") == 0) put_markers(world);
  world->service = world_process(world, "api", NULL);
  world_talk_to(world, world->service);
  struct victim victim = start_victim(world, world->service, name, action);
  int64_t paused_ms = wait_now_ms();
  wait_for_histories(world);
  if (action == CUT) assert_true(presenced_logged(victim.process, "redis_connection_lost"));
  if (action == PAUSE) { /* goes on with what it knew then */
    if (test_is_whole()) WAIT_UNTIL(wait_now_ms() - paused_ms >= 5000, 6000);
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

static bool is_elsewhere(const char *name) {
  return strncmp(name, "tenant_delete_", 14) == 0 || strncmp(name, "webhook_", 8) == 0;
}

/* Every place, or each third of them, another third on another day. */
static void at_each_place(void **state, enum action action, bool all) {
  int64_t day = (int64_t)time(NULL) / 86400;
  for (int i = 0; i < FAILPOINT_COUNT; i++) {
    const char *name = failpoint_names()[i];
    if (!is_elsewhere(name) && (all || (i + day) % 3 == 0)) survives(state, name, action);
  }
}

static void test_killed_at_each_place(void **state) { at_each_place(state, KILL, true); }
static void test_paused_at_each_place(void **state) { at_each_place(state, PAUSE, test_is_whole()); }
static void test_a_reply_is_lost_at_each_place(void **state) { at_each_place(state, CUT, true); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_killed_at_each_place, world_teardown),
      cmocka_unit_test_teardown(test_paused_at_each_place, world_teardown),
      cmocka_unit_test_teardown(test_a_reply_is_lost_at_each_place, world_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
