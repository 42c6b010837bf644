/* shared_bytes.h: bytes that many send at once: immutable, freed with the last who holds them. Any thread. */
#ifndef PRESENCE_SHARED_BYTES_H
#define PRESENCE_SHARED_BYTES_H

#include <stdatomic.h>

#include "str.h"

struct shared_bytes {
  atomic_size_t holders;
  char *data;
  size_t len;
};

/* Takes the buffer's memory, also where it fails; the caller holds the result. STATUS_NO_MEMORY is the only failure. */
enum status shared_bytes_new(struct buf *buf, struct shared_bytes **bytes) MUST_CHECK;
struct shared_bytes *shared_bytes_hold(struct shared_bytes *bytes);
void shared_bytes_release(struct shared_bytes *bytes); /* NULL is fine */

#endif
