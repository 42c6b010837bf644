/* Webhooks: every event arrives at least once, signed, and of one device in order, whatever receivers and workers do. */
#include "support/test.h"

#include "support/hooks.h"
#include "support/pgbouncer.h"

#include <stdlib.h>
#include <string.h>

#define DEVICES 20

static struct receiver *receiver;

static int start_world(void **state) {
  static const char *const environment[] = {HOOKS_ENVIRONMENT, NULL};
  struct world *world = world_start(state, &(struct world_options){.environment = environment});
  world->begun = 0;
  return 0;
}

static int start_receiver(void **state) {
  (void)state;
  receiver = receiver_start(NULL, NULL);
  return 0;
}

/* Of a test in the shared world: its webhooks go before its receiver does. */
static int stop_receiver(void **state) {
  struct world *world = *state;
  if (world != NULL) PQclear(sql_query(&world->database, "DELETE FROM presence.webhook", NULL));
  receiver_stop(receiver);
  receiver = NULL;
  return 0;
}

static int teardown(void **state) {
  int result = world_teardown(state);
  receiver_stop(receiver);
  receiver = NULL;
  return result;
}

static void wait_accepted(const char *path, size_t count) {
  WAIT_UNTIL_TEXT(receiver_accepted(receiver, path) >= count, 60000, receiver_story(receiver, path));
  assert_int_equal(receiver_accepted(receiver, path), count);
}

/* ---- in a shared world */

static void test_events_arrive_signed_and_in_order(void **state) {
  struct world *world = world_begin(state);
  static const char *const only_offline[] = {"--types", "presence.device.offline", NULL};
  int64_t newest = sql_integer(&world->database, "SELECT presence.newest_seq()", NULL);
  const char *all = hook_add(world, receiver, "/all", NULL);
  const char *offline = hook_add(world, receiver, "/offline", only_offline);
  hook_events(world, 0, DEVICES);
  wait_accepted("/all", 2 * DEVICES);
  wait_accepted("/offline", DEVICES);
  receiver_check(receiver, "/all", &world->database, world->tenant, newest, NULL);
  receiver_check(receiver, "/offline", &world->database, world->tenant, newest, "'presence.device.offline'");
  assert_int_equal(receiver_came(receiver, "/all"), 2 * DEVICES); /* once, where nothing goes wrong */
  const char *position = text_format("%lld", (long long)newest + 2 * DEVICES);
  WAIT_UNTIL(strcmp(hook_column(world, all, "position"), position) == 0, 10000);
  WAIT_UNTIL(strcmp(hook_column(world, offline, "position"), position) == 0, 10000);
  assert_string_equal(hook_column(world, all, "state, attempts, oldest_pending IS NULL, last_success_at IS NOT NULL"),
                      "active 0 t t");
  assert_true(metric(world, "presence_webhook_deliveries_total{result=\"delivered\"}") >= 3 * DEVICES);
  world_check(world);
}

static void test_order_is_held_under_random_failures(void **state) {
  struct world *world = world_begin(state);
  int64_t newest = sql_integer(&world->database, "SELECT presence.newest_seq()", NULL);
  receiver_set(receiver, &(struct receiver_manner){.fail_one_in = 3});
  hook_add(world, receiver, "/flaky", NULL);
  for (int round = 0; round < 4; round++) hook_events(world, 0, DEVICES);
  wait_accepted("/flaky", 8 * DEVICES);
  receiver_check(receiver, "/flaky", &world->database, world->tenant, newest, NULL);
  assert_true(receiver_came(receiver, "/flaky") > 8 * DEVICES);
  world_check(world);
}

/* One answers nothing, one cannot be reached: the third has everything meanwhile; then they catch up. */
static void test_dead_endpoints_hold_up_no_other(void **state) {
  struct world *world = world_begin(state);
  int64_t newest = sql_integer(&world->database, "SELECT presence.newest_seq()", NULL);
  receiver_set(receiver, &(struct receiver_manner){.hang = true, .only = "/dead"});
  hook_add(world, receiver, "/dead", NULL);
  const char *nobody = hook_add_url(world, receiver, "/nobody", "http://127.0.0.1:1/nobody", NULL);
  hook_add(world, receiver, "/live", NULL);
  for (int round = 0; round < 2; round++) hook_events(world, 0, DEVICES);
  wait_accepted("/live", 4 * DEVICES);
  assert_int_equal(receiver_accepted(receiver, "/dead"), 0);
  WAIT_UNTIL(strstr(hook_column(world, nobody, "last_error"), "connect") != NULL, 10000);
  WAIT_UNTIL(metric(world, "presence_webhook_endpoints{state=\"failing\"}") >= 1, 60000);
  WAIT_UNTIL(metric(world, "presence_webhook_oldest_pending_seconds{state=\"failing\"}") > 0, 60000);
  receiver_set(receiver, &(struct receiver_manner){0});
  wait_accepted("/dead", 4 * DEVICES);
  receiver_check(receiver, "/dead", &world->database, world->tenant, newest, NULL);
  receiver_check(receiver, "/live", &world->database, world->tenant, newest, NULL);
  world_check(world);
}

