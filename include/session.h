/* session.h: names of sessions and places of devices.
 *
 * A session's id is the Redis stream id of its online transition, "<ms>-<seq>"
 * (https://redis.io/docs/latest/develop/data-types/streams/, "Entry IDs"). Ids are compared as numbers, ms first. */
#ifndef PRESENCE_SESSION_H
#define PRESENCE_SESSION_H

#include <stdint.h>

#include "str.h"

struct session_id {
  int64_t ms;
  int64_t seq;
};

#define SESSION_ID_NONE ((struct session_id){0, 0})
#define SESSION_ID_TEXT_MAX 42 /* two int64 in decimal, '-', closing NUL */

enum status session_id_parse(struct str text, struct session_id *id) MUST_CHECK;
void session_id_format(struct session_id id, char out[SESSION_ID_TEXT_MAX]);
int session_id_compare(struct session_id a, struct session_id b); /* <0, 0, >0 */

/* The stable place of a device: its bucket among the tenant's, by XXH64 of its id. */
uint32_t placement_bucket(struct str device, uint32_t buckets);
/* The partition of a bucket: buckets of a tenant go round over the partitions, beginning at one that its name's hash picks, so
 * that many small tenants spread too. */
uint32_t placement_partition(struct str tenant, uint32_t bucket, uint32_t partitions);

#define TENANT_ID_MAX 63  /* [a-z0-9][a-z0-9_-]{0,62} */
#define DEVICE_ID_MAX 128 /* bytes of UTF-8 without U+0000..001F, U+007F..009F */
bool tenant_id_valid(struct str tenant);
bool device_id_valid(struct str device);

#define TTL_MIN_MS 100
#define TTL_MAX_MS INT64_C(2592000000) /* 30 days */
#define META_MAX_BYTES 4096
#define META_MAX_DEPTH 32

#endif
