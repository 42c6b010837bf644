#include "support/unit.h"

#include "cloud_event.h"
#include "support/alloc_fail.h"

static const struct cloud_event offline = {.seq = 42,
                                           .id = {"06d54c45-fd64-5719-a718-57162bfa2647", 36},
                                           .type = {"presence.device.offline", 23},
                                           .tenant = {"t42", 3},
                                           .device = {"a/\"\xC3\xA9\\", 6},
                                           .occurred_ms = INT64_C(1790000000007),
                                           .data = {"{\"device\": \"d\"}", 15}};

static void an_event_has_what_the_format_wants(void **state) {
  (void)state;
  struct buf out = {0};
  assert_status(STATUS_OK, cloud_event_encode(&out, &offline));
  assert_string_equal(
      buf_text(&out),
      "{\"specversion\":\"1.0\",\"id\":\"06d54c45-fd64-5719-a718-57162bfa2647\",\"source\":\"/tenants/t42\","
      "\"type\":\"presence.device.offline\",\"subject\":\"a/\\\"\xC3\xA9\\\\\",\"time\":\"2026-09-21T14:13:20.007Z\","
      "\"sequence\":\"42\",\"datacontenttype\":\"application/json\",\"data\":{\"device\": \"d\"}}");
  buf_free(&out);
}

static void times_are_rfc_3339(void **state) {
  (void)state;
  static const struct {
    int64_t ms;
    const char *text;
  } cases[] = {{0, "1970-01-01T00:00:00.000Z"},
               {-1, "1969-12-31T23:59:59.999Z"},
               {-1000, "1969-12-31T23:59:59.000Z"},
               {INT64_C(951827696789), "2000-02-29T12:34:56.789Z"},
               {INT64_C(253402300799999), "9999-12-31T23:59:59.999Z"},
               {INT64_C(-62167219200000), "0000-01-01T00:00:00.000Z"}};
  struct buf out = {0};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    buf_clear(&out);
    assert_status(STATUS_OK, rfc3339_append(&out, cases[i].ms));
    assert_string_equal(buf_text(&out), cases[i].text);
  }
  assert_status(STATUS_INVALID, rfc3339_append(&out, INT64_C(253402300800000)));
  assert_status(STATUS_INVALID, rfc3339_append(&out, INT64_C(-62167219200001)));
  assert_status(STATUS_INVALID, rfc3339_append(&out, INT64_MAX));
  assert_status(STATUS_INVALID, rfc3339_append(&out, INT64_MIN));
  buf_free(&out);
}

static bool encode_once(void *context) {
  (void)context;
  struct buf out = {0};
  enum status status = cloud_event_encode(&out, &offline);
  buf_free(&out);
  return status == STATUS_OK;
}

static void short_memory_is_said(void **state) {
  (void)state;
  assert_true(alloc_fail_sweep(encode_once, NULL) > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_event_has_what_the_format_wants),
      cmocka_unit_test(times_are_rfc_3339),
      cmocka_unit_test(short_memory_is_said),
  };
  return cmocka_run_group_tests_name("cloud_event", tests, NULL, NULL);
}
