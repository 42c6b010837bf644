/* Which heartbeats go into one script call, and when it leaves. */
#include "support/test.h"

#include <stdio.h>

#include "support/imitated_road.h"

static void test_a_pass_is_one_script_call_for_all_partitions(void **state) {
  (void)state;
  connect_up();
  struct beat beats[3] = {beat_of("t", "a", 1), beat_of("t", "b", 1), beat_of("t", "a", 1)};
  for (uint32_t i = 0; i < LENGTH(beats); i++) add_to(i % PARTITIONS, &beats[i]);
  beats[2].entry.item.ttl_ms = 2;
  (void)batcher_after_pass(batcher);
  assert_int_equal(road.records, 1);
  assert_int_equal(road.count - road.answered, PARTITIONS);
  while (next_sent() != NULL) {
    bool first = next_sent()->partition == 0;
    assert_int_equal(next_sent()->count, 1); /* the device that came twice, and the other */
    assert_int_equal(next_sent()->items[0].ttl_ms, first ? 2 : 1);
    answer(first ? STATUS_OK : STATUS_INITIALISING, RECORD_OPENED); /* each partition has an answer of its own */
  }
  for (size_t i = 0; i < LENGTH(beats); i++) {
    assert_int_equal(beats[i].answers, 1);
    assert_int_equal(beats[i].status, i % PARTITIONS == 0 ? STATUS_OK : STATUS_INITIALISING);
  }
}

/* After a change of a tenant's buckets a device's heartbeats may wait for two partitions. */
static void test_a_device_in_two_partitions_is_two_items(void **state) {
  (void)state;
  connect_up();
  struct beat beats[2] = {beat_of("t", "a", 1), beat_of("t", "a", 2)};
  for (uint32_t i = 0; i < 2; i++) add_to(i, &beats[i]);
  (void)batcher_after_pass(batcher);
  assert_int_equal(road.records, 1);
  while (next_sent() != NULL) {
    assert_int_equal(next_sent()->count, 1);
    assert_int_equal(next_sent()->items[0].ttl_ms, next_sent()->partition == 0 ? 1 : 2);
    answer(STATUS_OK, RECORD_RENEWED);
  }
  for (size_t i = 0; i < 2; i++) assert_int_equal(beats[i].entry.item.ttl_ms, i == 0 ? 1 : 2);
}

static void test_where_sections_cannot_join_each_partition_has_a_call(void **state) {
  (void)state;
  connect_up();
  struct beat beats[2] = {beat_of("t", "a", 1), beat_of("t", "b", 1)};
  for (uint32_t i = 0; i < 2; i++) add_to(i, &beats[i]);
  (void)batcher_after_pass(batcher);
  assert_int_equal(road.records, 2);
  while (next_sent() != NULL) answer(STATUS_OK, RECORD_RENEWED);
}

static void test_a_servers_calls_go_in_waves(void **state) {
  (void)state;
  connect_up();
  struct beat beats[4] = {beat_of("t", "a", 1), beat_of("t", "b", 1), beat_of("t", "c", 1), beat_of("t", "d", 1)};
  add_to(0, &beats[0]);
  (void)batcher_after_pass(batcher);
  add_to(1, &beats[1]);
  (void)batcher_after_pass(batcher);
  assert_int_equal(road.records, 1); /* it waits for the wave that is under way */
  answer(STATUS_OK, RECORD_RENEWED);
  (void)batcher_after_pass(batcher);
  assert_int_equal(road.records, 2);
  add_to(0, &beats[2]);
  road.server[0] = 1; /* this one is elsewhere: the other's wave is not its own */
  (void)batcher_after_pass(batcher);
  assert_int_equal(road.records, 3);
  while (next_sent() != NULL) answer(STATUS_OK, RECORD_RENEWED);
}

static void test_what_is_worth_a_call_does_not_wait_for_the_wave(void **state) {
  (void)state;
  connect_up();
  enum { ENOUGH = 32 };
  static struct beat beats[ENOUGH + 1];
  beats[ENOUGH] = beat_of("t", "first", 1);
  add_to(0, &beats[ENOUGH]);
  (void)batcher_after_pass(batcher);
  for (size_t i = 0; i < ENOUGH; i++) {
    (void)batcher_after_pass(batcher);
    assert_int_equal(road.records, 1);
    static char names[ENOUGH][24];
    snprintf(names[i], sizeof names[i], "d%zu", i);
    beats[i] = beat_of("t", names[i], 1);
    add_to(1, &beats[i]);
  }
  (void)batcher_after_pass(batcher);
  assert_int_equal(road.records, 2);
  while (next_sent() != NULL) answer(STATUS_OK, RECORD_RENEWED);
}

