/* Walking over a tenant's devices, one device's history, forgetting one. */
#include <inttypes.h>
#include <stdio.h>

#include "device_row.h"
#include "pg_array.h"

#define HISTORY_LOOK_MAX 10000 /* ends of sessions read for one answer */

struct str device_page_id(const struct device_page *page, size_t i) {
  size_t begin = i == 0 ? 0 : page->ends[i - 1];
  return (struct str){page->names.data + begin, page->ends[i] - begin};
}

void device_page_free(struct device_page *page) {
  for (size_t i = 0; i < page->count; i++) buf_free(&page->rows[i].meta);
  buf_free(&page->names);
  page->count = 0;
}

static bool begins_with(struct str text, struct str prefix) {
  return text.len >= prefix.len && (prefix.len == 0 || memcmp(text.data, prefix.data, prefix.len) == 0);
}

static enum status take(const PGresult *result, struct str prefix, size_t most, struct device_page *page) {
  for (int row = 0; row < PQntuples(result); row++) {
    struct str id = {PQgetvalue(result, row, 0), (size_t)PQgetlength(result, row, 0)};
    if (!begins_with(id, prefix)) return STATUS_OK; /* nor does any behind it */
    page->more = page->count == most;
    if (page->more) return STATUS_OK;
    enum status status = buf_append_str(&page->names, id);
    if (status != STATUS_OK) return status;
    page->ends[page->count] = (uint32_t)page->names.len;
    status = device_row_read(result, row, 1, &page->rows[page->count++]);
    if (status != STATUS_OK) return status;
  }
  return STATUS_OK;
}

enum status outbox_device_page(struct pg_client *client, struct str tenant, struct str after, struct str prefix, size_t most,
                               struct device_page *page) {
  if (most == 0 || most > DEVICE_PAGE_MAX) return STATUS_INVALID;
  device_page_free(page);
  page->more = false;
  char limit[16];
  (void)snprintf(limit, sizeof limit, "%zu", most + 1); /* one more tells whether there are more */
  const Oid types[] = {PG_OID_TEXT, PG_OID_TEXT, PG_OID_TEXT, 0};
  const char *const values[] = {tenant.data, after.data, prefix.data, limit};
  const int lengths[] = {(int)tenant.len, (int)after.len, (int)prefix.len, 0};
  const int formats[] = {1, 1, 1, 0};
  PGresult *result;
  enum status status = pg_client_exec_params(client, "SELECT * FROM presence.device_page($1, $2, $3, $4)", 4, types, values,
                                             lengths, formats, 0, &result);
  if (status == STATUS_OK) status = take(result, prefix, most, page);
  PQclear(result);
  return status == STATUS_REFUSED ? STATUS_UNAVAILABLE : status;
}

enum status outbox_device_history(struct pg_client *client, struct str tenant, struct str device, int64_t most,
                                  struct buf *json) {
  char most_text[24], look_text[24];
  (void)snprintf(most_text, sizeof most_text, "%" PRId64, most);
  (void)snprintf(look_text, sizeof look_text, "%d", HISTORY_LOOK_MAX);
  const Oid types[] = {PG_OID_TEXT, PG_OID_TEXT, 0, 0};
  const char *const values[] = {tenant.data, device.data, most_text, look_text};
  const int lengths[] = {(int)tenant.len, (int)device.len, 0, 0};
  const int formats[] = {1, 1, 0, 0};
  PGresult *result;
  enum status status = pg_client_exec_params(client, "SELECT presence.device_history($1, $2, $3, $4)", 4, types, values, lengths,
                                             formats, 0, &result);
  if (status == STATUS_OK && PQntuples(result) != 1) status = STATUS_PROTOCOL;
  if (status == STATUS_OK && PQgetisnull(result, 0, 0)) status = STATUS_NOT_FOUND;
  if (status == STATUS_OK)
    status = buf_append_str(json, (struct str){PQgetvalue(result, 0, 0), (size_t)PQgetlength(result, 0, 0)});
  PQclear(result);
  return status == STATUS_REFUSED ? STATUS_UNAVAILABLE : status;
}

static enum status read_outcome(const char *word, enum forget_outcome *outcome) {
  static const char *const words[] = {[FORGET_DONE] = "forgotten",
                                      [FORGET_RETURNED] = "returned",
                                      [FORGET_WAITING] = "waiting",
                                      [FORGET_ONLINE] = "online",
                                      [FORGET_UNKNOWN] = "unknown"};
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    *outcome = (enum forget_outcome)i;
    if (strcmp(word, words[i]) == 0) return STATUS_OK;
  }
  return STATUS_PROTOCOL;
}

enum status outbox_forget_device(struct pg_client *client, struct str tenant, struct str device, const struct session_id *last,
                                 enum forget_outcome *outcome) {
  char ms[24] = "", seq[24] = "";
  if (last != NULL) {
    (void)snprintf(ms, sizeof ms, "%" PRId64, last->ms);
    (void)snprintf(seq, sizeof seq, "%" PRId64, last->seq);
  }
  const Oid types[] = {PG_OID_TEXT, PG_OID_TEXT, 0, 0};
  const char *const values[] = {tenant.data, device.data, last != NULL ? ms : NULL, last != NULL ? seq : NULL};
  const int lengths[] = {(int)tenant.len, (int)device.len, 0, 0};
  const int formats[] = {1, 1, 0, 0};
  PGresult *result;
  enum status status = pg_client_exec_params(client, "SELECT presence.forget_device($1, $2, $3, $4)", 4, types, values, lengths,
                                             formats, 0, &result);
  if (status == STATUS_OK) status = read_outcome(PQgetvalue(result, 0, 0), outcome);
  PQclear(result);
  return status == STATUS_REFUSED ? STATUS_UNAVAILABLE : status;
}
