/* The body of a query: all ids of one that is accepted are valid, and lie where they may. The same bytes as a cursor: one that is
 * accepted is written the same again, in small letters. */
#include "devices/cursor.h"
#include "devices/device_ids.h"

#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
  if (!holds) abort();
}

static void fuzz_cursor(struct str text) {
  char device[DEVICE_ID_MAX], again[CURSOR_TEXT_MAX];
  size_t len = 0;
  if (cursor_parse(text, STR_LIT("t"), device, &len) != STATUS_OK) return;
  check(device_id_valid((struct str){device, len}));
  check(cursor_format(STR_LIT("t"), (struct str){device, len}, again) == text.len);
  for (size_t i = 0; i < text.len; i++) check(tolower((unsigned char)text.data[i]) == again[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static struct device_ids ids;
  struct str body = {(const char *)data, size};
  char *scratch = malloc(size + 1);
  if (scratch == NULL) return 0;
  enum device_ids_verdict verdict = device_ids_parse(body, scratch, &ids);
  check(ids.count <= DEVICE_IDS_MAX);
  for (size_t i = 0; verdict == DEVICE_IDS_OK && i < ids.count; i++) check(device_id_valid(ids.ids[i]));
  check(verdict != DEVICE_IDS_BAD_ID || ids.bad_index < ids.count);
  check(verdict != DEVICE_IDS_MALFORMED || (ids.detail != NULL && ids.offset <= size));
  free(scratch);
  fuzz_cursor(body);
  return 0;
}
