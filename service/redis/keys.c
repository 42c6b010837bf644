#include "keys.h"

/* Indexed by enum; the words between env and schema version. */
static const struct str bucket_resources[BUCKET_KEY_COUNT] = {
    [BUCKET_LIVE] = {":presence:live:v1:{", 19},
    [BUCKET_SESSION] = {":presence:session:v1:{", 22},
    [BUCKET_DUE] = {":presence:due:v1:{", 18},
    [BUCKET_META] = {":presence:meta:v1:{", 19},
};

static const struct str partition_resources[PARTITION_KEY_COUNT] = {
    [PARTITION_CLOCK] = {":presence:clock:v1:{", 20},
    [PARTITION_NEXT] = {":presence:next:v1:{", 19},
    [PARTITION_TRANSITIONS] = {":presence:transitions:v1:{", 26},
    [PARTITION_CLOSED] = {":presence:closed:v1:{", 21},
    [PARTITION_COUNT_KEY] = {":presence:count:v1:{", 20},
    [PARTITION_TENANT] = {":presence:tenant:v1:{", 21},
    [PARTITION_RECOUNT] = {":presence:recount:v1:{", 22},
    [PARTITION_LEASE] = {":presence:lease:v1:{", 20},
    [PARTITION_TRIAL] = {":presence:trial:v1:{", 20},
    [PARTITION_NEVER] = {":presence:never:v1:{", 20},
};

enum { DECIMAL_MAX = 10 }; /* digits of a uint32 */

static char *put(char *at, struct str text) {
  if (text.len > 0) {
    memcpy(at, text.data, text.len);
  }
  return at + text.len;
}

static char *put_decimal(char *at, uint32_t value) {
  char digits[DECIMAL_MAX];
  size_t count = 0;
  do {
    digits[count++] = (char)('0' + value % 10);
    value /= 10;
  } while (value > 0);
  while (count > 0) *at++ = digits[--count];
  return at;
}

enum status keys_append_partition(struct buf *out, struct str env, enum partition_key key, uint32_t partition) {
  struct str resource = partition_resources[key];
  enum status status = buf_reserve(out, env.len + resource.len + DECIMAL_MAX + 1);
  if (status) return status;
  char *at = put(out->data + out->len, env);
  at = put_decimal(put(at, resource), partition);
  *at++ = '}';
  out->len = (size_t)(at - out->data);
  return STATUS_OK;
}

enum status keys_append_bucket(struct buf *out, struct str env, enum bucket_key key, uint32_t partition, struct str tenant,
                               uint32_t bucket) {
  struct str resource = bucket_resources[key];
  enum status status = buf_reserve(out, env.len + resource.len + tenant.len + 2 * (size_t)DECIMAL_MAX + 3);
  if (status) return status;
  char *at = put(out->data + out->len, env);
  at = put_decimal(put(at, resource), partition);
  at = put(put(at, STR_LIT("}:")), tenant);
  *at++ = ':';
  at = put_decimal(at, bucket);
  out->len = (size_t)(at - out->data);
  return STATUS_OK;
}

enum status keys_parse_bucket_member(struct str member, struct str *tenant, uint32_t *bucket) {
  const char *colon = member.len > 0 ? memchr(member.data, ':', member.len) : NULL;
  if (!colon || colon == member.data) return STATUS_INVALID;
  size_t tenant_len = (size_t)(colon - member.data);
  int64_t number;
  enum status status = str_to_int64((struct str){colon + 1, member.len - tenant_len - 1}, &number);
  if (status) return status;
  if (number > UINT32_MAX) return STATUS_INVALID;
  *tenant = (struct str){member.data, tenant_len};
  *bucket = (uint32_t)number;
  return STATUS_OK;
}

/* Takes a prefix away. */
static bool skip(struct str *text, struct str prefix) {
  if (text->len < prefix.len || memcmp(text->data, prefix.data, prefix.len) != 0) return false;
  text->data += prefix.len;
  text->len -= prefix.len;
  return true;
}

enum status keys_parse_bucket(struct str env, struct str key, uint32_t *partition, struct str *tenant, uint32_t *bucket) {
  bool known = false;
  if (!skip(&key, env)) return STATUS_INVALID;
  for (enum bucket_key each = 0; each < BUCKET_KEY_COUNT && !known; each++) known = skip(&key, bucket_resources[each]);
  const char *end = known && key.len > 0 ? memchr(key.data, '}', key.len) : NULL;
  if (!end) return STATUS_INVALID;
  struct str number = {key.data, (size_t)(end - key.data)};
  int64_t value;
  enum status status = str_to_int64(number, &value);
  if (status) return status;
  if (value > UINT32_MAX) return STATUS_INVALID;
  *partition = (uint32_t)value;
  if (!skip(&key, number) || !skip(&key, STR_LIT("}:"))) return STATUS_INVALID;
  return keys_parse_bucket_member(key, tenant, bucket);
}

enum status keys_append_bucket_pattern(struct buf *out, struct str env, enum bucket_key only, struct str tenant) {
  enum status status = buf_append_str(out, env);
  if (!status) status = buf_append_str(out, only < BUCKET_KEY_COUNT ? bucket_resources[only] : STR_LIT(":presence:*:v1:{"));
  if (!status) status = buf_append_str(out, STR_LIT("*}:"));
  if (!status) status = buf_append_str(out, tenant.len > 0 ? tenant : STR_LIT("*"));
  return status ? status : buf_append_str(out, STR_LIT(":*"));
}
