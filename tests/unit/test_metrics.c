#include "support/unit.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "metrics.h"
#include "support/alloc_fail.h"

static struct buf text;

static int start(void **state) {
  (void)state;
  return metrics_init() == STATUS_OK ? 0 : -1;
}
static int stop(void **state) {
  (void)state;
  metrics_free();
  buf_free(&text);
  return 0;
}

static const char *rendered(void) {
  buf_clear(&text);
  assert_status(STATUS_OK, metrics_render(&text));
  return buf_text(&text);
}
#define assert_line(line) assert_non_null(strstr(rendered(), "\n" line "\n"))
#define assert_no_line(start) assert_null(strstr(rendered(), "\n" start))

static void a_metric_without_labels_stands_at_zero(void **state) {
  (void)state;
  assert_line("# HELP presence_postgres_up 1 while PostgreSQL answers.");
  assert_line("# TYPE presence_postgres_up gauge");
  assert_line("presence_postgres_up 0");
  assert_line("presence_http_request_seconds_bucket{le=\"+Inf\"} 0");
  assert_line("# TYPE presence_heartbeats_total counter");
  assert_no_line("presence_heartbeats_total{");
  assert_null(strstr(rendered(), "overflow"));
  assert_int_equal(text.data[text.len - 1], '\n');
}

static void values_add_and_set(void **state) {
  (void)state;
  struct metric_series *series = metrics_series(METRIC_HEARTBEATS, "ok");
  metric_add(series, 2);
  metric_add(series, 3);
  assert_ptr_equal(series, metrics_series(METRIC_HEARTBEATS, "ok"));
  assert_ptr_not_equal(series, metrics_series(METRIC_HEARTBEATS, "no"));
  assert_line("presence_heartbeats_total{result=\"ok\"} 5");
  assert_line("presence_heartbeats_total{result=\"no\"} 0");
  struct metric_series *gauge = metrics_series(METRIC_PUBLISH_LAG);
  metric_set(gauge, 0.1);
  assert_line("presence_publish_lag_seconds 0.1");
  metric_set(gauge, 1.0 / 3);
  assert_line("presence_publish_lag_seconds 0.33333333333333331");
  metric_set(gauge, -9007199254740992.0);
  assert_line("presence_publish_lag_seconds -9007199254740992");
  metric_set(gauge, 1e300);
  assert_line("presence_publish_lag_seconds 1e+300");
  metric_set(gauge, NAN);
  assert_line("presence_publish_lag_seconds NaN");
  metric_set(gauge, INFINITY);
  assert_line("presence_publish_lag_seconds +Inf");
  metric_set(gauge, 5);
  metric_add(gauge, -7);
  assert_true(metric_value(gauge) == -2);
  metric_add_seconds(metrics_series(METRIC_DEAF_SECONDS), 0.25);
  assert_line("presence_deaf_seconds_total 0.25");
}

static void labels_are_escaped_and_never_confused(void **state) {
  (void)state;
  metric_add(metrics_series(METRIC_HTTP_REQUESTS, "a\"\\\nb", "200"), 1);
  assert_line("presence_http_requests_total{route=\"a\\\"\\\\\\nb\",status=\"200\"} 1");
  metric_add(metrics_series(METRIC_HTTP_REQUESTS, "x\",status=\"1", "2"), 7);
  metric_add(metrics_series(METRIC_HTTP_REQUESTS, "x", "1"), 3);
  assert_line("presence_http_requests_total{route=\"x\",status=\"1\"} 3");
  metric_add(metrics_series(METRIC_HTTP_REQUESTS, "", ""), 1);
  assert_line("presence_http_requests_total{route=\"\",status=\"\"} 1");
}

static void histograms_are_cumulative(void **state) {
  (void)state;
  struct metric_series *sizes = metrics_series(METRIC_BATCH_SIZE);
  static const double values[] = {1, 1.5, 2, 500, 1000, 1001, 1e9};
  for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) metric_observe(sizes, values[i]);
  assert_line("presence_batch_size_bucket{le=\"1\"} 1");
  assert_line("presence_batch_size_bucket{le=\"2\"} 3");
  assert_line("presence_batch_size_bucket{le=\"200\"} 3");
  assert_line("presence_batch_size_bucket{le=\"500\"} 4");
  assert_line("presence_batch_size_bucket{le=\"1000\"} 5");
  assert_line("presence_batch_size_bucket{le=\"+Inf\"} 7");
  assert_line("presence_batch_size_count 7");
  assert_line("presence_batch_size_sum 1000002505.5");
  assert_true(metric_value(sizes) == 7);
  metric_observe(sizes, NAN); /* counted, but in no bucket with a bound */
  assert_line("presence_batch_size_bucket{le=\"1000\"} 5");
  assert_line("presence_batch_size_bucket{le=\"+Inf\"} 8");
}