/* One wave of so many is sent and answered, at road.now_us. */
static void send_wave(struct beat *beats, size_t count) {
  static char names[64][24];
  for (size_t i = 0; i < count; i++) {
    snprintf(names[i], sizeof names[i], "d%zu", i);
    beats[i] = beat_of("t", names[i], 1);
    add_to(0, &beats[i]);
  }
  (void)batcher_after_pass(batcher);
  assert_int_equal(next_sent()->count, count);
  answer(STATUS_OK, RECORD_RENEWED);
}

static void test_where_heartbeats_are_few_none_waits(void **state) {
  (void)state;
  connect_up();
  struct beat beats[3];
  for (size_t count = 1; count <= LENGTH(beats); count++, road.now_us += 10) send_wave(beats, count);
}

/* In a dense stream, a heartbeat every 40 us, a wave is sent 0.5 ms after the last one ... */
static void test_dense_waves_keep_a_distance(void **state) {
  (void)state;
  connect_up();
  struct beat beats[20], more[13];
  send_wave(beats, LENGTH(beats));
  unsigned records = road.records;
  for (size_t i = 0; i < LENGTH(more); i++) {
    road.now_us += 40;
    more[i] = beat_of("t", "more", 1);
    add_to(i % PARTITIONS, &more[i]);
    int64_t wait_us = batcher_after_pass(batcher);
    bool last = i + 1 == LENGTH(more);
    assert_int_equal(road.records, records + last);
    if (!last) assert_true(wait_us > 0 && wait_us <= 500 - 40 * (int64_t)(i + 1));
  }
  while (next_sent() != NULL) answer(STATUS_OK, RECORD_RENEWED);
}

/* ... and 0.2 ms after the answers to it, since those who got them may send again ... */
static void test_dense_waves_let_the_answered_return(void **state) {
  (void)state;
  connect_up();
  static struct beat beats[20], more[6];
  static char names[LENGTH(beats)][24];
  for (size_t i = 0; i < LENGTH(beats); i++) {
    snprintf(names[i], sizeof names[i], "d%zu", i);
    beats[i] = beat_of("t", names[i], 1);
    add_to(0, &beats[i]);
  }
  (void)batcher_after_pass(batcher);
  unsigned records = road.records;
  road.now_us += 700; /* Redis took longer than the distance */
  answer(STATUS_OK, RECORD_RENEWED);
  for (size_t i = 0; i < LENGTH(more); i++, road.now_us += 40) {
    more[i] = beat_of("t", "more", 1);
    add_to(0, &more[i]);
    (void)batcher_after_pass(batcher);
    assert_int_equal(road.records, records + (i == 5));
  }
  answer(STATUS_OK, RECORD_RENEWED);
}

/* One waits after a dense wave; returns how long it may. */
static int64_t wait_after_dense_wave(struct beat *last) {
  static struct beat beats[20];
  connect_up();
  send_wave(beats, LENGTH(beats));
  unsigned records = road.records;
  (void)batcher_after_pass(batcher); /* the answers are out */
  road.now_us += 10;
  *last = beat_of("t", "last", 1);
  add_to(1, last);
  int64_t wait_us = batcher_after_pass(batcher);
  assert_int_equal(road.records, records);
  return wait_us;
}

/* ... or when nothing more comes ... */
static void test_a_dense_wave_leaves_when_no_more_come(void **state) {
  (void)state;
  struct beat last;
  int64_t wait_us = wait_after_dense_wave(&last);
  assert_true(wait_us > 0 && wait_us <= 200);
  unsigned records = road.records;
  road.now_us += wait_us;
  (void)batcher_after_pass(batcher);
  assert_int_equal(road.records, records + 1);
  answer(STATUS_OK, RECORD_RENEWED);
}

/* ... or can come. */
static void test_a_dense_wave_leaves_when_every_client_waits(void **state) {
  (void)state;
  struct beat last;
  (void)wait_after_dense_wave(&last);
  unsigned records = road.records;
  batcher_expect(batcher, false);
  (void)batcher_after_pass(batcher);
  assert_int_equal(road.records, records + 1);
  answer(STATUS_OK, RECORD_RENEWED);
}