/* Who asks for time gets it; who says that it is gone for good is not asked again. */
static void test_retry_after_and_gone(void **state) {
  struct world *world = world_begin(state);
  receiver_set(receiver, &(struct receiver_manner){.status = 429, .header = "Retry-After", .value = "3000", .only = "/busy"});
  const char *busy = hook_add(world, receiver, "/busy", NULL);
  hook_add(world, receiver, "/live", NULL);
  hook_events(world, 0, DEVICES);
  wait_accepted("/live", 2 * DEVICES);
  WAIT_UNTIL(strcmp(hook_column(world, busy, "last_error"), "status 429") == 0, 10000);
  hook_events(world, 0, DEVICES);
  wait_accepted("/live", 4 * DEVICES);
  assert_int_equal(receiver_came(receiver, "/busy"), 1); /* it is asked again in 50 minutes */
  receiver_set(receiver, &(struct receiver_manner){.status = 410, .only = "/gone"});
  const char *gone = hook_add(world, receiver, "/gone", (const char *[]){"--start", "oldest", NULL});
  hook_wait_state(world, gone, "paused gone");
  assert_string_equal(hook_column(world, gone, "last_error"), "status 410");
  assert_int_equal(receiver_came(receiver, "/gone"), 1);
  world_check(world);
}

static void test_pause_resume_replay_remove(void **state) {
  struct world *world = world_begin(state);
  const char *id = hook_add(world, receiver, "/x", NULL);
  int64_t newest = sql_integer(&world->database, "SELECT presence.newest_seq()", NULL);
  hook_events(world, 0, 2);
  wait_accepted("/x", 4);
  world_control(world, "webhook", "pause", id, NULL);
  hook_wait_state(world, id, "paused operator");
  hook_settle(world, receiver);
  size_t came = receiver_came(receiver, "/x");
  hook_add(world, receiver, "/beside", NULL);
  hook_events(world, 0, 2);
  wait_accepted("/beside", 4);
  assert_int_equal(receiver_came(receiver, "/x"), came);
  world_control(world, "webhook", "resume", id, NULL);
  wait_accepted("/x", 8);
  came = receiver_came(receiver, "/x");
  world_control(world, "webhook", "replay", id, "--from", text_format("%lld", (long long)newest + 3), NULL);
  WAIT_UNTIL_TEXT(receiver_came(receiver, "/x") == came + 6, 30000, receiver_story(receiver, "/x"));
  receiver_check(receiver, "/x", &world->database, world->tenant, newest, NULL);
  struct outcome outcome = world_presencectl(world, "webhook", "replay", id, "--from", "99999999", NULL);
  assert_int_equal(outcome.code, 1);
  assert_non_null(strstr(outcome.err, "is not there: the newest is"));
  world_control(world, "webhook", "remove", id, NULL);
  assert_int_equal(world_presencectl(world, "webhook", "show", id, NULL).code, 1);
  assert_int_equal(world_presencectl(world, "webhook", "remove", id, NULL).code, 1);
  world_check(world);
}

static void test_p7_a_webhook_has_its_tenants_events_only(void **state) {
  struct world *world = world_begin(state);
  int64_t newest = sql_integer(&world->database, "SELECT presence.newest_seq()", NULL);
  const char *first = world->tenant;
  hook_add(world, receiver, "/first", NULL);
  hook_events(world, 0, 3);
  world_new_tenant(world, NULL);
  hook_add(world, receiver, "/second", NULL);
  hook_events(world, 0, 3); /* devices of the same names */
  wait_accepted("/first", 6);
  wait_accepted("/second", 6);
  receiver_check(receiver, "/first", &world->database, first, newest, NULL);
  receiver_check(receiver, "/second", &world->database, world->tenant, newest, NULL);
  world_control(world, "tenant", "delete", world->tenant, NULL);
  assert_string_equal(sql_text(&world->database, "SELECT tenant FROM presence.webhook", NULL), first);
  world->checked = world->begun; /* the tenant that the world's connection is for is gone */
}

