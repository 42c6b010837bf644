/* The window: of one device in order, others meanwhile; and what is saved says exactly what is delivered. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "support/alloc_fail.h"
#include "webhook/window.h"

static struct window window;

static void add(int64_t seq, const char *device) {
  char id[32], body[32];
  (void)snprintf(id, sizeof id, "id%lld", (long long)seq);
  (void)snprintf(body, sizeof body, "body%lld", (long long)seq);
  assert_status(STATUS_OK, window_add(&window, seq, str_from(id), str_from(device), str_from(body)));
}

static struct window_entry *take(int64_t seq, int64_t now_us) {
  struct window_entry *entry = window_next(&window, now_us);
  assert_non_null(entry);
  assert_int_equal(entry->seq, seq);
  window_sending(entry);
  return entry;
}

static void expect_saved(int64_t cursor, size_t count, const int64_t *delivered) {
  int64_t seqs[WINDOW_MAX];
  assert_int_equal(window_cursor(&window), cursor);
  assert_int_equal(window_delivered_above(&window, seqs), count);
  for (size_t i = 0; i < count; i++) assert_int_equal(seqs[i], delivered[i]);
}
#define EXPECT_SAVED(cursor, ...)                                                                                                \
  expect_saved((cursor), sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t), (int64_t[]){__VA_ARGS__})

static int set_up(void **state) {
  (void)state;
  return window_init(&window, 10) == STATUS_OK ? 0 : -1;
}
static int tear_down(void **state) {
  (void)state;
  window_free(&window);
  return 0;
}

static void test_a_device_waits_for_its_earlier_event(void **state) {
  (void)state;
  add(11, "a");
  add(12, "b");
  add(15, "a");
  add(16, "a");
  struct window_entry *a1 = take(11, 0), *b1 = take(12, 0);
  assert_null(window_next(&window, INT64_MAX));
  assert_int_equal(window_next_due_us(&window), INT64_MAX);
  window_failed(a1, 500);
  assert_null(window_next(&window, 499)); /* a's second does not overtake it */
  assert_int_equal(window_next_due_us(&window), 500);
  window_delivered(&window, b1);
  EXPECT_SAVED(10, 12);
  window_delivered(&window, take(11, 500));
  expect_saved(14, 0, NULL);
  struct window_entry *a2 = take(15, 500);
  assert_null(window_next(&window, INT64_MAX));
  window_delivered(&window, a2);
  window_delivered(&window, take(16, 500));
  expect_saved(16, 0, NULL);
  window_read_up_to(&window, 99);
  window_read_up_to(&window, 50);
  expect_saved(99, 0, NULL);
}

static void test_an_event_has_its_id_and_body(void **state) {
  (void)state;
  add(11, "a");
  struct window_entry *entry = take(11, 0);
  assert_true(str_equal(window_entry_id(entry), STR_LIT("id11")));
  assert_true(str_equal(window_entry_body(entry), STR_LIT("body11")));
}

/* Names whose hashes differ and names that differ only at their end are different devices. */
static void test_devices_are_told_apart(void **state) {
  (void)state;
  add(11, "device");
  add(12, "device1");
  add(13, "evice");
  add(14, "device");
  (void)take(11, 0);
  (void)take(12, 0);
  (void)take(13, 0);
  assert_null(window_next(&window, INT64_MAX));
}

static void test_what_was_delivered_before_stays_so(void **state) {
  (void)state;
  assert_status(STATUS_OK, window_add_delivered(&window, 11));
  expect_saved(11, 0, NULL);
  add(12, "a");
  assert_status(STATUS_OK, window_add_delivered(&window, 13));
  add(14, "a");
  EXPECT_SAVED(11, 13);
  window_delivered(&window, take(12, 0));
  expect_saved(13, 0, NULL);
}

