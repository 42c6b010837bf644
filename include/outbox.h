/* outbox.h: transitions into PostgreSQL, and what the service asks of its tables. Blocking: worker and pool threads only.
 * The SQL functions behind it are described in migrations/README.md. */
#ifndef PRESENCE_OUTBOX_H
#define PRESENCE_OUTBOX_H

#include "pg.h"
#include "transition.h"

struct outbox_counts {
  /* Rows written, by kind; repairs of the history included. */
  int64_t online, timeout, disconnect, state_lost;
  int64_t repeats;  /* entries refused by the guard: PostgreSQL already had them */
  int64_t repairs;  /* rows that make a history whole (state_lost and the like) */
  int64_t rejected; /* entries put aside in presence.rejected */
};

/* Appends entries of one partition in stream order, at most OUTBOX_APPEND_MAX, exactly once however often it is repeated. When
 * PostgreSQL refuses the batch because of a row (not because it is down), the batch is halved until the row is alone; that one
 * goes to presence.rejected and the others are appended. STATUS_OK: committed. STATUS_CLOSED, STATUS_UNAVAILABLE: repeat. */
#define OUTBOX_APPEND_MAX 1000
enum status outbox_append(struct pg_client *client, uint32_t partition, const struct transition *entries, size_t count,
                          struct outbox_counts *counts) MUST_CHECK;

/* Puts a stream entry that could not be decoded aside in presence.rejected, once per entry however often it is repeated.
 * fields: its fields and values as a JSON object of strings. */
enum status outbox_reject(struct pg_client *client, uint32_t partition, struct session_id entry, struct str fields,
                          const char *error) MUST_CHECK;

/* The largest session that PostgreSQL knows in the partition; SESSION_ID_NONE where none. */
enum status outbox_last_session(struct pg_client *client, uint32_t partition, struct session_id *session) MUST_CHECK;

/* Makes the partitions of the next days, drops the old ones by retention, cleans the default one. Safe to run from several
 * processes at once. */
enum status outbox_maintain(struct pg_client *client, int64_t retention_days, int64_t forget_days) MUST_CHECK;

/* The consumer or group that is nearest to losing rows unread. */
#define OUTBOX_READER_NAME_MAX 100
struct outbox_reader {
  char name[OUTBOX_READER_NAME_MAX]; /* "consumer billing", cut where longer; "": there is no reader */
  double retention_used;             /* age of its oldest unread row / retention; at least 1 where rows have been lost */
};
enum status outbox_slowest_reader(struct pg_client *client, int64_t retention_days, struct outbox_reader *reader) MUST_CHECK;

/* A device's last known state. The strings are owned by the struct. */
struct device_row {
  bool found;
  bool online;
  enum transition_reason reason;
  struct session_id session;
  int64_t online_since_ms, last_seen_ms, offline_at_ms, ttl_ms; /* TIME_MS_LOST where null */
  struct buf meta;                                              /* the bytes sent; len 0: none */
};
/* rows[i] answers devices[i]; at most 1000 a call; found = false where there is none. Free each meta with buf_free. */
enum status outbox_device_rows(struct pg_client *client, struct str tenant, const struct str *devices, size_t count,
                               struct device_row *rows) MUST_CHECK;

/* Some of a tenant's devices, in the order of the bytes of their ids. Zero-initialised; freed by device_page_free, also after a
 * failure. */
#define DEVICE_PAGE_MAX 1000
struct device_page {
  size_t count;
  bool more; /* there are further ones */
  struct buf names;
  uint32_t ends[DEVICE_PAGE_MAX];          /* in names */
  struct device_row rows[DEVICE_PAGE_MAX]; /* of one that is online: only that, and the session */
};
/* The first `most` (1 to DEVICE_PAGE_MAX) behind `after` whose ids begin with prefix; either may be empty. */
enum status outbox_device_page(struct pg_client *client, struct str tenant, struct str after, struct str prefix, size_t most,
                               struct device_page *page) MUST_CHECK;
struct str device_page_id(const struct device_page *page, size_t i);
void device_page_free(struct device_page *page);

/* The device's newest `most` sessions and its availability, as the JSON object of the HTTP API, appended to *json.
 * STATUS_NOT_FOUND: there is no such device. */
enum status outbox_device_history(struct pg_client *client, struct str tenant, struct str device, int64_t most,
                                  struct buf *json) MUST_CHECK;

/* Removes the row of a device that is offline; the guard against repeats stays. last: the session that ended last, as far as the
 * caller knows; NULL: whichever it was. */
enum forget_outcome {
  FORGET_DONE,
  FORGET_RETURNED, /* a later session has been published: the row stays */
  FORGET_WAITING,  /* the end of `last` has not been published yet */
  FORGET_ONLINE,   /* the row says online */
  FORGET_UNKNOWN,  /* there is no row */
};
enum status outbox_forget_device(struct pg_client *client, struct str tenant, struct str device, const struct session_id *last,
                                 enum forget_outcome *outcome) MUST_CHECK;

/* How many rows the tenant has in presence.device. */
enum status outbox_known_devices(struct pg_client *client, struct str tenant, int64_t *known) MUST_CHECK;

/* Checks schema version and records or compares the number of partitions (deployment). STATUS_REFUSED with one clear line in
 * *message (malloc'd) where they do not fit: too old a schema, other partitions. */
enum status outbox_check_deployment(struct pg_client *client, int64_t partitions, char **message) MUST_CHECK;

/* Forward-only migrations embedded in the program; repeatable; two processes at once are safe (advisory lock).
 * *applied = how many were new. */
enum status outbox_migrate(struct pg_client *client, size_t *applied, char **message) MUST_CHECK;

#endif
