#include "snapshot.h"

#include <stdatomic.h>
#include <stdlib.h>

enum { SLOT_FREE = 0 }; /* other slots hold an index + 1 */

struct slots {
  uint32_t *index;
  size_t mask;
};

struct directory_snapshot {
  atomic_uint references;
  _Atomic int64_t clock_offset_ms;
  int64_t version;
  struct tenant *tenants;
  struct token *tokens;
  size_t tenant_count, tenant_capacity;
  size_t token_count, token_capacity;
  struct slots tenant_slots, token_slots;
};

enum status snapshot_new(int64_t version, struct directory_snapshot **out) {
  struct directory_snapshot *snapshot = calloc(1, sizeof *snapshot);
  *out = snapshot;
  if (snapshot == NULL) return STATUS_NO_MEMORY;
  atomic_init(&snapshot->references, 1);
  snapshot->version = version;
  return STATUS_OK;
}

void snapshot_hold(struct directory_snapshot *snapshot) {
  atomic_fetch_add_explicit(&snapshot->references, 1, memory_order_relaxed);
}

/* Of a string that copy_str made. */
static void free_str(struct str text) {
  void *data = NULL;
  memcpy(&data, &text.data, sizeof data);
  free(data);
}

void directory_release(struct directory_snapshot *snapshot) {
  if (snapshot == NULL || atomic_fetch_sub_explicit(&snapshot->references, 1, memory_order_acq_rel) != 1) return;
  for (size_t i = 0; i < snapshot->tenant_count; i++) free_str(snapshot->tenants[i].id);
  for (size_t i = 0; i < snapshot->token_count; i++) free_str(snapshot->tokens[i].tenant_id);
  free(snapshot->tenants);
  free(snapshot->tokens);
  free(snapshot->tenant_slots.index);
  free(snapshot->token_slots.index);
  free(snapshot);
}

int64_t snapshot_version(const struct directory_snapshot *snapshot) { return snapshot->version; }
size_t snapshot_tenant_count(const struct directory_snapshot *snapshot) { return snapshot->tenant_count; }
const struct tenant *snapshot_tenant_at(const struct directory_snapshot *snapshot, size_t index) {
  return &snapshot->tenants[index];
}

void snapshot_set_clock_offset(struct directory_snapshot *snapshot, int64_t offset_ms) {
  atomic_store_explicit(&snapshot->clock_offset_ms, offset_ms, memory_order_relaxed);
}

static enum status copy_str(struct str from, struct str *to) {
  *to = STR_NONE;
  if (from.len == 0) return STATUS_OK;
  char *data = malloc(from.len);
  if (data == NULL) return STATUS_NO_MEMORY;
  memcpy(data, from.data, from.len);
  to->data = data;
  to->len = from.len;
  return STATUS_OK;
}

/* items with room for one more; NULL: no memory, and items is as it was. */
static void *grow(void *items, size_t size, size_t count, size_t *capacity) {
  if (count < *capacity) return items;
  size_t larger = *capacity > 0 ? *capacity * 2 : 16;
  void *moved = reallocarray(items, larger, size);
  if (moved != NULL) *capacity = larger;
  return moved;
}

enum status snapshot_add_tenant(struct directory_snapshot *snapshot, const struct tenant *tenant) {
  struct tenant *tenants = grow(snapshot->tenants, sizeof *tenant, snapshot->tenant_count, &snapshot->tenant_capacity);
  if (tenants == NULL) return STATUS_NO_MEMORY;
  snapshot->tenants = tenants;
  struct tenant *copy = &tenants[snapshot->tenant_count];
  *copy = *tenant;
  enum status status = copy_str(tenant->id, &copy->id);
  if (status == STATUS_OK) snapshot->tenant_count++;
  return status;
}

enum status snapshot_add_token(struct directory_snapshot *snapshot, const struct token *token) {
  struct token *tokens = grow(snapshot->tokens, sizeof *token, snapshot->token_count, &snapshot->token_capacity);
  if (tokens == NULL) return STATUS_NO_MEMORY;
  snapshot->tokens = tokens;
  struct token *copy = &tokens[snapshot->token_count];
  *copy = *token;
  enum status status = copy_str(token->tenant_id, &copy->tenant_id);
  if (status == STATUS_OK) snapshot->token_count++;
  return status;
}