/* ---- in worlds of their own */

static void test_paused_after_failing_for_too_long(void **state) {
  static const char *const environment[] = {HOOKS_ENVIRONMENT, "PRESENCE_WEBHOOK_PAUSE_AFTER_MS=300", NULL};
  start_receiver(state);
  struct world *world = world_start(state, &(struct world_options){.environment = environment});
  receiver_set(receiver, &(struct receiver_manner){.status = 500});
  const char *id = hook_add(world, receiver, "/x", NULL);
  hook_events(world, 0, 3);
  hook_wait_state(world, id, "paused failing");
  assert_string_equal(hook_column(world, id, "last_error, attempts > 1, failing_since IS NOT NULL, paused_at IS NOT NULL"),
                      "status 500 t t t");
  WAIT_UNTIL(presenced_logged(world->service, "event=webhook_paused"), 10000);
  assert_non_null(strstr(world_control(world, "webhook", "list", NULL), "failing"));
  receiver_set(receiver, &(struct receiver_manner){0});
  world_control(world, "webhook", "resume", id, NULL);
  wait_accepted("/x", 6);
  receiver_check(receiver, "/x", &world->database, world->tenant, 0, NULL);
  assert_string_equal(hook_column(world, id, "state, attempts, failing_since IS NULL"), "active 0 t");
  world_end(world);
}

/* Rows that it has not had are dropped: it is paused and says so; nothing is skipped unless somebody asks for that. */
static void test_a_position_older_than_the_retention(void **state) {
  static const char *const environment[] = {HOOKS_ENVIRONMENT, NULL};
  start_receiver(state);
  struct world *world = world_start(state, &(struct world_options){.environment = environment});
  hook_events(world, 0, 3);
  const char *id = hook_add(world, receiver, "/x", (const char *[]){"--start", "oldest", NULL});
  wait_accepted("/x", 6);
  world_control(world, "webhook", "pause", id, NULL);
  hook_settle(world, receiver);
  hook_events(world, 0, 3);
  PQclear(sql_query(&world->database, "DELETE FROM presence.outbox WHERE seq <= 8", NULL));
  PQclear(sql_query(&world->database, "SELECT presence.raise_horizon(8)", NULL));
  assert_string_equal(sql_text(&world->database, "SELECT kind, lost FROM presence.reader", NULL), "webhook t");
  struct outcome outcome = world_presencectl(world, "webhook", "resume", id, NULL);
  assert_int_equal(outcome.code, 1);
  assert_non_null(strstr(outcome.err, "older than what is kept: the oldest seq is 9"));
  PQclear(
      sql_query(&world->database, "UPDATE presence.webhook SET state = 'active', paused_reason = NULL, paused_at = NULL", NULL));
  hook_wait_state(world, id, "paused expired"); /* the worker finds out by itself too */
  assert_non_null(strstr(hook_column(world, id, "last_error"), "the oldest seq is 9"));
  world_control(world, "webhook", "replay", id, "--from", "9", NULL);
  world_control(world, "webhook", "resume", id, NULL);
  wait_accepted("/x", 10);
  assert_int_equal(world_presencectl(world, "webhook", "replay", id, "--from", "8", NULL).code, 1);
  world->checked = world->begun; /* rows are missing, on purpose */
}

/* Killed just after a receiver accepted, just after progress was saved, and at any moment. */
static void test_p2_nothing_is_lost_when_workers_are_killed(void **state) {
  static const char *const environment[] = {HOOKS_ENVIRONMENT, NULL};
  static const char *const places[] = {"webhook_delivered:1", "webhook_delivered:17", "webhook_saved:1", "webhook_saved:2", NULL};
  start_receiver(state);
  struct world *world = world_start(state, &(struct world_options){.roles = "api", .environment = environment});
  assert_int_equal(presenced_stop(world_process(world, "worker", NULL)), 0); /* Redis is adopted */
  presenced_wait_ready(world->service);
  receiver_set(receiver, &(struct receiver_manner){.fail_one_in = 5});
  hook_add(world, receiver, "/x", NULL);
  size_t events = 0;
  for (size_t i = 0; i < LENGTH(places); i++) {
    const char *const options[] = {places[i] != NULL ? text_format("PRESENCE_FAILPOINT=%s", places[i]) : NULL, NULL};
    struct presenced *worker = world_spawn(world, "worker", options);
    size_t before = receiver_accepted(receiver, "/x");
    hook_cause_events(world, 0, DEVICES);
    events += 2 * DEVICES;
    if (places[i] == NULL) {
      WAIT_UNTIL(receiver_accepted(receiver, "/x") > before + 3, 30000);
      presenced_kill(worker);
    }
    WAIT_UNTIL(!child_is_running(&worker->child), 30000);
    hook_end_leases(world);
  }
  world_process(world, "worker", NULL);
  wait_accepted("/x", events);
  receiver_check(receiver, "/x", &world->database, world->tenant, 0, NULL);
  world_end(world);
}

