/* body.h: memory for request bodies, pooled per loop so that steady work allocates nothing. Small bodies share small buffers; a
 * larger one gets one of a bounded number of buffers of the greatest size any route allows (pages that a body does not reach are
 * never touched). The loop's thread only. */
#ifndef PRESENCE_HTTP_BODY_H
#define PRESENCE_HTTP_BODY_H

#include "str.h"

enum {
  BODY_SMALL_BYTES = 8192,
  BODY_LARGE_BYTES = 1048576,
  BODY_LARGE_IN_USE_MAX = 128, /* per loop; over it a large body is refused */
  BODY_SMALL_KEPT = 256,
  BODY_LARGE_KEPT = 8,
};

struct body_block; /* a free buffer */
struct body_pool {
  struct body_block *small, *large;
  size_t small_kept, large_kept;
  size_t large_in_use;
};
void body_pool_free(struct body_pool *pool);

/* Zero-initialised is empty and valid; body_close leaves it so. */
struct body {
  char *data;
  size_t len;
  size_t capacity; /* 0, BODY_SMALL_BYTES or BODY_LARGE_BYTES */
};
/* Room for expected bytes from the start (a declared length; 0 where unknown). STATUS_FULL, STATUS_NO_MEMORY. */
enum status body_open(struct body_pool *pool, struct body *body, size_t expected) MUST_CHECK;
/* STATUS_TOO_LARGE over BODY_LARGE_BYTES. */
enum status body_append(struct body_pool *pool, struct body *body, const char *data, size_t len) MUST_CHECK;
void body_close(struct body_pool *pool, struct body *body);

#endif
