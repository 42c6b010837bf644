/* signature.h: what makes a delivery believable, as the Standard Webhooks specification has it
 * (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md): HMAC-SHA-256 by a key that the
 * receiver has too, over "id.timestamp.body". Any thread. */
#ifndef PRESENCE_WEBHOOK_SIGNATURE_H
#define PRESENCE_WEBHOOK_SIGNATURE_H

#include "str.h"

/* A secret is "whsec_" and the key in base64 (RFC 4648 section 4). */
#define WEBHOOK_SECRET_PREFIX "whsec_"
enum {
  WEBHOOK_KEY_BYTES = 32, /* of a key that is made here; the specification allows 24 to 64 */
  WEBHOOK_SECRET_TEXT_MAX = sizeof WEBHOOK_SECRET_PREFIX + (WEBHOOK_KEY_BYTES + 2) / 3 * 4,
  WEBHOOK_SIGNATURE_TEXT_MAX = 3 + 44 + 1, /* "v1," and 32 bytes in base64 */
};

void webhook_secret_encode(const uint8_t key[WEBHOOK_KEY_BYTES], char text[WEBHOOK_SECRET_TEXT_MAX]);

/* The value of the header webhook-signature. timestamp_s: since 1970, as in the header webhook-timestamp. scratch: a buffer of
 * the caller's, to be used again. */
enum status webhook_sign(struct str key, struct str id, int64_t timestamp_s, struct str body, struct buf *scratch,
                         char text[WEBHOOK_SIGNATURE_TEXT_MAX]) MUST_CHECK;

#endif
