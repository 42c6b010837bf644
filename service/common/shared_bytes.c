#include "shared_bytes.h"

#include <stdlib.h>

enum status shared_bytes_new(struct buf *buf, struct shared_bytes **bytes) {
  struct shared_bytes *new = malloc(sizeof *new);
  if (new == NULL) {
    buf_free(buf);
    return STATUS_NO_MEMORY;
  }
  atomic_init(&new->holders, 1);
  new->data = buf->data;
  new->len = buf->len;
  *buf = (struct buf){0};
  *bytes = new;
  return STATUS_OK;
}

struct shared_bytes *shared_bytes_hold(struct shared_bytes *bytes) {
  atomic_fetch_add_explicit(&bytes->holders, 1, memory_order_relaxed);
  return bytes;
}

void shared_bytes_release(struct shared_bytes *bytes) {
  if (bytes == NULL || atomic_fetch_sub_explicit(&bytes->holders, 1, memory_order_acq_rel) > 1) return;
  free(bytes->data);
  free(bytes);
}
