#include "session.h"

#include <inttypes.h>
#include <stdio.h>

#include "hash.h"

/* Digits without a leading zero, so that one session has one spelling. */
static enum status number_parse(struct str text, int64_t *value) {
  if (text.len > 1 && text.data[0] == '0') return STATUS_INVALID;
  return str_to_int64(text, value);
}

enum status session_id_parse(struct str text, struct session_id *id) {
  const char *dash = text.len == 0 ? NULL : memchr(text.data, '-', text.len);
  if (dash == NULL) return STATUS_INVALID;
  struct str ms = {text.data, (size_t)(dash - text.data)};
  struct str seq = {dash + 1, text.len - ms.len - 1};
  struct session_id parsed;
  if (number_parse(ms, &parsed.ms) != STATUS_OK || number_parse(seq, &parsed.seq) != STATUS_OK) return STATUS_INVALID;
  *id = parsed;
  return STATUS_OK;
}

void session_id_format(struct session_id id, char out[SESSION_ID_TEXT_MAX]) {
  (void)snprintf(out, SESSION_ID_TEXT_MAX, "%" PRId64 "-%" PRId64, id.ms, id.seq);
}

int session_id_compare(struct session_id a, struct session_id b) {
  if (a.ms != b.ms) return a.ms < b.ms ? -1 : 1;
  return a.seq == b.seq ? 0 : a.seq < b.seq ? -1 : 1;
}

uint32_t placement_bucket(struct str device, uint32_t buckets) { return (uint32_t)(hash_device(device) % buckets); }

uint32_t placement_partition(struct str tenant, uint32_t bucket, uint32_t partitions) {
  uint32_t first = (uint32_t)(hash_device(tenant) % partitions);
  return (uint32_t)(((uint64_t)first + bucket) % partitions);
}

bool tenant_id_valid(struct str tenant) {
  if (tenant.len == 0 || tenant.len > TENANT_ID_MAX) return false;
  for (size_t i = 0; i < tenant.len; i++) {
    char c = tenant.data[i];
    bool alphanumeric = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
    if (!alphanumeric && (i == 0 || (c != '_' && c != '-'))) return false;
  }
  return true;
}

bool device_id_valid(struct str device) {
  if (device.len == 0 || device.len > DEVICE_ID_MAX || !str_is_utf8(device)) return false;
  for (size_t i = 0; i < device.len; i++) {
    unsigned char c = (unsigned char)device.data[i];
    if (c < 0x20 || c == 0x7F) return false;
    /* U+0080..009F is C2 80..9F; the text is valid UTF-8, so a byte follows C2. */
    if (c == 0xC2 && (unsigned char)device.data[i + 1] < 0xA0) return false;
  }
  return true;
}
