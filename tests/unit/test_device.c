/* How answers show a device. */
#include "device.h"

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

static void test_a_place_depends_on_the_tenant_and_stays(void **state) {
  (void)state;
  struct tenant tenant = {.id = STR_LIT("t42"), .buckets = 313};
  struct device_place place = device_place(&tenant, STR_LIT("sensor-7"), 8);
  struct device_place again = device_place(&tenant, STR_LIT("sensor-7"), 8);
  assert_true(place.bucket < 313 && place.partition < 8);
  assert_true(place.bucket == again.bucket && place.partition == again.partition);
  assert_int_equal(place.bucket, placement_bucket(STR_LIT("sensor-7"), 313));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_states),
      cmocka_unit_test(test_times_that_were_lost_are_null),
      cmocka_unit_test(test_a_place_depends_on_the_tenant_and_stays),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
