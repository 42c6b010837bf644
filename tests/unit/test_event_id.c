#include "support/unit.h"

#include "outbox/event_id.h"

/* The expected ids are python3's uuid.uuid5(NAMESPACE, name). */
static void ids_follow_from_the_name(void **state) {
  (void)state;
  static const struct {
    const char *tenant, *device;
    struct session_id session;
    enum transition_type type;
    const char *id;
  } cases[] = {
      {"t42", "sensor-1", {INT64_C(1790000000000), INT64_C(0)}, TRANSITION_ONLINE, "8597d24e-a175-5690-bf2f-5cc1bd60eee9"},
      {"t42", "sensor-1", {INT64_C(1790000000000), INT64_C(0)}, TRANSITION_OFFLINE, "8d03ab99-8aa1-5f62-b3d5-708c4fbfdbd3"},
      {"t",
       "a/b/..",
       {INT64_C(9223372036854775807), INT64_C(9223372036854775807)},
       TRANSITION_OFFLINE,
       "3a56eb94-621c-57d8-bb1b-e6e1887f5eb2"},
      {"a-b", "\xF0\x9F\x98\x80", {INT64_C(1), INT64_C(12)}, TRANSITION_ONLINE, "706565c1-a0cb-5d7b-8f26-6898ae0a04d6"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    uint8_t id[EVENT_ID_BYTES];
    char text[EVENT_ID_TEXT_MAX];
    assert_status(STATUS_OK, event_id(str_from(cases[i].tenant), str_from(cases[i].device), cases[i].session, cases[i].type, id));
    event_id_format(id, text);
    assert_string_equal(text, cases[i].id);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(ids_follow_from_the_name)};
  return cmocka_run_group_tests_name("event_id", tests, NULL, NULL);
}
