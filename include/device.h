/* device.h: a device as the service sees it: where it lives in Redis, and how answers show it. */
#ifndef PRESENCE_DEVICE_H
#define PRESENCE_DEVICE_H

#include "directory.h"
#include "outbox.h"
#include "store.h"

/* A device's bucket among its tenant's, and that bucket's partition. */
struct device_place {
  uint32_t bucket, partition;
};
struct device_place device_place(const struct tenant *tenant, struct str device, uint32_t partitions);

/* The part of the directory's tenant that scripts need. */
struct store_tenant device_store_tenant(const struct tenant *tenant);

enum device_state { DEVICE_ONLINE, DEVICE_OFFLINE, DEVICE_UNKNOWN };

/* What an answer says about a device; the strings are borrowed. */
struct device_view {
  struct str device;
  enum device_state state;
  struct session_id session;
  int64_t online_since_ms, last_seen_ms, ttl_ms; /* TIME_MS_LOST: null */
  int64_t offline_at_ms;                         /* OFFLINE */
  enum transition_reason reason;                 /* OFFLINE */
  struct str meta;                               /* the bytes sent; len 0: none */
};

/* What Redis (read first) and the row in PostgreSQL (read after it) say together. */
enum device_verdict {
  DEVICE_KNOWN,
  DEVICE_NEVER_SEEN,
  DEVICE_READ_AGAIN /* the row says online although Redis has no facts: read Redis once more */
};
bool device_needs_row(const struct store_device *redis);
/* row is looked at only where device_needs_row. second: Redis was read once more, what is still odd is `unknown`. The view
 * borrows from both. */
enum device_verdict device_judge(struct str device, const struct store_device *redis, const struct device_row *row, bool second,
                                 struct device_view *view) MUST_CHECK;

/* The device object of the HTTP contract. more: further members as JSON text ("\"transition\":true"), or STR_NONE. */
enum status device_encode(struct buf *out, const struct device_view *view, struct str more) MUST_CHECK;

#endif