static void series_are_bounded(void **state) {
  (void)state;
  char name[32];
  for (int i = 0; i < METRICS_SERIES_MAX; i++) {
    snprintf(name, sizeof name, "t%d", i);
    metric_set(metrics_series(METRIC_ONLINE, name), i);
  }
  assert_null(strstr(rendered(), "overflow"));
  struct metric_series *over = metrics_series(METRIC_ONLINE, "one-more");
  assert_ptr_equal(over, metrics_series(METRIC_ONLINE, "another"));
  metric_set(over, 9);
  assert_line("presence_online{tenant=\"overflow\"} 9");
  assert_line("presence_online{tenant=\"t1999\"} 1999");
  metrics_remove(METRIC_ONLINE, "t7"); /* makes room */
  assert_ptr_not_equal(over, metrics_series(METRIC_ONLINE, "one-more"));
  assert_ptr_equal(over, metrics_series(METRIC_ONLINE, "t7"));
}

static void removed_series_vanish_and_come_back_empty(void **state) {
  (void)state;
  struct metric_series *kept = metrics_series(METRIC_ONLINE, "ab");
  struct metric_series *gone = metrics_series(METRIC_ONLINE, "a");
  metric_set(kept, 1);
  metric_set(gone, 2);
  metrics_remove(METRIC_ONLINE, "a");
  metrics_remove(METRIC_ONLINE, "a");
  metrics_remove(METRIC_ONLINE, "unknown");
  metric_set(gone, 3);
  assert_no_line("presence_online{tenant=\"a\"}");
  assert_line("presence_online{tenant=\"ab\"} 1");
  assert_ptr_equal(gone, metrics_series(METRIC_ONLINE, "a"));
  assert_line("presence_online{tenant=\"a\"} 0");
  metric_add(metrics_series(METRIC_TRANSITIONS, "x", "1"), 1);
  metric_add(metrics_series(METRIC_TRANSITIONS, "x", "2"), 1);
  metric_add(metrics_series(METRIC_TRANSITIONS, "y", "2"), 1);
  metrics_remove(METRIC_TRANSITIONS, "x");
  assert_no_line("presence_transitions_total{type=\"x\"");
  assert_line("presence_transitions_total{type=\"y\",reason=\"2\"} 1");
}

enum { THREADS = 4, ROUNDS = 50000 };
static void *hammer(void *context) {
  (void)context;
  struct metric_series *counter = metrics_series(METRIC_HEARTBEATS, "ok");
  struct metric_series *sizes = metrics_series(METRIC_BATCH_SIZE);
  for (int i = 0; i < ROUNDS; i++) {
    metric_add(counter, 1);
    metric_observe(sizes, 3);
  }
  return NULL;
}

static void threads_lose_nothing(void **state) {
  (void)state;
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, hammer, NULL), 0);
  rendered();
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  assert_line("presence_heartbeats_total{result=\"ok\"} 200000");
  assert_line("presence_batch_size_count 200000");
  assert_line("presence_batch_size_sum 600000");
}

static bool init_once(void *context) {
  (void)context;
  enum status status = metrics_init();
  metrics_free();
  return status == STATUS_OK;
}

static void failed_allocations_end_in_the_overflow_series(void **state) {
  (void)state;
  int failures = 0;
  for (;; failures++) {
    alloc_fail_at(failures + 1);
    struct metric_series *series = metrics_series(METRIC_HEARTBEATS, "ok"); /* never NULL */
    bool failed = alloc_failed();
    alloc_fail_at(0);
    metric_add(series, 1);
    if (!failed) break;
  }
  assert_true(failures >= 2);
  char line[80];
  snprintf(line, sizeof line, "\npresence_heartbeats_total{result=\"overflow\"} %d\n", failures);
  assert_non_null(strstr(rendered(), line));
  assert_line("presence_heartbeats_total{result=\"ok\"} 1");
  metrics_free();
  assert_true(alloc_fail_sweep(init_once, NULL) > METRIC_COUNT);
  assert_status(STATUS_OK, metrics_init());
}

static void the_table_names_every_metric(void **state) {
  (void)state;
  struct buf table = {0};
  assert_status(STATUS_OK, metrics_markdown(&table));
  const char *markdown = buf_text(&table);
  assert_non_null(strstr(markdown, "\n| `presence_http_requests_total{route,status}` | counter | HTTP requests answered. |\n"));
  int rows = 0;
  for (const char *at = markdown; (at = strchr(at, '\n')) != NULL; at++) rows++;
  assert_int_equal(rows, METRIC_COUNT + 2);
  buf_free(&table);
}

int main(void) {
#define STARTED(test) cmocka_unit_test_setup_teardown(test, start, stop)
  const struct CMUnitTest tests[] = {
      STARTED(a_metric_without_labels_stands_at_zero),
      STARTED(values_add_and_set),
      STARTED(labels_are_escaped_and_never_confused),
      STARTED(histograms_are_cumulative),
      STARTED(series_are_bounded),
      STARTED(removed_series_vanish_and_come_back_empty),
      STARTED(threads_lose_nothing),
      STARTED(failed_allocations_end_in_the_overflow_series),
      STARTED(the_table_names_every_metric),
  };
  return cmocka_run_group_tests_name("metrics", tests, NULL, NULL);
}
