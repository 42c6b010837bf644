/* hash.h: digests, comparison in constant time, hexadecimal, random bytes. Any thread. */
#ifndef PRESENCE_HASH_H
#define PRESENCE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "status.h"
#include "str.h"

enum { HASH_SHA256_BYTES = 32 };

/* XXH64, seed 0 (https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md): the same on every machine and in every
 * release, since a device's bucket follows from it. Not for secrets. */
uint64_t hash_device(struct str device);

/* SHA-256 (FIPS 180-4). STATUS_NO_MEMORY is the only failure. */
enum status hash_sha256(struct str data, uint8_t digest[HASH_SHA256_BYTES]) MUST_CHECK;
/* HMAC-SHA-256 (RFC 2104). STATUS_NO_MEMORY is the only failure. */
enum status hash_hmac_sha256(struct str key, struct str data, uint8_t digest[HASH_SHA256_BYTES]) MUST_CHECK;
/* The time depends on len alone, not on where a and b differ. */
bool hash_equal_ct(const void *a, const void *b, size_t len);

/* Lower case, 2 * len characters, no NUL. */
void hex_encode(const void *data, size_t len, char *out);
/* Upper or lower case. STATUS_INVALID where text is not exactly 2 * len hexadecimal digits; out is then unspecified. */
enum status hex_decode(struct str text, void *out, size_t len) MUST_CHECK;

/* From the kernel's generator (getrandom(2)); waits only where the kernel has just booted. STATUS_IO on failure. */
enum status random_bytes(void *out, size_t len) MUST_CHECK;

#endif
