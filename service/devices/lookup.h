/* lookup.h: what is known of some devices of a request's tenant, by the reading rules of the design:
 *
 *   1. Redis, read_devices: online, in doubt, over: that is the answer
 *   2. nothing there, or a close not yet published: the rows in PostgreSQL, read after the script and never before, since a row
 * is committed before its close is taken away; the larger session of close and row wins
 *   3. a row that says online although Redis has no facts: the script once more (the device came back meanwhile), then `unknown`
 *
 * Reading never extends life. */
#ifndef PRESENCE_DEVICES_LOOKUP_H
#define PRESENCE_DEVICES_LOOKUP_H

#include "device.h"
#include "outbox.h"
#include "pg_pool.h"
#include "tenant_reload.h"

#define LOOKUP_DEVICES_MAX 1000

struct lookup_device {
  struct str device; /* the caller's; valid by device_id_valid */
  bool found;        /* false: never seen */
  struct device_view view;
  /* The rest is the lookup's. */
  struct device_place place;
  struct store_device redis; /* metadata copied */
  struct device_row row;     /* the lookup's to free */
  bool row_is_older;         /* the caller has read the row, before: that is enough where Redis does not contradict it */
  bool wanted;               /* in the round at hand */
};

/* Embedded in memory of the request. */
struct lookup {
  struct request *request;
  struct lookup_device *devices;
  size_t count; /* at most LOOKUP_DEVICES_MAX */
  /* Once. STATUS_OK: each device has its answer, valid until lookup_free(). STATUS_NOT_FOUND: the tenant is gone. */
  void (*done)(struct lookup *lookup, enum status status);
  /* The rest is the lookup's. */
  enum status status; /* the first failure of the round */
  size_t pending;
  bool stale, reloaded, second;
  bool postgres_failed; /* status is PostgreSQL's, not Redis's */
  struct tenant_reload reload;
  struct lookup_rows *rows;
};

/* The caller has set request, devices (each its device), count and done. done() may run before this returns. */
void lookup_start(struct lookup *lookup);
void lookup_free(struct lookup *lookup);
/* The answer to the request where done() came with another status than STATUS_OK; after lookup_free(). */
void lookup_reply_failure(const struct lookup *lookup, enum status status);

#endif
