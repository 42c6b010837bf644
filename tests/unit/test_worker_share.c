#include "support/unit.h"

#include "worker/share.h"

static void shares_of_all_workers_cover_every_partition(void **state) {
  (void)state;
  for (uint32_t partitions = 1; partitions <= 64; partitions++) {
    for (uint32_t workers = 1; workers <= 70; workers++) {
      uint32_t share = share_fair(partitions, workers);
      assert_true(share >= 1 && share <= partitions);
      assert_true((uint64_t)share * workers >= partitions);
      assert_true(share == 1 || (uint64_t)(share - 1) * workers < partitions);
    }
  }
  assert_int_equal(share_fair(8, 0), 8);
  assert_int_equal(share_fair(8, 3), 3);
  assert_int_equal(share_fair(8, INT64_MAX), 1);
}

static void below_its_share_a_worker_asks_for_all_that_may_be_free(void **state) {
  (void)state;
  const bool mine[4] = {false, true, false, false};
  enum lease_wish wishes[4];
  share_plan(mine, 4, 2, 0, wishes);
  for (size_t i = 0; i < 4; i++) assert_int_equal(wishes[i], LEASE_TAKE_OR_KEEP);
}

static void at_its_share_it_only_says_that_it_lives(void **state) {
  (void)state;
  const bool mine[4] = {false, true, true, false};
  enum lease_wish wishes[4];
  share_plan(mine, 4, 2, 0, wishes);
  assert_int_equal(wishes[0], LEASE_ONLY_MARK);
  assert_int_equal(wishes[1], LEASE_TAKE_OR_KEEP);
  assert_int_equal(wishes[2], LEASE_TAKE_OR_KEEP);
  assert_int_equal(wishes[3], LEASE_ONLY_MARK);
}

static void over_its_share_it_gives_up_what_comes_last_on_its_walk(void **state) {
  (void)state;
  const bool mine[4] = {true, true, true, true};
  enum lease_wish wishes[4];
  share_plan(mine, 4, 2, 3, wishes); /* the walk: 3, 0, 1, 2 */
  assert_int_equal(wishes[3], LEASE_TAKE_OR_KEEP);
  assert_int_equal(wishes[0], LEASE_TAKE_OR_KEEP);
  assert_int_equal(wishes[1], LEASE_GIVE_UP);
  assert_int_equal(wishes[2], LEASE_GIVE_UP);
}

enum { WORKERS_MOST = 8, PARTITIONS_MOST = 16 };
struct world {
  uint32_t partitions;
  int holder[PARTITIONS_MOST]; /* -1: free */
};

static uint32_t held_by(const struct world *world, uint32_t worker, bool *mine) {
  uint32_t held = 0;
  for (uint32_t i = 0; i < world->partitions; i++) {
    mine[i] = world->holder[i] == (int)worker;
    held += mine[i];
  }
  return held;
}

/* One round of a worker: what it wishes happens where it can; what is over its share goes back at once. */
static void act(struct world *world, uint32_t worker, uint32_t share) {
  bool mine[PARTITIONS_MOST];
  enum lease_wish wishes[PARTITIONS_MOST];
  do {
    held_by(world, worker, mine);
    share_plan(mine, world->partitions, share, worker * 5 % world->partitions, wishes);
    for (uint32_t i = 0; i < world->partitions; i++) {
      if (wishes[i] == LEASE_TAKE_OR_KEEP && world->holder[i] < 0) world->holder[i] = (int)worker;
      if (wishes[i] == LEASE_GIVE_UP && mine[i]) world->holder[i] = -1;
    }
  } while (held_by(world, worker, mine) > share);
}

/* Two rounds after a change of the number of workers, everything is served by fair shares. */
static void settles(uint32_t workers_before, uint32_t workers, uint32_t partitions) {
  struct world world = {.partitions = partitions};
  bool mine[PARTITIONS_MOST];
  for (uint32_t i = 0; i < partitions; i++) world.holder[i] = -1;
  for (uint32_t worker = 0; worker < workers_before; worker++) act(&world, worker, share_fair(partitions, workers_before));
  for (uint32_t i = 0; i < partitions; i++) {
    if (world.holder[i] >= (int)workers) world.holder[i] = -1; /* killed */
  }
  for (int round = 0; round < 2; round++) {
    for (uint32_t worker = 0; worker < workers; worker++) act(&world, worker, share_fair(partitions, workers));
  }
  for (uint32_t i = 0; i < partitions; i++) assert_true(world.holder[i] >= 0);
  for (uint32_t worker = 0; worker < workers; worker++) {
    assert_true(held_by(&world, worker, mine) <= share_fair(partitions, workers));
  }
}

static void workers_settle_on_fair_shares(void **state) {
  (void)state;
  for (uint32_t before = 1; before <= WORKERS_MOST; before++) {
    for (uint32_t workers = 1; workers <= WORKERS_MOST; workers++) {
      for (uint32_t partitions = 1; partitions <= PARTITIONS_MOST; partitions++) settles(before, workers, partitions);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shares_of_all_workers_cover_every_partition),
      cmocka_unit_test(below_its_share_a_worker_asks_for_all_that_may_be_free),
      cmocka_unit_test(at_its_share_it_only_says_that_it_lives),
      cmocka_unit_test(over_its_share_it_gives_up_what_comes_last_on_its_walk),
      cmocka_unit_test(workers_settle_on_fair_shares),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
