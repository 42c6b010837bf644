/* bench_webhooks: how many events a second a worker delivers, to one webhook and to ten at once. A private Redis, PostgreSQL
 * (which does not wait for the disk), an API process and a worker; the receiver is in this program, checks each signature and
 * body and answers at once. EVENTS=10000 for each webhook.
 *
 *   make bench-webhooks */
#include "support/test.h"

#include "support/fleet.h"
#include "support/hooks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct receiver *receiver;

static int64_t number_from(const char *variable, int64_t absent) {
  const char *text = getenv(variable);
  return text != NULL ? strtoll(text, NULL, 10) : absent;
}

static const char *path_of(int webhooks, int i) { return text_format("/%d-%d", webhooks, i); }

static bool have_all(int webhooks, int64_t events) {
  for (int i = 0; i < webhooks; i++)
    if ((int64_t)receiver_came(receiver, path_of(webhooks, i)) < events) return false;
  return true;
}

/* Of the process so far, in us: what other jobs on the machine do not change. */
static int64_t cpu_us(const struct presenced *process) {
  char line[512] = "";
  FILE *file = fopen(text_format("/proc/%d/stat", (int)process->child.pid), "re");
  long long user = 0, system = 0;
  assert_non_null(file);
  assert_non_null(fgets(line, sizeof line, file));
  (void)fclose(file);
  const char *state = strrchr(line, ')'); /* proc(5): fields 14 and 15 */
  assert_non_null(state);
  // NOLINTNEXTLINE(cert-err34-c): the kernel writes them
  assert_int_equal(sscanf(state + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lld %lld", &user, &system), 2);
  return (user + system) * 1000000 / sysconf(_SC_CLK_TCK);
}

/* From the start of a worker, which finds everything waiting, to the last event's arrival. */
static void measure(struct world *world, int webhooks, int64_t events) {
  for (int i = 0; i < webhooks; i++)
    (void)hook_add(world, receiver, path_of(webhooks, i), (const char *[]){"--start", "oldest", NULL});
  int64_t begun_ms = wait_now_ms();
  struct presenced *worker = world_process(world, "worker", NULL);
  while (!have_all(webhooks, events)) wait_pause();
  int64_t took_ms = wait_now_ms() - begun_ms;
  int64_t all = events * webhooks;
  double load = 0;
  (void)getloadavg(&load, 1);
  printf("%2d webhook%s %8lld events %7lld ms %8lld events/s %6.1f us of CPU each; load average %.1f\n", webhooks,
         webhooks == 1 ? " " : "s", (long long)all, (long long)took_ms, (long long)(all * 1000 / (took_ms > 0 ? took_ms : 1)),
         (double)cpu_us(worker) / (double)all, load);
  fflush(stdout);
  assert_int_equal(presenced_stop(worker), 0);
  PQclear(sql_query(&world->database, "DELETE FROM presence.webhook", NULL));
}

static void bench(void **state) {
  static const char *const environment[] = {HOOKS_ENVIRONMENT, NULL};
  int64_t events = number_from("EVENTS", 10000);
  receiver = receiver_start(NULL, NULL);
  struct world *world = world_start(state, &(struct world_options){.roles = "api", .environment = environment});
  struct presenced *first = world_process(world, "worker", NULL);
  presenced_wait_ready(world->service);
  for (int done = 0; done < events; done += FLEET_BATCH) fleet_beat(world, done, FLEET_BATCH, 3600000);
  world_drain(world);
  assert_int_equal(presenced_stop(first), 0);
  measure(world, 1, events);
  measure(world, 10, events);
  world->checked = world->begun;
  receiver_stop(receiver);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(bench, world_teardown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
