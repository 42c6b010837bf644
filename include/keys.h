/* keys.h: the names of all Redis keys. Made here and nowhere else:
 *   {env}:presence:{resource}:v1:{partition tag}[:tenant:bucket]      e.g. prod:presence:live:v1:{3}:t42:7
 * The hash tag keeps all keys of a partition in one Redis Cluster slot. */
#ifndef PRESENCE_KEYS_H
#define PRESENCE_KEYS_H

#include "str.h"

enum bucket_key { BUCKET_LIVE, BUCKET_SESSION, BUCKET_DUE, BUCKET_META, BUCKET_KEY_COUNT };
enum partition_key {
  PARTITION_CLOCK,
  PARTITION_NEXT,
  PARTITION_TRANSITIONS,
  PARTITION_CLOSED,
  PARTITION_COUNT_KEY,
  PARTITION_TENANT,
  PARTITION_RECOUNT,
  PARTITION_LEASE,
  PARTITION_TRIAL, /* of the start-up check; lives for one script */
  PARTITION_NEVER, /* there is no such key: see store_record_encode */
  PARTITION_KEY_COUNT
};

enum status keys_append_partition(struct buf *out, struct str env, enum partition_key key, uint32_t partition) MUST_CHECK;
enum status keys_append_bucket(struct buf *out, struct str env, enum bucket_key key, uint32_t partition, struct str tenant,
                               uint32_t bucket) MUST_CHECK;
/* A member of `next`, "t42:7", into its parts; a tenant has no ':'. */
enum status keys_parse_bucket_member(struct str member, struct str *tenant, uint32_t *bucket) MUST_CHECK;
/* A key of a bucket of this env into its parts. */
enum status keys_parse_bucket(struct str env, struct str key, uint32_t *partition, struct str *tenant,
                              uint32_t *bucket) MUST_CHECK;
/* What matches the keys of buckets (https://redis.io/docs/latest/commands/keys/). only: BUCKET_KEY_COUNT for all kinds;
 * tenant.len 0: of all tenants. */
enum status keys_append_bucket_pattern(struct buf *out, struct str env, enum bucket_key only, struct str tenant) MUST_CHECK;

#endif
