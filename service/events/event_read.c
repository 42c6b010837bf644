#include "event_read.h"

#include <inttypes.h>
#include <stdio.h>

#include "outbox/pg_array.h"

enum { NUMBER_TEXT_MAX = 24, OLDEST_TRIES = 3 };

/* The columns that read_row expects. */
#define EVENT_COLUMNS "seq, presence.to_ms(occurred_at), id, type, tenant, device, payload"

static struct str value(const PGresult *result, int row, int column) {
  return (struct str){PQgetvalue(result, row, column), (size_t)PQgetlength(result, row, column)};
}

enum status event_page_get(const struct event_page *page, int i, struct cloud_event *event) {
  const PGresult *result = page->result;
  event->id = value(result, i, 2);
  event->type = value(result, i, 3);
  event->tenant = value(result, i, 4);
  event->device = value(result, i, 5);
  event->data = value(result, i, 6);
  enum status status = str_to_int64(value(result, i, 0), &event->seq);
  if (status == STATUS_OK) status = str_to_int64(value(result, i, 1), &event->occurred_ms);
  return status == STATUS_INVALID ? STATUS_PROTOCOL : status;
}

void event_page_free(struct event_page *page) {
  PQclear(page->result);
  *page = (struct event_page){0};
}

/* page->last: of the batch, at least. */
static enum status make_batch(const struct event_page *page, struct event_batch **out) {
  struct event_batch *batch = NULL;
  enum status status = event_batch_new((size_t)page->count, page->after, page->last, &batch);
  for (int row = 0; row < page->count && status == STATUS_OK; row++) {
    struct cloud_event event;
    status = event_page_get(page, row, &event);
    if (status != STATUS_OK) break;
    status = event_batch_add(batch, &event);
    if (event.seq > batch->last) batch->last = event.seq;
  }
  if (status == STATUS_OK) status = event_batch_finish(batch);
  if (status == STATUS_OK)
    *out = batch;
  else
    event_batch_release(batch);
  return status == STATUS_INVALID ? STATUS_PROTOCOL : status;
}

enum status event_read_bounds(struct pg_client *client, int64_t *newest, int64_t *dropped) {
  PGresult *result;
  enum status status =
      pg_client_exec(client, "SELECT presence.newest_seq(), dropped_seq FROM presence.outbox_horizon", 0, NULL, &result);
  if (status == STATUS_OK && PQntuples(result) != 1) status = STATUS_PROTOCOL;
  if (status == STATUS_OK) status = str_to_int64(value(result, 0, 0), newest);
  if (status == STATUS_OK) status = str_to_int64(value(result, 0, 1), dropped);
  PQclear(result);
  return status == STATUS_REFUSED || status == STATUS_INVALID ? STATUS_UNAVAILABLE : status;
}

enum status event_read_new(struct pg_client *client, int64_t after, int64_t most, struct event_batch **batch, bool *full) {
  char after_text[NUMBER_TEXT_MAX], most_text[NUMBER_TEXT_MAX];
  (void)snprintf(after_text, sizeof after_text, "%" PRId64, after);
  (void)snprintf(most_text, sizeof most_text, "%" PRId64, most);
  const char *const parameters[] = {after_text, most_text};
  struct event_page page = {.after = after, .last = after};
  enum status status =
      pg_client_exec(client,
                     "SELECT " EVENT_COLUMNS " FROM (SELECT * FROM presence.outbox WHERE seq > $1 ORDER BY seq LIMIT $2) AS next"
                     " ORDER BY tenant, seq",
                     2, parameters, &page.result);
  if (status == STATUS_OK) {
    page.count = PQntuples(page.result);
    *full = page.count == most;
    status = make_batch(&page, batch);
  }
  event_page_free(&page);
  return status == STATUS_REFUSED ? STATUS_UNAVAILABLE : status;
}

static enum status ask_tenant(struct pg_client *client, struct str tenant, int64_t after, int64_t most, PGresult **result) {
  char after_text[NUMBER_TEXT_MAX], most_text[NUMBER_TEXT_MAX];
  (void)snprintf(after_text, sizeof after_text, "%" PRId64, after);
  (void)snprintf(most_text, sizeof most_text, "%" PRId64, most);
  const Oid types[] = {PG_OID_TEXT, 0, 0};
  const char *const values[] = {tenant.data, after_text, most_text};
  const int lengths[] = {(int)tenant.len, 0, 0};
  const int formats[] = {1, 0, 0};
  return pg_client_exec_params(client, "SELECT " EVENT_COLUMNS " FROM presence.tenant_events($1, $2, $3)", 3, types, values,
                               lengths, formats, 0, result);
}

static bool is_expired(const PGresult *result) {
  const char *code = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  return code != NULL && strcmp(code, "PR410") == 0;
}

/* newest: read before, so that a page which is not full holds all of the tenant up to it. */
static enum status read_page(struct pg_client *client, struct str tenant, int64_t after, int64_t most, int64_t newest,
                             struct event_page *page, struct buf *message) {
  page->after = after;
  enum status status = ask_tenant(client, tenant, after, most, &page->result);
  if (status == STATUS_OK) {
    struct cloud_event newest_row = {.seq = after};
    page->count = PQntuples(page->result);
    if (page->count > 0) status = event_page_get(page, page->count - 1, &newest_row);
    page->last = page->count < most && newest > newest_row.seq ? newest : newest_row.seq;
  } else if (status == STATUS_REFUSED && is_expired(page->result)) {
    buf_clear(message);
    status = buf_append_str(message, str_from(PQresultErrorField(page->result, PG_DIAG_MESSAGE_PRIMARY)));
    if (status == STATUS_OK) status = STATUS_NOT_FOUND;
  }
  return status == STATUS_REFUSED ? STATUS_UNAVAILABLE : status;
}

enum status event_read_page(struct pg_client *client, struct str tenant, int64_t after, int64_t most, struct event_page *page,
                            struct buf *message) {
  int64_t newest = 0;
  int64_t dropped = 0;
  enum status status = STATUS_NOT_FOUND;
  *page = (struct event_page){0};
  /* Between the two statements the retention may drop a day. */
  for (int tries = 0; tries < OLDEST_TRIES && status == STATUS_NOT_FOUND; tries++) {
    status = event_read_bounds(client, &newest, &dropped);
    if (status != STATUS_OK) return status;
    event_page_free(page);
    status = read_page(client, tenant, after == EVENTS_FROM_OLDEST ? dropped : after, most, newest, page, message);
    if (after != EVENTS_FROM_OLDEST) break;
  }
  return status;
}

enum status event_read_tenant(struct pg_client *client, struct str tenant, int64_t after, int64_t most,
                              struct event_batch **batch, struct buf *message) {
  struct event_page page;
  enum status status = event_read_page(client, tenant, after, most, &page, message);
  if (status == STATUS_OK) status = make_batch(&page, batch);
  event_page_free(&page);
  return status;
}
