/* bench_outbox: a burst of 50,000 transitions (ROWS=n) from Redis to a consumer that polls, and how fast each part is by itself:
 * the append, a named consumer, competing workers. A private Redis, PostgreSQL (which does not wait for the disk) and presenced.
 * Fails where the burst takes longer than LIMIT_MS=3000.
 *
 *   make bench-outbox */
#include "support/test.h"

#include "outbox.h"
#include "support/fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAGE = 1000 };

static int64_t number_from(const char *variable, int64_t absent) {
  const char *text = getenv(variable);
  return text != NULL ? strtoll(text, NULL, 10) : absent;
}

static void report(const char *name, int64_t rows, int64_t took_ms) {
  printf("%-52s %8lld rows %7lld ms %9lld rows/s\n", name, (long long)rows, (long long)took_ms,
         (long long)(rows * 1000 / (took_ms > 0 ? took_ms : 1)));
  fflush(stdout);
}

/* Reads one page with the named consumer, all its columns, and commits: how many rows. */
static int poll_page(struct database *database) {
  PQclear(sql_query(database, "BEGIN", NULL));
  PGresult *rows = sql_query(database, "SELECT * FROM presence.poll('c', 1000)", NULL);
  int count = PQntuples(rows);
  if (count > 0) PQclear(sql_query(database, "SELECT presence.commit('c', $1)", PQgetvalue(rows, count - 1, 0), NULL));
  PQclear(rows);
  PQclear(sql_query(database, "COMMIT", NULL));
  return count;
}

static void poll_until(struct database *database, int64_t rows) {
  for (int64_t read = 0; read < rows;) {
    int count = poll_page(database);
    read += count;
    if (count == 0) wait_pause();
  }
}

static int64_t claim_until(struct database *database, int64_t rows) {
  int64_t begun_ms = wait_now_ms();
  for (int64_t done = 0; done < rows;) {
    const char *seqs = sql_text(database, "SELECT array_agg(seq) FROM presence.claim('g', 500, '1 minute')", NULL);
    done += sql_integer(database, "SELECT presence.ack('g', $1)", seqs, NULL);
  }
  return wait_now_ms() - begun_ms;
}

/* New devices while the worker stands still: their transitions wait in Redis. Then it goes on, and a consumer reads them. */
static int64_t burst(struct world *world, int64_t rows) {
  struct presenced *worker = world_process(world, "worker", NULL);
  presenced_pause(worker);
  fleet_beat(world, 0, (int)rows, 3600000);
  int64_t begun_ms = wait_now_ms();
  presenced_resume(worker);
  poll_until(&world->database, rows);
  return wait_now_ms() - begun_ms;
}

static int64_t append_rows(struct world *world, int64_t rows) {
  static char names[PAGE][24];
  struct transition entries[PAGE];
  struct pg_client *client;
  struct outbox_counts counts;
  assert_int_equal(pg_client_new(world->database.url, "bench", clock_system(), &client), STATUS_OK);
  int64_t begun_ms = wait_now_ms();
  for (int64_t from = 0; from < rows; from += PAGE) {
    for (int64_t i = 0; i < PAGE; i++) {
      (void)snprintf(names[i], sizeof names[i], "x%lld", (long long)((from + i) * 7919 % rows));
      entries[i] = (struct transition){.type = TRANSITION_ONLINE,
                                       .tenant = str_from(world->tenant),
                                       .device = str_from(names[i]),
                                       .session = {from + 1, 0},
                                       .online_since_ms = from + 1,
                                       .ttl_ms = 1000,
                                       .last_seen_ms = from + 1,
                                       .offline_at_ms = TIME_MS_LOST,
                                       .detected_at_ms = from + 1};
    }
    assert_int_equal(outbox_append(client, 900, entries, PAGE, &counts), STATUS_OK);
  }
  int64_t took_ms = wait_now_ms() - begun_ms;
  pg_client_free(client);
  return took_ms;
}

static void bench(void **state) {
  struct world *world = world_start(state, &(struct world_options){.roles = "api"});
  struct database *database = &world->database;
  int64_t rows = number_from("ROWS", 50000), limit_ms = number_from("LIMIT_MS", 3000);
  PQclear(sql_query(database, "SELECT presence.create_consumer('c', 'oldest'), presence.create_group('g', 'oldest')", NULL));
  int64_t burst_ms = burst(world, rows);
  report("burst: Redis, publisher, outbox, polling consumer", rows, burst_ms);
  PQclear(sql_query(database, "SELECT presence.seek('c', 0)", NULL));
  int64_t begun_ms = wait_now_ms();
  poll_until(database, rows);
  report("poll and commit, pages of 1000", rows, wait_now_ms() - begun_ms);
  report("claim and ack, one worker, 500 at a time", rows, claim_until(database, rows));
  report("append, one publisher, batches of 1000", rows, append_rows(world, rows));
  double load = 0;
  (void)getloadavg(&load, 1);
  printf("burst: %lld ms, limit %lld ms; load average %.1f\n", (long long)burst_ms, (long long)limit_ms, load);
  assert_true(burst_ms <= limit_ms);
  PQclear(sql_query(database, "DELETE FROM presence.outbox WHERE device LIKE 'x%'", NULL)); /* Redis knows nothing of these */
  PQclear(sql_query(database, "DELETE FROM presence.device WHERE device LIKE 'x%'", NULL));
  world_end(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(bench, world_teardown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
