/* bench_reads: how long a page of the list takes, and the other questions, for a tenant of 100,000 devices (DEVICES=n). One
 * client, one question after the other, the whole tenant walked; a private Redis, PostgreSQL and presenced. Fails where the 99th
 * percentile of any kind of page is over its limit (LIMIT_MS=20).
 *
 *   make bench-reads */
#include "support/test.h"

#include "support/fleet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { SAMPLES_MAX = 4096, OFFLINE_SHARE = 10 };

struct samples {
  int64_t us[SAMPLES_MAX];
  size_t count, devices;
};

static int64_t now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * INT64_C(1000000) + now.tv_nsec / 1000;
}

static int by_value(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return (x > y) - (x < y);
}

static double ms_at(const struct samples *samples, size_t per_thousand) {
  size_t at = (samples->count - 1) * per_thousand / 1000;
  return (double)samples->us[at] / 1000;
}

static double report(const char *name, struct samples *samples) {
  qsort(samples->us, samples->count, sizeof samples->us[0], by_value);
  printf("%-28s %6zu answers %8zu devices   p50 %6.2f ms   p99 %6.2f ms   max %6.2f ms\n", name, samples->count, samples->devices,
         ms_at(samples, 500), ms_at(samples, 990), ms_at(samples, 1000));
  fflush(stdout);
  return ms_at(samples, 990);
}

static json_t *timed(struct world *world, struct samples *samples, const char *method, const char *path, const char *body) {
  int64_t start_us = now_us();
  const struct response *response = client_call(world->client, method, path, body);
  int64_t took_us = now_us() - start_us;
  assert_int_equal(response->status, 200);
  if (samples->count < SAMPLES_MAX) samples->us[samples->count++] = took_us;
  return json_loadb(response->body, response->body_length, 0, NULL);
}

static double walk(struct world *world, const char *query) {
  struct samples samples = {0};
  const char *cursor = "";
  while (cursor != NULL) {
    json_t *page = timed(world, &samples, "GET", tenant_path(world, text_format("/devices?%s%s", query, cursor)), NULL);
    const char *next = json_string_value(json_object_get(page, "next"));
    samples.devices += json_array_size(json_object_get(page, "devices"));
    cursor = next != NULL ? text_format("&cursor=%s", next) : NULL;
    json_decref(page);
  }
  return report(query, &samples);
}

static double ask_again(struct world *world, const char *name, const char *method, const char *path, const char *body) {
  struct samples samples = {0};
  for (int i = 0; i < 500; i++) {
    json_t *answer = timed(world, &samples, method, path, body);
    samples.devices += json_array_size(json_object_get(answer, "devices"));
    json_decref(answer);
  }
  return report(name, &samples);
}

static double query_thousand(struct world *world, int64_t devices) {
  char *body = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&body, &length);
  assert_non_null(out);
  for (int i = 0; i < 1000; i++) fprintf(out, "%s\"d%lld\"", i > 0 ? "," : "{\"devices\":[", (long long)(i * 7919 % devices));
  fputs("]}", out);
  fclose(out);
  double p99_ms = ask_again(world, "query of 1000", "POST", tenant_path(world, "/devices/query"), body);
  free(body);
  return p99_ms;
}

static int64_t number_from(const char *variable, int64_t absent) {
  const char *text = getenv(variable);
  return text != NULL ? strtoll(text, NULL, 10) : absent;
}

static void bench(void **state) {
  struct world *world = world_start(state, &(struct world_options){0});
  int64_t devices = number_from("DEVICES", 100000), limit_ms = number_from("LIMIT_MS", 20);
  int offline = (int)devices / OFFLINE_SHARE;
  fleet_beat(world, 0, (int)devices - offline, 3600000);
  fleet_beat(world, (int)devices - offline, offline, 1000);
  WAIT_UNTIL(sql_integer(&world->database, "SELECT count(*) FROM presence.device WHERE state = 'offline'", NULL) == offline,
             120000);
  static const char *const queries[] = {"limit=100",
                                        "limit=1000",
                                        "state=online&limit=100",
                                        "state=online&limit=1000",
                                        "state=offline&limit=100",
                                        "state=unknown&limit=100",
                                        "prefix=d9&limit=100"};
  double worst_ms = 0;
  for (size_t i = 0; i < LENGTH(queries); i++) {
    double p99_ms = walk(world, queries[i]);
    if (p99_ms > worst_ms) worst_ms = p99_ms;
  }
  (void)query_thousand(world, devices);
  (void)ask_again(world, "one device", "GET", device_path(world, "d1", ""), NULL);
  (void)ask_again(world, "counts", "GET", tenant_path(world, "/counts"), NULL);
  (void)ask_again(world, "history", "GET", device_path(world, "d1", "/history"), NULL);
  printf("worst p99 of a page: %.2f ms, limit %lld ms\n", worst_ms, (long long)limit_ms);
  assert_true(worst_ms <= (double)limit_ms);
  world_end(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test_teardown(bench, world_teardown)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
