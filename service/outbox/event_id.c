#include "event_id.h"

#include <gnutls/crypto.h>

#include "hash.h"

/* EVENT_ID_NAMESPACE as bytes. */
static const uint8_t namespace_bytes[EVENT_ID_BYTES] = {0x06, 0xd5, 0x4c, 0x45, 0xfd, 0x64, 0x47, 0x19,
                                                        0xa7, 0x18, 0x57, 0x16, 0x2b, 0xfa, 0x26, 0x47};

enum { SHA1_BYTES = 20, TYPE_NAME_MAX = 32 };

enum status event_id(struct str tenant, struct str device, struct session_id session, enum transition_type type,
                     uint8_t id[EVENT_ID_BYTES]) {
  uint8_t name[EVENT_ID_BYTES + TENANT_ID_MAX + 1 + DEVICE_ID_MAX + 1 + SESSION_ID_TEXT_MAX + 1 + TYPE_NAME_MAX];
  uint8_t digest[SHA1_BYTES];
  char session_text[SESSION_ID_TEXT_MAX];
  const struct str slash = STR_LIT("/"), type_name = str_from(transition_type_name(type));
  if (tenant.len > TENANT_ID_MAX || device.len > DEVICE_ID_MAX || type_name.len > TYPE_NAME_MAX) return STATUS_INVALID;
  session_id_format(session, session_text);
  const struct str parts[] = {tenant, slash, device, slash, str_from(session_text), slash, type_name};
  memcpy(name, namespace_bytes, EVENT_ID_BYTES);
  size_t len = EVENT_ID_BYTES;
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    if (parts[i].len > 0) memcpy(name + len, parts[i].data, parts[i].len);
    len += parts[i].len;
  }
  /* GnuTLS's for the reason given in hash.c: two ids a transition. */
  if (gnutls_hash_fast(GNUTLS_DIG_SHA1, name, len, digest) != 0) return STATUS_NO_MEMORY;
  memcpy(id, digest, EVENT_ID_BYTES);
  id[6] = (uint8_t)((id[6] & 0x0F) | 0x50); /* version 5 */
  id[8] = (uint8_t)((id[8] & 0x3F) | 0x80); /* the RFC's variant */
  return STATUS_OK;
}

void event_id_format(const uint8_t id[EVENT_ID_BYTES], char text[EVENT_ID_TEXT_MAX]) {
  static const size_t group_bytes[] = {4, 2, 2, 2, 6};
  size_t at = 0;
  for (size_t group = 0; group < sizeof group_bytes / sizeof group_bytes[0]; group++) {
    if (group > 0) *text++ = '-';
    hex_encode(id + at, group_bytes[group], text);
    text += 2 * group_bytes[group];
    at += group_bytes[group];
  }
  *text = '\0';
}
