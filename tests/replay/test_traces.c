/* Two recordings of real battery sensors (radio loss, duplicate receptions) go through the whole service, message by message over
 * HTTP, with Redis's clock standing still at each message's time. Every silence longer than the timeout must end a session, to
 * the millisecond, and nothing else may. */
#include "support/test.h"

#include "support/scratch.h"
#include "support/trace.h"
#include "support/world.h"

#include <stdlib.h>
#include <string.h>

/* Jumps between messages are no outages, in wall time of 2006. */
static const char *const environment[] = {"PRESENCE_OUTAGE_MS=86400000", NULL};

static void replay(struct world *world, const struct trace *trace, int64_t timeout_ms) {
  const char *body = text_format("{\"ttl_ms\":%lld}", (long long)timeout_ms);
  const char *paths[TRACE_NODES_MAX];
  for (unsigned node = 0; node < TRACE_NODES_MAX; node++)
    paths[node] = device_path(world, text_format("node-%u", node), "/heartbeat");
  for (size_t i = 0; i < trace->count; i++) {
    world_set_clock(world, trace->messages[i].at_ms);
    expect_status(world->client, 204, "POST", paths[trace->messages[i].node], body);
  }
  world_move_clock(world, timeout_ms + 1);
}

static void check_node(struct world *world, const struct trace *trace, unsigned node, int64_t timeout_ms) {
  char *wanted = trace_history(trace, node, timeout_ms);
  const char *seen =
      sql_text(&world->database,
               "SELECT string_agg((payload->>'online_since_ms') || '-' || (payload->>'offline_at_ms'), ' ' ORDER BY seq)"
               " FROM presence.outbox WHERE tenant = $1 AND device = $2 AND type = 'presence.device.offline'",
               world->tenant, text_format("node-%u", node), NULL);
  assert_string_equal(seen, wanted);
  free(wanted);
}

static void check_trace(void **state, const char *name, int64_t timeout_ms, unsigned nodes, size_t gaps) {
  const char *path = place_shared(text_format("traces/%s", name));
  if (path == NULL) {
    print_message("skipped: no traces/%s in the shared test data (PRESENCE_SHARED)\n", name);
    skip();
  }
  struct trace trace = trace_read(path);
  assert_int_equal(trace.nodes, nodes);
  assert_int_equal(trace_gaps(&trace, timeout_ms), gaps);
  struct world *world =
      world_start(state, &(struct world_options){.clock_ms = trace.messages[0].at_ms - 1000, .environment = environment});
  replay(world, &trace, timeout_ms);
  int64_t sessions = (int64_t)(nodes + gaps), offline = 0;
  WAIT_UNTIL_TEXT((offline = history_count(&world->database, "offline")) >= sessions, 20000,
                  text_format("%lld", (long long)offline));
  world_drain(world);
  assert_int_equal(history_count(&world->database, "offline"), sessions);
  assert_int_equal(history_count(&world->database, "online"), sessions);
  for (unsigned node = 0; node < TRACE_NODES_MAX; node++) check_node(world, &trace, node, timeout_ms);
  trace_free(&trace);
  world_end(world);
}

static void test_library1_with_90_s(void **state) { check_trace(state, "library1_messages.csv.gz", 90000, 19, 657); }
static void test_library1_with_150_s(void **state) { check_trace(state, "library1_messages.csv.gz", 150000, 19, 53); }
static void test_library2_with_90_s(void **state) { check_trace(state, "library2_messages.csv.gz", 90000, 20, 125); }
static void test_library2_with_150_s(void **state) { check_trace(state, "library2_messages.csv.gz", 150000, 20, 20); }

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_library2_with_90_s, world_teardown),
      cmocka_unit_test_teardown(test_library2_with_150_s, world_teardown),
      cmocka_unit_test_teardown(test_library1_with_90_s, world_teardown),
      cmocka_unit_test_teardown(test_library1_with_150_s, world_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