/* While a dense wave is under way nobody need look at each heartbeat that comes. */
static void test_rests_while_a_dense_wave_is_under_way(void **state) {
  (void)state;
  connect_up();
  static struct beat beats[100];
  static char names[LENGTH(beats)][24];
  static const struct {
    size_t count;
    int64_t rest_us;
  } waves[] = {{3, 0}, {4, 100}, {100, 200}};
  for (size_t w = 0; w < LENGTH(waves); w++, road.now_us += 1000) {
    for (size_t i = 0; i < waves[w].count; i++) {
      snprintf(names[i], sizeof names[i], "d%zu", i);
      beats[i] = beat_of("t", names[i], 1);
      add_to(0, &beats[i]);
    }
    assert_int_equal(batcher_rest_us(batcher), 0);
    (void)batcher_after_pass(batcher);
    assert_int_equal(batcher_rest_us(batcher), waves[w].rest_us);
    answer(STATUS_OK, RECORD_RENEWED);
    assert_int_equal(batcher_rest_us(batcher), 0);
    (void)batcher_after_pass(batcher);
  }
}

static void test_where_calls_cost_nothing_none_waits(void **state) {
  (void)state;
  connect_up();
  struct beat beats[20], more = beat_of("t", "more", 1), last = beat_of("t", "last", 1);
  send_wave(beats, LENGTH(beats));
  unsigned records = road.records;
  add_to(0, &more);
  (void)batcher_after_pass(batcher);
  assert_int_equal(road.records, records + 1);
  add_to(1, &last);
  (void)batcher_after_pass(batcher);
  assert_int_equal(road.records, records + 2);
  while (next_sent() != NULL) answer(STATUS_OK, RECORD_RENEWED);
}

/* ---- By which script */

/* What is under way to a partition goes by renew_heartbeats. */
static bool renews(uint32_t partition) {
  for (size_t i = road.answered; i < road.count; i++)
    if (road.sent[i].partition == partition) return road.sent[i].renew;
  fail_msg("nothing is under way to partition %u", partition);
  return false;
}

static void test_plain_heartbeats_are_renewals(void **state) {
  (void)state;
  connect_up();
  struct beat beats[3] = {beat_of("t", "a", 1), beat_of("t", "b", 1), beat_of("t", "c", 1)};
  beats[1].entry.item.want_detail = true;
  for (uint32_t i = 0; i < LENGTH(beats); i++) add_to(i % PARTITIONS, &beats[i]);
  (void)batcher_after_pass(batcher);
  assert_int_equal(road.records, 2); /* a call for each script */
  assert_true(renews(0));
  assert_false(renews(1));
  while (next_sent() != NULL) answer(STATUS_OK, RECORD_RENEWED);
  beats[1].entry.item.want_detail = false;
  beats[2].entry.item.meta_action = META_REMOVE;
  for (uint32_t i = 0; i < LENGTH(beats); i++) add_to(i % PARTITIONS, &beats[i]);
  (void)batcher_after_pass(batcher);
  assert_false(renews(0)); /* the plain one goes with the other */
  assert_true(renews(1));
  while (next_sent() != NULL) answer(STATUS_OK, RECORD_RENEWED);
  for (size_t i = 0; i < LENGTH(beats); i++) assert_int_equal(beats[i].answers, 2);
}

static void test_marks_are_renewals_of_nothing(void **state) {
  (void)state;
  connect_up();
  struct beat beat = beat_of("t", "a", 1);
  add_to(0, &beat);
  (void)batcher_after_pass(batcher);
  answer(STATUS_OK, RECORD_OPENED);
  road.now_us += 30000;
  (void)batcher_after_pass(batcher);
  assert_non_null(next_sent());
  assert_int_equal(next_sent()->count, 0);
  assert_true(next_sent()->renew);
  while (next_sent() != NULL) answer(STATUS_OK, RECORD_RENEWED);
}

