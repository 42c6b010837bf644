/* Batcher, encoder, link and hiredis: what a heartbeat allocates between its handler and its answer, once all has grown. */
#include "support/test.h"

#include "batcher.h"
#include "metrics.h"
#include "support/alloc_fail.h"
#include "support/stage.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* hiredis builds each reply anew (an array of five, two of them texts, two empty) and gives its output buffer back after each
 * write. That is all. */
enum { DEVICES = 8, WARM_ROUNDS = 200, ROUNDS = 1000, HIREDIS_MOST = 16 };

static struct stage stage;

static struct load {
  struct loop *loop;
  struct redis_link *link;
  struct batcher *batcher;
  struct batcher_entry entries[DEVICES];
  char names[DEVICES][16];
  size_t waiting, rounds, failed;
  long before, of_hiredis_before, after, of_hiredis_after;
  int64_t deadline_ms;
} load;

static long of_hiredis;

static void *count_malloc(size_t size) {
  of_hiredis++;
  return malloc(size);
}
static void *count_calloc(size_t count, size_t size) {
  of_hiredis++;
  return calloc(count, size);
}
static void *count_realloc(void *memory, size_t size) {
  of_hiredis++;
  return realloc(memory, size);
}
static char *count_strdup(const char *text) {
  of_hiredis++;
  return strdup(text);
}

static void on_done(struct batcher_entry *entry, enum status status, const struct record_outcome *outcome, int64_t now_ms) {
  (void)entry, (void)outcome, (void)now_ms;
  if (status != STATUS_OK) load.failed++;
  load.waiting--;
}

static void add_all(void) {
  for (size_t i = 0; i < DEVICES; i++) {
    load.entries[i] = (struct batcher_entry){.item = stage_item(&stage, load.names[i], 90000), .done = on_done};
    load.entries[i].item.want_detail = false;
    if (batcher_add(load.batcher, 0, &load.entries[i]) == STATUS_OK) load.waiting++;
  }
}

static int64_t after_pass(void *context) {
  (void)context;
  if (load.waiting == 0) {
    if (load.rounds == WARM_ROUNDS) {
      load.before = alloc_count();
      load.of_hiredis_before = of_hiredis;
    }
    if (load.rounds == WARM_ROUNDS + ROUNDS) {
      load.after = alloc_count();
      load.of_hiredis_after = of_hiredis;
      loop_stop(load.loop);
    } else {
      add_all();
      if (load.waiting > 0) load.rounds++; /* else the link is not connected yet */
    }
  }
  if (wait_now_ms() > load.deadline_ms) loop_stop(load.loop);
  int64_t sleep_us = batcher_after_pass(load.batcher);
  return sleep_us < 2000 ? sleep_us : 2000;
}

static void test_a_renewal_allocates_only_its_reply(void **state) {
  (void)state;
  hiredisAllocFuncs counting = {
      .mallocFn = count_malloc, .callocFn = count_calloc, .reallocFn = count_realloc, .strdupFn = count_strdup, .freeFn = free};
  assert_int_equal(metrics_init(), STATUS_OK);
  load = (struct load){0};
  for (size_t i = 0; i < DEVICES; i++) {
    snprintf(load.names[i], sizeof load.names[i], "d%zu", i);
    stage_beat(&stage, load.names[i], 90000);
  }
  hiredisSetAllocators(&counting);
  struct batcher_options options = {.outage_ms = 200,
                                    .settle_ms = 5000,
                                    .backlog_cap = 100000,
                                    .listener = STR_LIT("loop"),
                                    .queue_max = 1000,
                                    .wait_max_ms = 600000};
  assert_int_equal(loop_new(clock_system(), &load.loop), STATUS_OK);
  assert_int_equal(redis_link_new(stage.target, load.loop, 30000, &load.link), STATUS_OK);
  assert_int_equal(batcher_new(stage.target, load.link, load.loop, &options, &load.batcher), STATUS_OK);
  loop_set_after_pass(load.loop, after_pass, NULL);
  load.deadline_ms = wait_now_ms() + wait_limit_ms(30000);
  assert_int_equal(loop_run(load.loop), STATUS_OK);
  batcher_free(load.batcher);
  redis_link_free(load.link);
  loop_free(load.loop);
  hiredisResetAllocators();
  metrics_free();

  assert_int_equal(load.rounds, WARM_ROUNDS + ROUNDS);
  assert_int_equal(load.failed, 0);
  long hiredis = load.of_hiredis_after - load.of_hiredis_before;
  assert_int_equal(load.after - load.before - hiredis, 0);
  print_message("allocations of hiredis for a call with %d heartbeats: %.2f\n", DEVICES, (double)hiredis / ROUNDS);
  assert_true(hiredis <= (long)ROUNDS * HIREDIS_MOST);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_a_renewal_allocates_only_its_reply),
};

STAGE_MAIN(stage, tests)
