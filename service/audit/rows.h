/* rows.h: device rows of PostgreSQL, as rebuild, mark and repair take them. Blocking. */
#ifndef PRESENCE_AUDIT_ROWS_H
#define PRESENCE_AUDIT_ROWS_H

#include "pg.h"
#include "store.h"

/* Zero-initialised is empty and valid. */
struct audit_rows {
  PGresult *result;
  size_t count;
};
void audit_rows_free(struct audit_rows *rows);

/* A place in the walk over all rows, by tenant and device; zero-initialised is its beginning. */
struct audit_place {
  char tenant[TENANT_ID_MAX + 1];
  char device[DEVICE_ID_MAX + 1];
};
/* The next rows, at most `most`, that are online and in one of the partitions for which wanted says so. place moves behind them;
 * fewer than `most`: there are no more. After a failure rows are as they were. */
enum status audit_rows_online(struct audit_rows *rows, struct pg_client *client, const bool *wanted, uint32_t partitions,
                              struct audit_place *place, size_t most) MUST_CHECK;
/* *row: the ith; its strings are borrowed. partition: where it is, or `partitions` where the row says another than its id does.
 */
void audit_rows_online_at(const struct audit_rows *rows, size_t i, uint32_t partitions, struct store_row *row,
                          uint32_t *partition);

/* The rows of these devices, at most STORE_ITEMS_MAX. found[i] answers devices[i]: false where its tenant is not there (any
 * more). A device without a row gets STORE_ROW_NONE. out borrows from rows and from the names. */
struct audit_name {
  struct str tenant, device;
};
enum status audit_rows_of(struct audit_rows *rows, struct pg_client *client, const struct audit_name *names, size_t count,
                          struct store_row *out, bool *found) MUST_CHECK;

#endif
