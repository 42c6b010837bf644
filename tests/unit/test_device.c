/* How answers show a device. */
#include "device.h"

#include "support/alloc_fail.h"
#include "support/test.h"

static void shows(const struct device_view *view, struct str more, const char *expected) {
  struct buf out = {0};
  assert_int_equal(device_encode(&out, view, more), STATUS_OK);
  assert_int_equal(buf_append(&out, "", 1), STATUS_OK);
  assert_string_equal(out.data, expected);
  buf_free(&out);
}

static void test_states(void **state) {
  (void)state;
  struct device_view view = {.device = STR_LIT("a\"/\xf0\x9f\x98\x80"),
                             .state = DEVICE_ONLINE,
                             .session = {.ms = 1790000000000, .seq = 3},
                             .online_since_ms = 1790000000000,
                             .last_seen_ms = 1790000001000,
                             .ttl_ms = 90000};
  shows(&view, STR_NONE,
        "{\"device\":\"a\\\"/"
        "\xf0\x9f\x98\x80\",\"state\":\"online\",\"session\":\"1790000000000-3\",\"online_since_ms\":1790000000000,"
        "\"last_seen_ms\":1790000001000,\"deadline_ms\":1790000091000,\"ttl_ms\":90000,\"meta\":null}");
  view.device = STR_LIT("d");
  view.meta = STR_LIT("{ \"x\" : 1.50 }");
  view.state = DEVICE_UNKNOWN;
  shows(&view, STR_LIT("\"transition\":true"),
        "{\"device\":\"d\",\"state\":\"unknown\",\"session\":\"1790000000000-3\",\"online_since_ms\":1790000000000,"
        "\"last_seen_ms\":1790000001000,\"deadline_ms\":1790000091000,\"ttl_ms\":90000,\"meta\":{ \"x\" : 1.50 "
        "},\"transition\":true}");
  view.state = DEVICE_OFFLINE;
  view.offline_at_ms = 1790000091000;
  view.reason = REASON_TIMEOUT;
  view.meta = STR_NONE;
  shows(&view, STR_NONE,
        "{\"device\":\"d\",\"state\":\"offline\",\"session\":\"1790000000000-3\",\"online_since_ms\":1790000000000,"
        "\"last_seen_ms\":1790000001000,\"deadline_ms\":1790000091000,\"ttl_ms\":90000,\"meta\":null,"
        "\"offline_at_ms\":1790000091000,\"reason\":\"timeout\"}");
}

static void test_times_that_were_lost_are_null(void **state) {
  (void)state;
  struct device_view view = {.device = STR_LIT("d"),
                             .state = DEVICE_OFFLINE,
                             .session = {.ms = 5, .seq = 0},
                             .online_since_ms = 5,
                             .last_seen_ms = TIME_MS_LOST,
                             .ttl_ms = 90000,
                             .offline_at_ms = 9,
                             .reason = REASON_STATE_LOST};
  shows(&view, STR_NONE,
        "{\"device\":\"d\",\"state\":\"offline\",\"session\":\"5-0\",\"online_since_ms\":5,\"last_seen_ms\":null,\"deadline_ms\":"
        "null,"
        "\"ttl_ms\":90000,\"meta\":null,\"offline_at_ms\":9,\"reason\":\"state_lost\"}");
}

static bool encode_once(void *context) {
  struct buf out = {0};
  enum status status = device_encode(&out, context, STR_LIT("\"transition\":true"));
  buf_free(&out);
  return status == STATUS_OK;
}

static void test_short_memory_is_told(void **state) {
  (void)state;
  struct device_view view = {.device = STR_LIT("d"), .state = DEVICE_OFFLINE, .reason = REASON_TIMEOUT};
  assert_true(alloc_fail_sweep(encode_once, &view) > 0);
}

static void test_a_place_depends_on_the_tenant_and_stays(void **state) {
  (void)state;
  struct tenant tenant = {.id = STR_LIT("t42"), .buckets = 313};
  struct device_place place = device_place(&tenant, STR_LIT("sensor-7"), 8);
  struct device_place again = device_place(&tenant, STR_LIT("sensor-7"), 8);
  assert_true(place.bucket < 313 && place.partition < 8);
  assert_true(place.bucket == again.bucket && place.partition == again.partition);
  assert_int_equal(place.bucket, placement_bucket(STR_LIT("sensor-7"), 313));
}

/* ---- Redis and row together: larger session wins; a row that says online needs facts */

static struct store_device redis_says(enum store_state redis_state, int64_t session_ms) {
  return (struct store_device){.state = redis_state,
                               .session = {.ms = session_ms},
                               .online_since_ms = session_ms,
                               .last_seen_ms = 5000,
                               .ttl_ms = 1000,
                               .offline_at_ms = 6000,
                               .reason = REASON_DISCONNECT,
                               .meta = STR_LIT("{\"from\":\"redis\"}")};
}

