#include "webhook/signature.h"

#include <openssl/evp.h>

#include "hash.h"

void webhook_secret_encode(const uint8_t key[WEBHOOK_KEY_BYTES], char text[WEBHOOK_SECRET_TEXT_MAX]) {
  const struct str prefix = STR_LIT(WEBHOOK_SECRET_PREFIX);
  memcpy(text, prefix.data, prefix.len);
  (void)EVP_EncodeBlock((unsigned char *)text + prefix.len, key, WEBHOOK_KEY_BYTES); /* writes the closing NUL too */
}

enum status webhook_sign(struct str key, struct str id, int64_t timestamp_s, struct str body, struct buf *scratch,
                         char text[WEBHOOK_SIGNATURE_TEXT_MAX]) {
  uint8_t digest[HASH_SHA256_BYTES];
  buf_clear(scratch);
  enum status status = buf_append_str(scratch, id);
  if (status == STATUS_OK) status = buf_append_str(scratch, STR_LIT("."));
  if (status == STATUS_OK) status = buf_append_int64(scratch, timestamp_s);
  if (status == STATUS_OK) status = buf_append_str(scratch, STR_LIT("."));
  if (status == STATUS_OK) status = buf_append_str(scratch, body);
  if (status == STATUS_OK) status = hash_hmac_sha256(key, buf_str(scratch), digest);
  if (status != STATUS_OK) return status;
  memcpy(text, "v1,", sizeof "v1,");
  (void)EVP_EncodeBlock((unsigned char *)text + 3, digest, sizeof digest);
  return STATUS_OK;
}
