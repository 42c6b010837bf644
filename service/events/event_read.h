/* event_read.h: rows of the outbox, and batches of them. Blocking: pool threads, the tailer's and the webhooks'. */
#ifndef PRESENCE_EVENT_READ_H
#define PRESENCE_EVENT_READ_H

#include "event_batch.h"
#include "pg.h"

/* From the oldest row that is kept. */
#define EVENTS_FROM_OLDEST INT64_C(-1)

/* Rows as PostgreSQL gave them. */
struct event_page {
  PGresult *result;
  int count;
  int64_t after; /* the rows are those behind it */
  int64_t last;  /* all that was asked for up to it is in the page */
};

/* The tenant's first `most` rows after a seq. page->last lies behind the last row where there are no more, so that who has read
 * everything does not fall behind the retention. STATUS_NOT_FOUND: rows after it have been dropped; *message (a buffer of the
 * caller's) tells which is the oldest. event_page_free in any case. */
enum status event_read_page(struct pg_client *client, struct str tenant, int64_t after, int64_t most, struct event_page *page,
                            struct buf *message) MUST_CHECK;
/* Row i of it; its texts live as long as the page. */
enum status event_page_get(const struct event_page *page, int i, struct cloud_event *event) MUST_CHECK;
void event_page_free(struct event_page *page);

/* The same as a batch. */
enum status event_read_tenant(struct pg_client *client, struct str tenant, int64_t after, int64_t most,
                              struct event_batch **batch, struct buf *message) MUST_CHECK;
/* The next rows of all tenants; *full: there may be more. */
enum status event_read_new(struct pg_client *client, int64_t after, int64_t most, struct event_batch **batch,
                           bool *full) MUST_CHECK;
/* The newest row that is visible, and the newest that the retention has dropped. */
enum status event_read_bounds(struct pg_client *client, int64_t *newest, int64_t *dropped) MUST_CHECK;

#endif
