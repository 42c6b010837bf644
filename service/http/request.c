#include "request.h"

#include <stdlib.h>

enum { REQUESTS_KEPT = 1024, ALIGNMENT = 16, BLOCK_BYTES_MIN = 4096 };

struct request_block {
  struct request_block *next;
  size_t used, capacity;
  _Alignas(16) char bytes[];
};

struct http_request *request_take(struct request_pool *pool) {
  struct http_request *request = pool->free;
  if (request != NULL) {
    pool->free = request->next;
    pool->kept--;
  } else {
    request = malloc(sizeof *request);
    if (request == NULL) return NULL;
  }
  memset(request, 0, offsetof(struct http_request, arena)); /* the arena is zeroed piece by piece */
  return request;
}

void request_give(struct request_pool *pool, struct http_request *request) {
  while (request->blocks != NULL) {
    struct request_block *next = request->blocks->next;
    free(request->blocks);
    request->blocks = next;
  }
  free(request->query_raw);
  if (pool->kept >= REQUESTS_KEPT) {
    free(request);
    return;
  }
  request->next = pool->free;
  pool->free = request;
  pool->kept++;
}

void request_pool_free(struct request_pool *pool) {
  while (pool->free != NULL) {
    struct http_request *next = pool->free->next;
    free(pool->free);
    pool->free = next;
  }
  pool->kept = 0;
}

void *request_alloc(struct request *public, size_t size) {
  struct http_request *request = request_private(public);
  if (size > SIZE_MAX / 2) return NULL;
  size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  if (size <= REQUEST_ARENA_BYTES - request->arena_used) {
    char *memory = request->arena + request->arena_used;
    request->arena_used += size;
    return memset(memory, 0, size);
  }
  struct request_block *block = request->blocks;
  if (block == NULL || block->capacity - block->used < size) {
    size_t capacity = size > BLOCK_BYTES_MIN ? size : BLOCK_BYTES_MIN;
    block = malloc(sizeof *block + capacity);
    if (block == NULL) return NULL;
    *block = (struct request_block){.next = request->blocks, .capacity = capacity};
    request->blocks = block;
  }
  char *memory = block->bytes + block->used;
  block->used += size;
  return memset(memory, 0, size);
}

bool request_query(const struct request *public, const char *name, struct str *value) {
  const struct http_request *request = (const struct http_request *)public;
  return request->query != NULL && query_find(request->query, str_from(name), value);
}

static bool is_among(struct str name, const char *const *names, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (str_equal(name, str_from(names[i]))) return true;
  return false;
}

bool request_query_only(struct request *public, const char *const *names, size_t count) {
  enum { NAME_SHOWN_BYTES = 64 };
  const struct query *query = request_private(public)->query;
  for (size_t i = 0; query != NULL && i < query->count; i++) {
    struct str name = query->parameters[i].name;
    if (is_among(name, names, count)) continue;
    if (!str_is_utf8(name)) name = STR_LIT("?");
    int shown = name.len < NAME_SHOWN_BYTES ? (int)name.len : NAME_SHOWN_BYTES;
    reply_error(public, 400, "unknown_parameter", "this call has no query parameter of this name: %.*s", shown, name.data);
    return false;
  }
  return true;
}

bool request_query_number(struct request *public, const char *name, int64_t least, int64_t most, int64_t absent, int64_t *value) {
  struct str text;
  *value = absent;
  if (!request_query(public, name, &text)) return true;
  if (str_to_int64(text, value) == STATUS_OK && *value >= least && *value <= most) return true;
  reply_error(public, 400, "bad_parameter", "%s must be an integer from %lld to %lld", name, (long long)least, (long long)most);
  return false;
}

bool request_is_abandoned(const struct request *public) {
  const struct http_request *request = (const struct http_request *)public;
  return request->mhd == NULL || connection_has_ended(request->connection);
}

bool request_header(const struct request *public, const char *name, struct str *value) {
  const struct http_request *request = (const struct http_request *)public;
  const char *text = NULL;
  size_t len = 0;
  if (request->mhd == NULL ||
      MHD_lookup_connection_value_n(request->mhd, MHD_HEADER_KIND, name, strlen(name), &text, &len) != MHD_YES)
    return false;
  *value = (struct str){text, len};
  return true;
}