static void test_it_is_full_at_its_limit(void **state) {
  (void)state;
  for (int i = 0; i < WINDOW_MAX; i++) add(11 + i, "a");
  assert_int_equal(window_room(&window), 0);
  assert_status(STATUS_FULL, window_add(&window, 9999, STR_LIT("i"), STR_LIT("a"), STR_LIT("b")));
  assert_status(STATUS_FULL, window_add_delivered(&window, 9999));
  for (int i = 0; i < WINDOW_MAX; i++) window_delivered(&window, take(11 + i, 0));
  expect_saved(10 + WINDOW_MAX, 0, NULL);
  add(9999, "a"); /* the ring goes round */
  window_delivered(&window, take(9999, 0));
}

static void test_no_memory_changes_nothing(void **state) {
  (void)state;
  add(11, "a");
  alloc_fail_at(1);
  enum status status = window_add(&window, 12, STR_LIT("id"), STR_LIT("a"), STR_LIT("body"));
  alloc_fail_at(0);
  assert_status(STATUS_NO_MEMORY, status);
  assert_int_equal(window_count(&window), 1);
  assert_int_equal(window.read_seq, 11);
  add(12, "a");
  window_delivered(&window, take(11, 0));
  (void)take(12, 0);
}

/* Random order of results, failures included, against a plain list of what was accepted; now and then all is lost but what is
 * saved, as in a crash. */
enum { EVENTS = 4000, DEVICES = 7 };

static void restart(const bool *accepted) {
  int64_t delivered[WINDOW_MAX];
  size_t count = window_delivered_above(&window, delivered);
  int64_t cursor = window_cursor(&window);
  for (int64_t seq = 1; seq <= cursor; seq++) assert_true(accepted[seq]);
  for (size_t i = 0; i < count; i++) assert_true(accepted[delivered[i]] && delivered[i] > cursor);
  window_free(&window);
  assert_status(STATUS_OK, window_init(&window, cursor));
  for (size_t i = 0; i < count; i++) {
    while (window.read_seq + 1 < delivered[i]) {
      char device[2] = {(char)('a' + (window.read_seq + 1) % DEVICES), '\0'};
      add(window.read_seq + 1, device);
    }
    assert_status(STATUS_OK, window_add_delivered(&window, delivered[i]));
  }
}

static void test_any_order_of_results(void **state) {
  (void)state;
  static bool accepted[EVENTS + 1];
  int64_t newest[DEVICES] = {0};
  struct window_entry *sending[8] = {NULL};
  unsigned seed = 20260930;
  window_free(&window);
  assert_status(STATUS_OK, window_init(&window, 0));
  while (window_cursor(&window) < EVENTS) {
    while (window_room(&window) > 0 && window.read_seq < EVENTS) {
      char device[2] = {(char)('a' + (window.read_seq + 1) % DEVICES), '\0'};
      add(window.read_seq + 1, device);
    }
    for (size_t i = 0; i < 8; i++) {
      if (sending[i] != NULL || (sending[i] = window_next(&window, 0)) == NULL) continue;
      window_sending(sending[i]);
      int64_t device = sending[i]->seq % DEVICES;
      assert_true(sending[i]->seq > newest[device]); /* the one before is accepted, and nothing later was sent */
      for (int64_t seq = sending[i]->seq - DEVICES; seq > 0; seq -= DEVICES) assert_true(accepted[seq]);
    }
    size_t pick = (size_t)rand_r(&seed) % 8;
    if (sending[pick] == NULL) continue;
    if (rand_r(&seed) % 3 == 0) {
      window_failed(sending[pick], 0);
    } else {
      accepted[sending[pick]->seq] = true;
      newest[sending[pick]->seq % DEVICES] = sending[pick]->seq;
      window_delivered(&window, sending[pick]);
    }
    sending[pick] = NULL;
    if (rand_r(&seed) % 200 == 0) {
      memset(sending, 0, sizeof sending);
      restart(accepted);
    }
  }
  for (int seq = 1; seq <= EVENTS; seq++) assert_true(accepted[seq]);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
  const struct CMUnitTest tests[] = {
      TEST(test_a_device_waits_for_its_earlier_event),
      TEST(test_an_event_has_its_id_and_body),
      TEST(test_devices_are_told_apart),
      TEST(test_what_was_delivered_before_stays_so),
      TEST(test_it_is_full_at_its_limit),
      TEST(test_no_memory_changes_nothing),
      TEST(test_any_order_of_results),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
