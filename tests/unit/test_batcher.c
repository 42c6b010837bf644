/* What the batcher does with heartbeats, failures, marks and its end; test_batcher_waves: what goes into which call, and when. */
#include "support/test.h"

#include <stdio.h>
#include <stdlib.h>

#include "support/alloc_fail.h"
#include "support/imitated_road.h"

static void add(struct beat *beat) { add_to(0, beat); }

static void test_what_came_in_a_pass_goes_out_in_one_call(void **state) {
  (void)state;
  connect_up();
  struct beat a = beat_of("t", "a", 1000), b = beat_of("t", "b", 2000), c = beat_of("u", "a", 3000);
  add(&a);
  add(&b);
  add(&c);
  assert_null(next_sent());
  unsigned flushes = road.flushes;
  (void)batcher_after_pass(batcher);
  assert_int_equal(road.flushes, flushes + 1);
  assert_int_equal(next_sent()->kind, RECORD);
  assert_int_equal(next_sent()->count, 3); /* the same id in two tenants is two devices */
  assert_int_equal(a.answers, 0);
  answer(STATUS_OK, RECORD_OPENED);
  assert_int_equal(a.answers + b.answers + c.answers, 3);
  assert_int_equal(b.status, STATUS_OK);
  assert_int_equal(b.code, RECORD_OPENED);
  assert_int_equal(b.session.seq, 1); /* its own outcome */
  assert_int_equal(c.session.seq, 2);
  assert_int_equal(c.now_ms, 1790000000000);
}

static void test_batches_grow_while_a_call_is_outstanding(void **state) {
  (void)state;
  connect_up();
  struct beat first = beat_of("t", "first", 1000), others[3] = {beat_of("t", "a", 1), beat_of("t", "b", 1), beat_of("t", "c", 1)};
  add(&first);
  (void)batcher_after_pass(batcher);
  for (size_t i = 0; i < LENGTH(others); i++) {
    add(&others[i]);
    (void)batcher_after_pass(batcher);
  }
  assert_int_equal(next_sent()->count, 1);
  answer(STATUS_OK, RECORD_RENEWED);
  assert_null(next_sent());
  (void)batcher_after_pass(batcher);
  assert_int_equal(next_sent()->count, 3);
  answer(STATUS_OK, RECORD_RENEWED);
  for (size_t i = 0; i < LENGTH(others); i++) assert_int_equal(others[i].answers, 1);
}

static void test_the_last_heartbeat_of_a_device_counts_and_all_are_answered(void **state) {
  (void)state;
  connect_up();
  struct beat beats[4] = {beat_of("t", "a", 1000), beat_of("t", "b", 5), beat_of("t", "a", 2000), beat_of("t", "a", 3000)};
  beats[0].entry.item.may_open = false;
  beats[2].entry.item.want_detail = true;
  beats[3].entry.item.may_open = false;
  for (size_t i = 0; i < LENGTH(beats); i++) add(&beats[i]);
  (void)batcher_after_pass(batcher);
  const struct sent *sent = next_sent();
  assert_int_equal(sent->count, 2);
  assert_int_equal(sent->items[0].ttl_ms, 3000);
  assert_true(sent->items[0].may_open && sent->items[0].want_detail);
  answer(STATUS_OK, RECORD_OPENED);
  for (size_t i = 0; i < LENGTH(beats); i++) assert_int_equal(beats[i].answers, 1);
  assert_int_equal(beats[0].entry.item.ttl_ms, 3000); /* what is in force */
  assert_int_equal(beats[1].entry.item.ttl_ms, 5);
}

/* SET a, then the others in turn: what is sent in the end */
static void expect_merged(enum meta_action second, const char *second_meta, enum meta_action third, enum meta_action merged,
                          const char *merged_meta) {
  struct beat beats[3] = {beat_of("t", "a", 1), beat_of("t", "a", 1), beat_of("t", "a", 1)};
  beats[0].entry.item.meta_action = META_SET;
  beats[0].entry.item.meta = STR_LIT("{\"a\":1}");
  beats[1].entry.item.meta_action = second;
  beats[1].entry.item.meta = str_from(second_meta);
  beats[2].entry.item.meta_action = third;
  for (size_t i = 0; i < LENGTH(beats); i++) add(&beats[i]);
  (void)batcher_after_pass(batcher);
  assert_int_equal(next_sent()->count, 1);
  assert_int_equal(next_sent()->items[0].meta_action, merged);
  assert_true(str_equal(next_sent()->items[0].meta, str_from(merged_meta)));
  answer(STATUS_OK, RECORD_RENEWED);
}

