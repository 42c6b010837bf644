#include "body.h"

#include <stdlib.h>

struct body_block {
  struct body_block *next;
};

static char *take(struct body_block **list, size_t *kept, size_t bytes) {
  struct body_block *block = *list;
  if (block == NULL) return malloc(bytes);
  *list = block->next;
  (*kept)--;
  return (char *)block;
}

static void give(struct body_block **list, size_t *kept, size_t kept_max, char *data) {
  if (*kept >= kept_max) {
    free(data);
    return;
  }
  struct body_block *block = (struct body_block *)(void *)data; /* malloc'd, so aligned */
  block->next = *list;
  *list = block;
  (*kept)++;
}

static void free_list(struct body_block *block) {
  while (block != NULL) {
    struct body_block *next = block->next;
    free(block);
    block = next;
  }
}

void body_pool_free(struct body_pool *pool) {
  free_list(pool->small);
  free_list(pool->large);
  *pool = (struct body_pool){0};
}

static enum status reserve(struct body_pool *pool, struct body *body, size_t bytes) {
  if (bytes <= body->capacity) return STATUS_OK;
  if (bytes > BODY_LARGE_BYTES) return STATUS_TOO_LARGE;
  bool large = bytes > BODY_SMALL_BYTES;
  if (large && pool->large_in_use >= BODY_LARGE_IN_USE_MAX) return STATUS_FULL;
  char *data =
      large ? take(&pool->large, &pool->large_kept, BODY_LARGE_BYTES) : take(&pool->small, &pool->small_kept, BODY_SMALL_BYTES);
  if (data == NULL) return STATUS_NO_MEMORY;
  if (large) pool->large_in_use++;

  size_t len = body->len;
  if (len > 0) memcpy(data, body->data, len);
  body_close(pool, body);
  *body = (struct body){.data = data, .len = len, .capacity = large ? BODY_LARGE_BYTES : BODY_SMALL_BYTES};
  return STATUS_OK;
}

enum status body_open(struct body_pool *pool, struct body *body, size_t expected) {
  *body = (struct body){0};
  return reserve(pool, body, expected);
}

enum status body_append(struct body_pool *pool, struct body *body, const char *data, size_t len) {
  if (len > BODY_LARGE_BYTES - body->len) return STATUS_TOO_LARGE;
  enum status status = reserve(pool, body, body->len + len);
  if (status != STATUS_OK) return status;
  if (len > 0) memcpy(body->data + body->len, data, len);
  body->len += len;
  return STATUS_OK;
}

void body_close(struct body_pool *pool, struct body *body) {
  if (body->capacity == BODY_LARGE_BYTES) {
    pool->large_in_use--;
    give(&pool->large, &pool->large_kept, BODY_LARGE_KEPT, body->data);
  } else if (body->capacity == BODY_SMALL_BYTES) {
    give(&pool->small, &pool->small_kept, BODY_SMALL_KEPT, body->data);
  }
  *body = (struct body){0};
}
