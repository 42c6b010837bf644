/* Ids that come from outside: what is taken is printed as it was read; a valid device id survives the encoders behind it. */
#include <stdlib.h>

#include "cloud_event.h"
#include "session.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
  if (!holds) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct str text = {(const char *)data, size};
  struct session_id id, again;
  if (session_id_parse(text, &id) == STATUS_OK) {
    char printed[SESSION_ID_TEXT_MAX];
    session_id_format(id, printed);
    check(str_equal(text, str_from(printed))); /* one spelling */
    check(session_id_parse(str_from(printed), &again) == STATUS_OK && session_id_compare(id, again) == 0);
  }
  if (tenant_id_valid(text)) check(device_id_valid(text) && text.len <= TENANT_ID_MAX);
  if (device_id_valid(text)) {
    check(placement_bucket(text, 7) < 7);
    struct buf out = {0};
    struct cloud_event event = {.tenant = STR_LIT("t"), .device = text, .data = STR_LIT("{}")};
    if (cloud_event_encode(&out, &event) == STATUS_OK) check(str_is_utf8(buf_str(&out)));
    buf_free(&out);
  }
  return 0;
}