static void test_metadata_set_by_an_earlier_heartbeat_is_not_lost(void **state) {
  (void)state;
  connect_up();
  expect_merged(META_KEEP, "", META_KEEP, META_SET, "{\"a\":1}");
  expect_merged(META_SET, "{\"b\":2}", META_KEEP, META_SET, "{\"b\":2}");
  expect_merged(META_REMOVE, "", META_KEEP, META_REMOVE, "");
  expect_merged(META_SET, "{\"b\":2}", META_REMOVE, META_REMOVE, "");
}

/* ---- Many */

enum { MANY = 1700 };
static struct beat many[MANY];
static char names[MANY][8];

static void expect_calls(size_t most, bool detail) {
  for (size_t i = 0; i < MANY; i++) {
    snprintf(names[i], sizeof names[i], "d%zu", i % 1600);
    many[i] = beat_of("t", names[i], 1000);
    many[i].entry.item.want_detail = detail;
    add(&many[i]);
  }
  size_t total = 0;
  for (size_t calls = 0; calls < (MANY + most - 1) / most; calls++) {
    (void)batcher_after_pass(batcher);
    assert_non_null(next_sent());
    assert_true(next_sent()->count <= most);
    for (size_t i = 0; i < next_sent()->count; i++)
      for (size_t j = 0; j < i; j++) assert_false(str_equal(next_sent()->items[i].device, next_sent()->items[j].device));
    total += next_sent()->count;
    answer(STATUS_OK, RECORD_RENEWED);
  }
  assert_int_equal(total, MANY); /* repeats in another call than the first are no repeats there */
  for (size_t i = 0; i < MANY; i++) assert_int_equal(many[i].answers, 1);
}

static void test_a_call_takes_no_more_than_its_limit(void **state) {
  (void)state;
  connect_up();
  expect_calls(BATCHER_CALL_MAX, false);
  expect_calls(BATCHER_OPENING_MAX, true); /* what may take record_heartbeats longer */
}

static void test_a_full_queue_takes_nothing(void **state) {
  (void)state;
  connect_up();
  static struct beat beats[QUEUE_MAX + 1];
  for (size_t i = 0; i <= QUEUE_MAX; i++) beats[i] = beat_of("t", "d", 1000);
  for (size_t i = 0; i < QUEUE_MAX; i++) add(&beats[i]);
  assert_int_equal(batcher_add(batcher, 1, &beats[QUEUE_MAX].entry), STATUS_FULL);
  (void)batcher_after_pass(batcher);
  assert_int_equal(next_sent()->count, 1);
  answer(STATUS_OK, RECORD_RENEWED);
  for (size_t i = 0; i < QUEUE_MAX; i++) assert_int_equal(beats[i].answers, 1);
  assert_int_equal(beats[QUEUE_MAX].answers, 0);
  add(&beats[QUEUE_MAX]);
}

static bool hears_all(void) {
  bool all = true;
  for (uint32_t p = 0; p < PARTITIONS; p++) all = all && batcher_hears(batcher, p);
  return all;
}

/* ---- Failures */

static void test_a_failed_call_is_told_to_all_in_it(void **state) {
  (void)state;
  connect_up();
  struct beat a = beat_of("t", "a", 1000), b = beat_of("t", "b", 1000);
  add(&a);
  (void)batcher_after_pass(batcher);
  add(&b);
  answer(STATUS_INITIALISING, RECORD_RENEWED);
  assert_int_equal(a.status, STATUS_INITIALISING);
  assert_int_equal(b.answers, 0);
  assert_false(hears_all());
  (void)batcher_after_pass(batcher);
  answer(STATUS_OK, RECORD_RENEWED);
  assert_int_equal(b.status, STATUS_OK);
}

