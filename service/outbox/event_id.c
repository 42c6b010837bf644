#include "event_id.h"

#include <openssl/evp.h>

#include "hash.h"

/* EVENT_ID_NAMESPACE as bytes. */
static const uint8_t namespace_bytes[EVENT_ID_BYTES] = {0x06, 0xd5, 0x4c, 0x45, 0xfd, 0x64, 0x47, 0x19,
                                                        0xa7, 0x18, 0x57, 0x16, 0x2b, 0xfa, 0x26, 0x47};

enum status event_id(struct str tenant, struct str device, struct session_id session, enum transition_type type,
                     uint8_t id[EVENT_ID_BYTES]) {
  char session_text[SESSION_ID_TEXT_MAX];
  session_id_format(session, session_text);
  const struct str slash = STR_LIT("/");
  const struct str parts[] = {{(const char *)namespace_bytes, sizeof namespace_bytes},
                              tenant,
                              slash,
                              device,
                              slash,
                              str_from(session_text),
                              slash,
                              str_from(transition_type_name(type))};
  EVP_MD_CTX *context = EVP_MD_CTX_new();
  if (context == NULL) return STATUS_NO_MEMORY;
  uint8_t digest[EVP_MAX_MD_SIZE];
  int good = EVP_DigestInit_ex(context, EVP_sha1(), NULL);
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    if (parts[i].len > 0) good = good && EVP_DigestUpdate(context, parts[i].data, parts[i].len);
  }
  good = good && EVP_DigestFinal_ex(context, digest, NULL);
  EVP_MD_CTX_free(context);
  if (!good) return STATUS_NO_MEMORY;
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