static struct device_row row_says(bool online, int64_t session_ms) {
  return (struct device_row){.found = true,
                             .online = online,
                             .session = {.ms = session_ms},
                             .online_since_ms = session_ms,
                             .last_seen_ms = 7000,
                             .ttl_ms = 1000,
                             .offline_at_ms = online ? TIME_MS_LOST : 8000,
                             .reason = online ? REASON_NONE : REASON_TIMEOUT};
}

static void judges(struct store_device redis, struct device_row row, bool second, enum device_verdict verdict,
                   enum device_state shown, int64_t last_seen_ms) {
  struct device_view view = {0};
  assert_int_equal(device_judge(STR_LIT("d"), &redis, &row, second, &view), verdict);
  if (verdict != DEVICE_KNOWN) return;
  assert_int_equal(view.state, shown);
  assert_int_equal(view.last_seen_ms, last_seen_ms);
}

static void test_what_redis_knows_needs_no_row(void **state) {
  (void)state;
  struct device_row none = {0};
  for (int second = 0; second < 2; second++) {
    judges(redis_says(STORE_ONLINE, 10), none, second, DEVICE_KNOWN, DEVICE_ONLINE, 5000);
    judges(redis_says(STORE_UNKNOWN, 10), none, second, DEVICE_KNOWN, DEVICE_UNKNOWN, 5000);
    judges(redis_says(STORE_OVER, 10), none, second, DEVICE_KNOWN, DEVICE_OFFLINE, 5000);
    judges(redis_says(STORE_ONLINE, 10), row_says(false, 99), second, DEVICE_KNOWN, DEVICE_ONLINE, 5000);
  }
  struct store_device online = redis_says(STORE_ONLINE, 10), closed = redis_says(STORE_CLOSED, 10),
                      nothing = {.state = STORE_NONE};
  assert_false(device_needs_row(&online));
  assert_true(device_needs_row(&closed) && device_needs_row(&nothing));
}

static void test_of_a_close_and_a_row_the_larger_session_wins(void **state) {
  (void)state;
  struct device_row none = {0};
  judges(redis_says(STORE_CLOSED, 10), none, false, DEVICE_KNOWN, DEVICE_OFFLINE, 5000);
  judges(redis_says(STORE_CLOSED, 10), row_says(true, 10), false, DEVICE_KNOWN, DEVICE_OFFLINE, 5000); /* not yet published */
  judges(redis_says(STORE_CLOSED, 10), row_says(false, 10), false, DEVICE_KNOWN, DEVICE_OFFLINE, 5000);
  judges(redis_says(STORE_CLOSED, 10), row_says(false, 9), false, DEVICE_KNOWN, DEVICE_OFFLINE, 5000);
  judges(redis_says(STORE_CLOSED, 10), row_says(false, 11), false, DEVICE_KNOWN, DEVICE_OFFLINE, 7000);
}

static void test_a_row_that_says_online_without_facts(void **state) {
  (void)state;
  struct store_device nothing = {.state = STORE_NONE};
  judges(nothing, row_says(true, 10), false, DEVICE_READ_AGAIN, DEVICE_UNKNOWN, 0);
  judges(nothing, row_says(true, 10), true, DEVICE_KNOWN, DEVICE_UNKNOWN, 7000);
  judges(redis_says(STORE_CLOSED, 10), row_says(true, 11), false, DEVICE_READ_AGAIN, DEVICE_UNKNOWN, 0);
  judges(redis_says(STORE_CLOSED, 10), row_says(true, 11), true, DEVICE_KNOWN, DEVICE_UNKNOWN, 7000);
  judges(redis_says(STORE_CLOSED, 11), row_says(true, 11), true, DEVICE_KNOWN, DEVICE_OFFLINE, 5000);
}

static void test_only_a_row_or_nothing(void **state) {
  (void)state;
  struct store_device nothing = {.state = STORE_NONE};
  struct device_row none = {0};
  judges(nothing, none, false, DEVICE_NEVER_SEEN, DEVICE_UNKNOWN, 0);
  judges(nothing, row_says(false, 10), false, DEVICE_KNOWN, DEVICE_OFFLINE, 7000);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_states),
      cmocka_unit_test(test_times_that_were_lost_are_null),
      cmocka_unit_test(test_short_memory_is_told),
      cmocka_unit_test(test_a_place_depends_on_the_tenant_and_stays),
      cmocka_unit_test(test_what_redis_knows_needs_no_row),
      cmocka_unit_test(test_of_a_close_and_a_row_the_larger_session_wins),
      cmocka_unit_test(test_a_row_that_says_online_without_facts),
      cmocka_unit_test(test_only_a_row_or_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
