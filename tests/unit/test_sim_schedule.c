#include "support/unit.h"

#include "support/alloc_fail.h"
#include "tools/sim_schedule.h"

static struct sim_schedule schedule;

static void start(const struct sim_schedule_plan *plan, int64_t now_us) {
  assert_status(STATUS_OK, sim_schedule_new(&schedule, plan, now_us));
}

static int stop(void **state) {
  (void)state;
  sim_schedule_free(&schedule);
  return 0;
}

static void heartbeats_are_spread_over_the_interval(void **state) {
  (void)state;
  start(&(struct sim_schedule_plan){.devices = 4, .interval_ms = 1000, .ttl_ms = 3000}, 5000000);
  uint32_t device = 0;
  for (int turn = 0; turn < 12; turn++) {
    int64_t due_us = 5000000 + turn * 250000;
    assert_int_equal(sim_schedule_due_us(&schedule), due_us);
    assert_false(sim_schedule_take(&schedule, due_us - 1, &device));
    assert_true(sim_schedule_take(&schedule, due_us, &device));
    assert_int_equal(device, turn % 4);
  }
  assert_int_equal(schedule.missed, 0);
}

static void late_turns_are_made_up_for_once(void **state) {
  (void)state;
  start(&(struct sim_schedule_plan){.devices = 2, .interval_ms = 1000, .ttl_ms = 3000}, 0);
  uint32_t device = 0;
  int taken = 0;
  while (sim_schedule_take(&schedule, 10200000, &device)) taken++;
  /* Both late ones of the first round, one each of the rounds skipped to; the turns between are missed. */
  assert_int_equal(taken, 3);
  assert_int_equal(schedule.missed, 2 * 9);
  assert_int_equal(sim_schedule_due_us(&schedule), 10500000);
}

static void without_an_interval_everyone_is_always_due(void **state) {
  (void)state;
  start(&(struct sim_schedule_plan){.devices = 3, .ttl_ms = 3000}, 0);
  uint32_t device = 0;
  for (int turn = 0; turn < 100; turn++) {
    assert_true(sim_schedule_take(&schedule, 0, &device));
    assert_int_equal(device, turn % 3);
  }
}

/* 1,000 devices over an hour of simulated time: the share that leaves is the one asked for, and all come back. */
static void churn_sends_away_and_brings_back(void **state) {
  (void)state;
  enum { DEVICES = 1000, MINUTES = 60 };
  start(&(struct sim_schedule_plan){.devices = DEVICES, .interval_ms = 10000, .ttl_ms = 30000, .churn = 5, .seed = 42}, 0);
  static int64_t last_us[DEVICES];
  int64_t left = 0;
  for (int64_t now_us = 0; now_us < MINUTES * INT64_C(60000000); now_us += 10000) {
    uint32_t device = 0;
    while (sim_schedule_take(&schedule, now_us, &device)) {
      int64_t silence_us = now_us - last_us[device];
      if (last_us[device] > 0 && silence_us > 15000000) {
        left++;
        assert_true(silence_us >= 60000000 && silence_us <= 150000000); /* 2 to 4 ttl, and up to three intervals around */
      }
      last_us[device] = now_us;
    }
  }
  /* 5 % of those present a minute: about 2,800 of 1,000 × 60 × 0.05 = 3,000, since some are away. */
  assert_true(left > 2300 && left < 3000);
}

static void the_seed_decides_who_leaves(void **state) {
  (void)state;
  uint64_t sums[3] = {0};
  for (int run = 0; run < 3; run++) {
    start(
        &(struct sim_schedule_plan){.devices = 100, .interval_ms = 1000, .ttl_ms = 3000, .churn = 100, .seed = run == 2 ? 8 : 7},
        0);
    uint32_t device = 0;
    for (int64_t now_us = 0; now_us < 60000000; now_us += 1000)
      while (sim_schedule_take(&schedule, now_us, &device)) sums[run] = sums[run] * 31 + device;
    sim_schedule_free(&schedule);
  }
  assert_true(sums[0] == sums[1]);
  assert_true(sums[0] != sums[2]);
}

static void online_is_who_was_heard_within_the_ttl(void **state) {
  (void)state;
  start(&(struct sim_schedule_plan){.devices = 3, .interval_ms = 1000, .ttl_ms = 3000}, 0);
  assert_int_equal(sim_schedule_online(&schedule, 0), 0);
  sim_schedule_heard(&schedule, 0, 1000000);
  sim_schedule_heard(&schedule, 1, 2000000);
  sim_schedule_heard(&schedule, 1, 1500000); /* answered later, sent earlier */
  assert_int_equal(sim_schedule_online(&schedule, 4000000), 2);
  assert_int_equal(sim_schedule_online(&schedule, 4000001), 1);
  assert_int_equal(sim_schedule_online(&schedule, 5000000), 1);
  assert_int_equal(sim_schedule_online(&schedule, 5000001), 0);
}

static bool make_schedule(void *context) {
  (void)context;
  struct sim_schedule made;
  enum status status = sim_schedule_new(&made, &(struct sim_schedule_plan){.devices = 3, .ttl_ms = 3000}, 0);
  sim_schedule_free(&made);
  return status == STATUS_OK;
}

static void creation_survives_failed_allocations(void **state) {
  (void)state;
  assert_int_equal(alloc_fail_sweep(make_schedule, NULL), 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(heartbeats_are_spread_over_the_interval, stop),
      cmocka_unit_test_teardown(late_turns_are_made_up_for_once, stop),
      cmocka_unit_test_teardown(without_an_interval_everyone_is_always_due, stop),
      cmocka_unit_test_teardown(churn_sends_away_and_brings_back, stop),
      cmocka_unit_test_teardown(the_seed_decides_who_leaves, stop),
      cmocka_unit_test_teardown(online_is_who_was_heard_within_the_ttl, stop),
      cmocka_unit_test(creation_survives_failed_allocations),
  };
  return cmocka_run_group_tests_name("sim_schedule", tests, NULL, NULL);
}