static enum status slots_new(struct slots *slots, size_t count) {
  size_t size = 16;
  while (size < count * 2) size *= 2;
  slots->index = calloc(size, sizeof *slots->index);
  slots->mask = size - 1;
  return slots->index != NULL ? STATUS_OK : STATUS_NO_MEMORY;
}

/* A digest's first bytes are as good as any hash of it. */
static uint64_t token_hash(const uint8_t sha256[HASH_SHA256_BYTES]) {
  uint64_t hash = 0;
  memcpy(&hash, sha256, sizeof hash);
  return hash;
}

static const struct token *find_token(const struct directory_snapshot *snapshot, const uint8_t sha256[HASH_SHA256_BYTES],
                                      size_t *slot) {
  const struct slots *slots = &snapshot->token_slots;
  for (*slot = token_hash(sha256) & slots->mask; slots->index[*slot] != SLOT_FREE; *slot = (*slot + 1) & slots->mask) {
    const struct token *token = &snapshot->tokens[slots->index[*slot] - 1];
    if (hash_equal_ct(token->sha256, sha256, HASH_SHA256_BYTES)) return token;
  }
  return NULL;
}

static const struct tenant *find_tenant(const struct directory_snapshot *snapshot, struct str id, size_t *slot) {
  const struct slots *slots = &snapshot->tenant_slots;
  for (*slot = hash_device(id) & slots->mask; slots->index[*slot] != SLOT_FREE; *slot = (*slot + 1) & slots->mask) {
    const struct tenant *tenant = &snapshot->tenants[slots->index[*slot] - 1];
    if (str_equal(tenant->id, id)) return tenant;
  }
  return NULL;
}

enum status snapshot_finish(struct directory_snapshot *snapshot) {
  enum status status = slots_new(&snapshot->tenant_slots, snapshot->tenant_count);
  if (status == STATUS_OK) status = slots_new(&snapshot->token_slots, snapshot->token_count);
  if (status != STATUS_OK) return status;
  size_t slot = 0;
  for (size_t i = 0; i < snapshot->tenant_count; i++) {
    if (find_tenant(snapshot, snapshot->tenants[i].id, &slot) != NULL) return STATUS_INVALID;
    snapshot->tenant_slots.index[slot] = (uint32_t)(i + 1);
  }
  for (size_t i = 0; i < snapshot->token_count; i++) {
    if (find_token(snapshot, snapshot->tokens[i].sha256, &slot) != NULL) return STATUS_INVALID;
    snapshot->token_slots.index[slot] = (uint32_t)(i + 1);
  }
  return STATUS_OK;
}

enum status snapshot_copy_with_known(const struct directory_snapshot *from, const int64_t *known,
                                     struct directory_snapshot **out) {
  struct directory_snapshot *copy = NULL;
  enum status status = snapshot_new(from->version, &copy);
  for (size_t i = 0; i < from->tenant_count && status == STATUS_OK; i++) {
    struct tenant tenant = from->tenants[i];
    tenant.known_devices = known[i];
    status = snapshot_add_tenant(copy, &tenant);
  }
  for (size_t i = 0; i < from->token_count && status == STATUS_OK; i++) status = snapshot_add_token(copy, &from->tokens[i]);
  if (status == STATUS_OK) status = snapshot_finish(copy);
  if (status == STATUS_OK) {
    snapshot_set_clock_offset(copy, atomic_load_explicit(&from->clock_offset_ms, memory_order_relaxed));
  } else {
    directory_release(copy);
    copy = NULL;
  }
  *out = copy;
  return status;
}

const struct tenant *directory_tenant(const struct directory_snapshot *snapshot, struct str tenant) {
  size_t slot = 0;
  return find_tenant(snapshot, tenant, &slot);
}

enum status directory_token(const struct directory_snapshot *snapshot, struct str secret, const struct token **token) {
  uint8_t sha256[HASH_SHA256_BYTES];
  size_t slot = 0;
  *token = NULL;
  enum status status = hash_sha256(secret, sha256);
  if (status == STATUS_OK) *token = find_token(snapshot, sha256, &slot);
  return status;
}

bool directory_token_is_valid(const struct directory_snapshot *snapshot, const struct token *token, int64_t now_us) {
  int64_t now_ms = now_us / 1000 + atomic_load_explicit(&snapshot->clock_offset_ms, memory_order_relaxed);
  return !token->revoked && now_ms < token->expires_ms;
}
