#include "hash.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <openssl/crypto.h>
#include <sys/random.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t hash_device(struct str device) { return XXH64(device.data != NULL ? device.data : "", device.len, 0); }

/* GnuTLS's, since a digest by OpenSSL 3 looks its algorithm up and allocates at each call: five times the work. */
enum status hash_sha256(struct str data, uint8_t digest[HASH_SHA256_BYTES]) {
  return gnutls_hash_fast(GNUTLS_DIG_SHA256, data.data, data.len, digest) == 0 ? STATUS_OK : STATUS_NO_MEMORY;
}

enum status hash_hmac_sha256(struct str key, struct str data, uint8_t digest[HASH_SHA256_BYTES]) {
  return gnutls_hmac_fast(GNUTLS_MAC_SHA256, key.data, key.len, data.data, data.len, digest) == 0 ? STATUS_OK : STATUS_NO_MEMORY;
}

bool hash_equal_ct(const void *a, const void *b, size_t len) { return CRYPTO_memcmp(a, b, len) == 0; }

void hex_encode(const void *data, size_t len, char *out) {
  static const char digits[] = "0123456789abcdef";
  const uint8_t *bytes = data;
  for (size_t i = 0; i < len; i++) {
    out[2 * i] = digits[bytes[i] >> 4];
    out[2 * i + 1] = digits[bytes[i] & 15];
  }
}

static int hex_digit(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

enum status hex_decode(struct str text, void *out, size_t len) {
  if (text.len != 2 * len) return STATUS_INVALID;
  uint8_t *bytes = out;
  for (size_t i = 0; i < len; i++) {
    int high = hex_digit(text.data[2 * i]);
    int low = hex_digit(text.data[2 * i + 1]);
    if (high < 0 || low < 0) return STATUS_INVALID;
    bytes[i] = (uint8_t)(high * 16 + low);
  }
  return STATUS_OK;
}

enum status random_bytes(void *out, size_t len) {
  uint8_t *bytes = out;
  while (len > 0) {
    ssize_t count = getrandom(bytes, len, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return STATUS_IO;
    bytes += count;
    len -= (size_t)count;
  }
  return STATUS_OK;
}