static void test_without_a_connection_nothing_is_taken(void **state) {
  (void)state;
  connect_up();
  struct beat a = beat_of("t", "a", 1000), b = beat_of("t", "b", 1000);
  add(&a);
  road.refuse = STATUS_UNAVAILABLE; /* lost between adding and sending */
  (void)batcher_after_pass(batcher);
  assert_int_equal(a.answers, 1);
  assert_int_equal(a.status, STATUS_UNAVAILABLE);
  road.away[0] = true;
  assert_int_equal(batcher_add(batcher, 0, &b.entry), STATUS_UNAVAILABLE);
  assert_int_equal(b.answers, 0);
}

static void test_who_waited_too_long_is_dropped(void **state) {
  (void)state;
  connect_up();
  struct beat sent = beat_of("t", "sent", 1000), late = beat_of("t", "late", 1000), young = beat_of("t", "young", 1000);
  add(&sent);
  (void)batcher_after_pass(batcher);
  add(&late);
  road.now_us += 600000;
  add(&young);
  (void)batcher_after_pass(batcher);
  assert_int_equal(late.answers, 0);
  road.now_us += 400001;
  (void)batcher_after_pass(batcher); /* also while the call is still outstanding */
  assert_int_equal(late.answers, 1);
  assert_int_equal(late.status, STATUS_TIMEOUT);
  assert_int_equal(sent.answers + young.answers, 0);
  answer(STATUS_OK, RECORD_RENEWED);
  (void)batcher_after_pass(batcher);
  assert_int_equal(next_sent()->count, 1);
  answer(STATUS_OK, RECORD_RENEWED);
  assert_int_equal(young.status, STATUS_OK);
}

struct again {
  struct beat beat;
  unsigned left;
};

static void add_again(struct batcher_entry *entry, enum status status, const struct record_outcome *outcome, int64_t now_ms) {
  struct again *again = (struct again *)entry;
  beat_done(entry, status, outcome, now_ms);
  if (again->left-- > 0) add(&again->beat);
}

static void test_an_answer_may_add_again(void **state) {
  (void)state;
  connect_up();
  struct again again = {.beat = beat_of("t", "a", 1000), .left = 2};
  again.beat.entry.done = add_again;
  add(&again.beat);
  for (unsigned i = 1; i <= 3; i++) {
    (void)batcher_after_pass(batcher);
    answer(STATUS_OK, RECORD_STALE);
    assert_int_equal(again.beat.answers, i);
  }
  (void)batcher_after_pass(batcher);
  assert_null(next_sent());
}

/* ---- Marks */

static void test_marks_go_out_after_heartbeats_and_where_nothing_was_recorded(void **state) {
  (void)state;
  connect_up();
  struct beat a = beat_of("t", "a", 1000);
  add(&a);
  (void)batcher_after_pass(batcher);
  assert_int_equal(road.count, PARTITIONS + 1); /* the probes, and this */
  answer(STATUS_OK, RECORD_RENEWED);
  road.now_us += 23000;
  (void)batcher_after_pass(batcher); /* the first real heartbeat was recorded, but it is not time yet */
  assert_int_equal(road.count, PARTITIONS + 1);
  road.now_us += 2000;
  add(&a);
  (void)batcher_after_pass(batcher);
  assert_int_equal(road.count, PARTITIONS + 3);
  assert_int_equal(road.sent[PARTITIONS + 1].partition, 0);
  assert_int_equal(road.sent[PARTITIONS + 1].count, 1);
  assert_int_equal(road.sent[PARTITIONS + 2].partition, 1);
  assert_int_equal(road.sent[PARTITIONS + 2].count, 0);
  answer(STATUS_OK, RECORD_RENEWED);
  answer(STATUS_OK, RECORD_RENEWED);
  int64_t wait_us = batcher_after_pass(batcher);
  assert_true(wait_us > 0 && wait_us <= 25000);
  road.now_us += wait_us;
  (void)batcher_after_pass(batcher);
  assert_int_equal(road.count, PARTITIONS + 5);
}

static void test_no_second_mark_while_one_is_outstanding(void **state) {
  (void)state;
  connect_up();
  struct beat a = beat_of("t", "a", 1000);
  add(&a);
  (void)batcher_after_pass(batcher);
  answer(STATUS_OK, RECORD_RENEWED);
  for (int i = 0; i < 10; i++) {
    road.now_us += 25000;
    (void)batcher_after_pass(batcher);
  }
  assert_int_equal(road.count - road.answered, PARTITIONS);
}