/* Two workers: one serves, the other takes over at once when it stops in order, and what was delivered is not sent again. */
static void test_another_worker_takes_over(void **state) {
  static const char *const environment[] = {HOOKS_ENVIRONMENT, NULL};
  start_receiver(state);
  struct world *world = world_start(state, &(struct world_options){.environment = environment});
  hook_add(world, receiver, "/x", NULL);
  struct presenced *first = world_process(world, "worker", NULL);
  hook_events(world, 0, DEVICES);
  wait_accepted("/x", 2 * DEVICES);
  const char *owner = sql_text(&world->database, "SELECT owner FROM presence.webhook", NULL);
  bool first_serves = strstr(owner, text_format("-%ld-", (long)first->child.pid)) != NULL;
  struct presenced *second = world_process(world, "worker", NULL);
  if (first_serves) {
    assert_int_equal(presenced_stop(first), 0);
  } else { /* the process with both roles: pause it instead, so that the API goes on afterwards */
    presenced_pause(world->service);
    hook_end_leases(world);
    WAIT_UNTIL(strcmp(sql_text(&world->database, "SELECT owner FROM presence.webhook", NULL), owner) != 0, 10000);
    presenced_resume(world->service);
  }
  hook_events(world, 0, DEVICES);
  wait_accepted("/x", 4 * DEVICES);
  receiver_check(receiver, "/x", &world->database, world->tenant, 0, NULL);
  assert_true(child_is_running(&second->child));
  world_end(world);
}

static struct pgbouncer pooler;

static int teardown_pooler(void **state) {
  int result = teardown(state);
  pgbouncer_stop(&pooler);
  return result;
}

static void test_through_pgbouncer(void **state) {
  static const char *const options[] = {HOOKS_ENVIRONMENT, NULL};
  if (!pgbouncer_is_here()) {
    print_message("skipped: there is no PgBouncer here (deploy/local/setup pgbouncer)\n");
    skip();
  }
  start_receiver(state);
  struct world *world = world_start(state, &(struct world_options){.no_service = true, .environment = options});
  pgbouncer_start(&pooler, &world->database);
  const char *environment[] = {text_format("PRESENCE_POSTGRES_URL=%s", pgbouncer_url(&pooler, &world->database)), NULL};
  world_talk_to(world, world_process(world, NULL, environment));
  hook_add(world, receiver, "/x", NULL);
  hook_events(world, 0, DEVICES);
  wait_accepted("/x", 2 * DEVICES);
  receiver_check(receiver, "/x", &world->database, world->tenant, 0, NULL);
  world_end(world);
}

int main(void) {
#define SHARED(name) cmocka_unit_test_setup_teardown(name, start_receiver, stop_receiver)
  const struct CMUnitTest shared[] = {
      SHARED(test_events_arrive_signed_and_in_order), SHARED(test_order_is_held_under_random_failures),
      SHARED(test_dead_endpoints_hold_up_no_other),   SHARED(test_retry_after_and_gone),
      SHARED(test_pause_resume_replay_remove),        SHARED(test_p7_a_webhook_has_its_tenants_events_only),
  };
  const struct CMUnitTest own[] = {
      cmocka_unit_test_teardown(test_paused_after_failing_for_too_long, teardown),
      cmocka_unit_test_teardown(test_a_position_older_than_the_retention, teardown),
      cmocka_unit_test_teardown(test_p2_nothing_is_lost_when_workers_are_killed, teardown),
      cmocka_unit_test_teardown(test_another_worker_takes_over, teardown),
      cmocka_unit_test_teardown(test_through_pgbouncer, teardown_pooler),
  };
  int failures = cmocka_run_group_tests(shared, start_world, world_teardown);
  return failures + cmocka_run_group_tests(own, NULL, NULL);
}
