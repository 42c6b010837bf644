#include "cursor.h"

#include "hash.h"

static void check_of(struct str tenant, struct str device, uint8_t check[CURSOR_CHECK_BYTES]) {
  char text[TENANT_ID_MAX + 1 + DEVICE_ID_MAX];
  memcpy(text, tenant.data, tenant.len);
  text[tenant.len] = '/'; /* no tenant has one */
  memcpy(text + tenant.len + 1, device.data, device.len);
  uint64_t hash = hash_device((struct str){text, tenant.len + 1 + device.len});
  for (size_t i = 0; i < CURSOR_CHECK_BYTES; i++) check[i] = (uint8_t)(hash >> (8 * i));
}

size_t cursor_format(struct str tenant, struct str device, char out[CURSOR_TEXT_MAX]) {
  uint8_t check[CURSOR_CHECK_BYTES];
  check_of(tenant, device, check);
  hex_encode(check, sizeof check, out);
  hex_encode(device.data, device.len, out + 2 * sizeof check);
  return 2 * (sizeof check + device.len);
}

enum status cursor_parse(struct str text, struct str tenant, char device[DEVICE_ID_MAX], size_t *len) {
  uint8_t check[CURSOR_CHECK_BYTES], expected[CURSOR_CHECK_BYTES];
  size_t head = 2 * sizeof check;
  if (text.len <= head || text.len > CURSOR_TEXT_MAX || text.len % 2 != 0) return STATUS_INVALID;
  *len = (text.len - head) / 2;
  if (hex_decode((struct str){text.data, head}, check, sizeof check) != STATUS_OK ||
      hex_decode((struct str){text.data + head, text.len - head}, device, *len) != STATUS_OK)
    return STATUS_INVALID;
  struct str id = {device, *len};
  check_of(tenant, id, expected);
  return device_id_valid(id) && memcmp(check, expected, sizeof check) == 0 ? STATUS_OK : STATUS_INVALID;
}