static void test_hearing_is_known_without_heartbeats(void **state) {
  (void)state;
  assert_false(hears_all());
  connect_up();
  assert_true(hears_all());
  road.away[1] = true;
  road.now_us += 100000;
  (void)batcher_after_pass(batcher);
  assert_false(hears_all());
}

/* ---- The end */

static unsigned unlistened;
static void on_unlistened(void *context) {
  (void)context;
  unlistened++;
}

static void test_unlisten_waits_for_what_is_under_way(void **state) {
  (void)state;
  connect_up();
  unlistened = 0;
  struct beat a = beat_of("t", "a", 1000), b = beat_of("t", "b", 1000);
  add(&a);
  batcher_unlisten(batcher, on_unlistened, NULL);
  assert_int_equal(batcher_add(batcher, 0, &b.entry), STATUS_UNAVAILABLE);
  (void)batcher_after_pass(batcher);
  while (next_sent() != NULL) {
    assert_int_equal(unlistened, 0);
    answer(STATUS_OK, RECORD_RENEWED);
    (void)batcher_after_pass(batcher);
  }
  assert_int_equal(a.status, STATUS_OK);
  assert_int_equal(unlistened, 1);
  assert_int_equal(road.sent[road.count - 1].kind, UNLISTEN);
  assert_int_equal(road.sent[road.count - 1].partition, 0); /* after the heartbeat, which made the mark anew */
  road.now_us += 10000000;
  (void)batcher_after_pass(batcher);
  assert_null(next_sent()); /* no marks any more */
  assert_int_equal(unlistened, 1);
}

static void test_unlisten_does_not_wait_for_who_is_away(void **state) {
  (void)state;
  unlistened = 0;
  road.away[0] = road.away[1] = true;
  batcher_unlisten(batcher, on_unlistened, NULL);
  (void)batcher_after_pass(batcher);
  assert_int_equal(unlistened, 1);
}

static void test_free_answers_what_waits_and_what_is_outstanding(void **state) {
  (void)state;
  connect_up();
  struct beat outstanding = beat_of("t", "a", 1000), waiting = beat_of("t", "b", 1000);
  add(&outstanding);
  (void)batcher_after_pass(batcher);
  add(&waiting);
  batcher_free(batcher);
  assert_int_equal(outstanding.status, STATUS_CLOSED);
  assert_int_equal(waiting.status, STATUS_CLOSED);
  assert_false(road.freed); /* a call may still come back */
  answer(STATUS_OK, RECORD_RENEWED);
  assert_int_equal(outstanding.answers, 1);
  assert_true(road.freed);
  batcher = NULL;
}

static void test_without_memory_there_is_none_and_the_road_is_freed(void **state) {
  (void)state;
  struct batcher *none = NULL;
  struct batcher_road functions = road_functions();
  for (unsigned which = 1; which <= 2; which++) {
    road.freed = false;
    alloc_fail_at(which);
    enum status status = batcher_new_on(&functions, &(struct batcher_options){0}, &none);
    alloc_fail_at(0);
    assert_int_equal(status, STATUS_NO_MEMORY);
    assert_null(none);
    assert_true(road.freed);
  }
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, road_set_up, road_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(test_what_came_in_a_pass_goes_out_in_one_call),
      TEST(test_batches_grow_while_a_call_is_outstanding),
      TEST(test_the_last_heartbeat_of_a_device_counts_and_all_are_answered),
      TEST(test_metadata_set_by_an_earlier_heartbeat_is_not_lost),
      TEST(test_a_call_takes_no_more_than_its_limit),
      TEST(test_a_full_queue_takes_nothing),
      TEST(test_a_failed_call_is_told_to_all_in_it),
      TEST(test_without_a_connection_nothing_is_taken),
      TEST(test_who_waited_too_long_is_dropped),
      TEST(test_an_answer_may_add_again),
      TEST(test_marks_go_out_after_heartbeats_and_where_nothing_was_recorded),
      TEST(test_no_second_mark_while_one_is_outstanding),
      TEST(test_hearing_is_known_without_heartbeats),
      TEST(test_unlisten_waits_for_what_is_under_way),
      TEST(test_unlisten_does_not_wait_for_who_is_away),
      TEST(test_free_answers_what_waits_and_what_is_outstanding),
      TEST(test_without_memory_there_is_none_and_the_road_is_freed),
  };
  return cmocka_run_group_tests(tests, road_metrics_up, road_metrics_down);
}