/* It is answered once, when record_heartbeats has done it, and it is still the first. */
static void test_what_is_left_goes_to_the_other_script(void **state) {
  (void)state;
  connect_up();
  struct beat beats[5] = {beat_of("t", "a", 1), beat_of("t", "b", 1), beat_of("t", "c", 1), beat_of("t", "d", 1),
                          beat_of("t", "e", 1)};
  for (size_t i = 0; i < 4; i++) add_to(0, &beats[i]);
  (void)batcher_after_pass(batcher);
  assert_true(renews(0));
  add_to(0, &beats[4]);
  answer_each(STATUS_OK, (const enum record_code[]){RECORD_RENEWED, RECORD_LEFT, RECORD_RENEWED, RECORD_LEFT});
  assert_int_equal(beats[0].answers + beats[2].answers, 2);
  assert_int_equal(beats[1].answers + beats[3].answers + beats[4].answers, 0);
  (void)batcher_after_pass(batcher);
  road.now_us += 1000;
  (void)batcher_after_pass(batcher);
  assert_false(renews(0));
  static const char *const order[] = {"b", "d", "e"};
  assert_int_equal(next_sent()->count, LENGTH(order));
  for (size_t i = 0; i < LENGTH(order); i++) assert_true(str_equal(next_sent()->items[i].device, str_from(order[i])));
  answer(STATUS_OK, RECORD_OPENED);
  for (size_t i = 0; i < LENGTH(beats); i++) assert_int_equal(beats[i].answers, 1);
  assert_int_equal(beats[1].code, RECORD_OPENED);
}

/* Who comes back after an outage, all at once, does not ask twice. */
static void test_where_most_are_opened_renewing_is_not_tried(void **state) {
  (void)state;
  connect_up();
  struct beat beats[3] = {beat_of("t", "a", 1), beat_of("t", "b", 1), beat_of("t", "c", 1)};
  const enum record_code most[] = {RECORD_LEFT, RECORD_LEFT, RECORD_RENEWED};
  for (size_t i = 0; i < LENGTH(beats); i++) add_to(0, &beats[i]);
  (void)batcher_after_pass(batcher);
  answer_each(STATUS_OK, most);
  static const struct {
    enum record_code answer;
    bool then_renews;
  } calls[] = {{RECORD_OPENED, false}, {RECORD_OPENED, false}, {RECORD_RENEWED, true}, {RECORD_RENEWED, true}};
  (void)batcher_after_pass(batcher); /* those two */
  assert_false(renews(0));
  for (size_t i = 0; i < LENGTH(calls); i++) {
    answer(STATUS_OK, calls[i].answer);
    add_to(0, &beats[2]);
    (void)batcher_after_pass(batcher);
    assert_int_equal(renews(0), calls[i].then_renews);
  }
  answer(STATUS_OK, RECORD_RENEWED);
}

static void test_what_is_left_is_answered_when_the_batcher_ends(void **state) {
  (void)state;
  connect_up();
  struct beat beat = beat_of("t", "a", 1);
  add_to(0, &beat);
  (void)batcher_after_pass(batcher);
  answer(STATUS_OK, RECORD_LEFT);
  assert_int_equal(beat.answers, 0);
  batcher_free(batcher);
  assert_int_equal(beat.answers, 1);
  assert_int_equal(beat.status, STATUS_CLOSED);
  batcher = NULL; /* freed once */
}

int main(void) {
#define TEST(function) cmocka_unit_test_setup_teardown(function, road_set_up, road_tear_down)
  const struct CMUnitTest tests[] = {
      TEST(test_a_pass_is_one_script_call_for_all_partitions),
      TEST(test_a_device_in_two_partitions_is_two_items),
      cmocka_unit_test_setup_teardown(test_where_sections_cannot_join_each_partition_has_a_call, road_set_up_without_joins,
                                      road_tear_down),
      TEST(test_a_servers_calls_go_in_waves),
      TEST(test_what_is_worth_a_call_does_not_wait_for_the_wave),
      TEST(test_where_heartbeats_are_few_none_waits),
      TEST(test_dense_waves_keep_a_distance),
      TEST(test_dense_waves_let_the_answered_return),
      TEST(test_a_dense_wave_leaves_when_no_more_come),
      TEST(test_a_dense_wave_leaves_when_every_client_waits),
      TEST(test_rests_while_a_dense_wave_is_under_way),
      TEST(test_plain_heartbeats_are_renewals),
      TEST(test_marks_are_renewals_of_nothing),
      TEST(test_what_is_left_goes_to_the_other_script),
      TEST(test_where_most_are_opened_renewing_is_not_tried),
      TEST(test_what_is_left_is_answered_when_the_batcher_ends),
      cmocka_unit_test_setup_teardown(test_where_calls_cost_nothing_none_waits, road_set_up_at_once, road_tear_down),
  };
  return cmocka_run_group_tests(tests, road_metrics_up, road_metrics_down);
}
