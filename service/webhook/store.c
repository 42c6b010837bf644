#include "webhook/store.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>

#include "hash.h"

enum { NUMBER_TEXT_MAX = 24, LOOK_ROWS = 4000 };

const char *const webhook_state_names[WEBHOOK_STATE_COUNT] = {"active", "failing", "paused"};

static const char *number_text(int64_t number, char text[NUMBER_TEXT_MAX]) {
  (void)snprintf(text, NUMBER_TEXT_MAX, "%" PRId64, number);
  return text;
}

static struct str value(const PGresult *result, int row, int column) {
  return (struct str){PQgetvalue(result, row, column), (size_t)PQgetlength(result, row, column)};
}

static enum status read_number(const PGresult *result, int row, int column, int64_t *number) {
  enum status status = str_to_int64(value(result, row, column), number);
  return status == STATUS_INVALID ? STATUS_PROTOCOL : status;
}

/* PostgreSQL's own errors: what is wrong is logged by the caller, with pg_client_error. */
static enum status done(PGresult *result, enum status status) {
  PQclear(result);
  return status == STATUS_REFUSED ? STATUS_UNAVAILABLE : status;
}

/* A function that answers true, or false where the row is not as the caller believes. */
static enum status done_if_true(PGresult *result, enum status status) {
  if (status == STATUS_OK && (PQntuples(result) != 1 || strcmp(PQgetvalue(result, 0, 0), "t") != 0)) status = STATUS_NOT_FOUND;
  return done(result, status);
}

enum status webhook_store_lease(struct pg_client *client, const char *worker, int64_t lease_ms, struct webhook_lease *leases,
                                size_t most, size_t *count) {
  char lease_text[NUMBER_TEXT_MAX], most_text[NUMBER_TEXT_MAX];
  const char *const parameters[] = {worker, number_text(lease_ms, lease_text), number_text((int64_t)most, most_text)};
  PGresult *result;
  enum status status =
      pg_client_exec(client, "SELECT id, version FROM presence.lease_webhooks($1, $2, $3)", 3, parameters, &result);
  *count = 0;
  for (int row = 0; status == STATUS_OK && row < PQntuples(result) && *count < most; row++) {
    struct webhook_lease *lease = &leases[*count];
    status = read_number(result, row, 0, &lease->id);
    if (status == STATUS_OK) status = read_number(result, row, 1, &lease->version);
    if (status == STATUS_OK) ++*count;
  }
  return done(result, status);
}

enum status webhook_store_release(struct pg_client *client, const char *worker) {
  const char *const parameters[] = {worker};
  PGresult *result;
  enum status status = pg_client_exec(client, "SELECT presence.release_webhooks($1)", 1, parameters, &result);
  return done(result, status);
}

/* ---- Settings */

void webhook_settings_free(struct webhook_settings *settings) {
  if (settings->key.data != NULL) OPENSSL_cleanse(settings->key.data, settings->key.capacity);
  buf_free(&settings->key);
  buf_free(&settings->tenant);
  buf_free(&settings->url);
  buf_free(&settings->types);
  *settings = (struct webhook_settings){0};
}

/* With a closing NUL behind len. */
static enum status keep_text(struct buf *kept, struct str text) {
  enum status status = buf_append_str(kept, text);
  if (status == STATUS_OK) status = buf_append(kept, "", 1);
  if (status == STATUS_OK) kept->len--;
  return status;
}

static enum status keep_key(struct buf *key, struct str hex) {
  enum status status = buf_reserve(key, hex.len / 2);
  if (status == STATUS_OK) status = hex_decode(hex, key->data, hex.len / 2);
  if (status == STATUS_OK) key->len = hex.len / 2;
  return status;
}

/* "12,17": what does not fit is delivered again. */
static enum status read_delivered(struct str list, struct webhook_settings *settings) {
  while (list.len > 0 && settings->delivered_count < WINDOW_MAX) {
    const char *comma = memchr(list.data, ',', list.len);
    size_t len = comma != NULL ? (size_t)(comma - list.data) : list.len;
    if (str_to_int64((struct str){list.data, len}, &settings->delivered[settings->delivered_count++]) != STATUS_OK)
      return STATUS_PROTOCOL;
    list.data += comma != NULL ? len + 1 : len;
    list.len -= comma != NULL ? len + 1 : len;
  }
  return STATUS_OK;
}

static enum status read_settings(const PGresult *result, struct webhook_settings *settings) {
  enum status status = read_number(result, 0, 0, &settings->version);
  if (status == STATUS_OK) status = keep_text(&settings->tenant, value(result, 0, 1));
  if (status == STATUS_OK) status = keep_text(&settings->url, value(result, 0, 2));
  if (status == STATUS_OK) status = keep_text(&settings->types, value(result, 0, 3));
  if (status == STATUS_OK) status = keep_key(&settings->key, value(result, 0, 4));
  if (status == STATUS_OK) status = read_number(result, 0, 5, &settings->cursor);
  if (status == STATUS_OK) status = read_delivered(value(result, 0, 6), settings);
  if (status == STATUS_OK) status = read_number(result, 0, 7, &settings->attempts);
  if (status == STATUS_OK && str_to_int64(value(result, 0, 8), &settings->failing_ms) != STATUS_OK)
    settings->failing_ms = 0; /* null; or negative, after the host's clock was set back */
  return status;
}

enum status webhook_store_load(struct pg_client *client, const char *worker, int64_t id, struct webhook_settings *settings) {
  char id_text[NUMBER_TEXT_MAX];
  const char *const parameters[] = {worker, number_text(id, id_text)};
  PGresult *result;
  enum status status = pg_client_exec(client,
                                      "SELECT version, tenant, url, types, secret, cursor, delivered, attempts, failing_ms"
                                      " FROM presence.load_webhook($1, $2)",
                                      2, parameters, &result);
  settings->id = id;
  if (status == STATUS_OK) status = PQntuples(result) == 1 ? read_settings(result, settings) : STATUS_NOT_FOUND;
  return done(result, status);
}

/* ---- Progress */

static enum status append_delivered(const struct webhook_progress *progress, struct buf *list) {
  enum status status = buf_append_str(list, STR_LIT("{"));
  for (size_t i = 0; i < progress->delivered_count && status == STATUS_OK; i++) {
    if (i > 0) status = buf_append_str(list, STR_LIT(","));
    if (status == STATUS_OK) status = buf_append_int64(list, progress->delivered[i]);
  }
  return status == STATUS_OK ? buf_append(list, "}", 2) : status;
}

enum status webhook_store_save(struct pg_client *client, const char *worker, const struct webhook_progress *progress) {
  char numbers[5][NUMBER_TEXT_MAX];
  struct buf list = {0};
  PGresult *result = NULL;
  enum status status = append_delivered(progress, &list);
  const char *const parameters[] = {worker,
                                    number_text(progress->id, numbers[0]),
                                    number_text(progress->version, numbers[1]),
                                    number_text(progress->cursor, numbers[2]),
                                    list.data,
                                    number_text(progress->attempts, numbers[3]),
                                    progress->attempts > 0 ? number_text(progress->failing_ms, numbers[4]) : NULL,
                                    progress->error[0] != '\0' ? progress->error : NULL,
                                    progress->succeeded ? "t" : "f"};
  if (status == STATUS_OK)
    status = pg_client_exec(client, "SELECT presence.save_webhook($1, $2, $3, $4, $5, $6, $7, $8, $9)", 9, parameters, &result);
  buf_free(&list);
  return done_if_true(result, status);
}

enum status webhook_store_pause(struct pg_client *client, const char *worker, int64_t id, int64_t version, const char *reason,
                                const char *error) {
  char id_text[NUMBER_TEXT_MAX], version_text[NUMBER_TEXT_MAX];
  const char *const parameters[] = {worker, number_text(id, id_text), number_text(version, version_text), reason, error};
  PGresult *result;
  enum status status = pg_client_exec(client, "SELECT presence.stop_webhook($1, $2, $3, $4, $5)", 5, parameters, &result);
  return done_if_true(result, status);
}

/* ---- Looking */

enum status webhook_store_new_tenants(struct pg_client *client, int64_t *seen, bool *more,
                                      void (*found)(void *context, struct str tenant), void *context) {
  char seen_text[NUMBER_TEXT_MAX], most_text[NUMBER_TEXT_MAX];
  const char *const parameters[] = {number_text(*seen, seen_text), number_text(LOOK_ROWS, most_text)};
  PGresult *result;
  int64_t rows = 0, newest = *seen;
  enum status status =
      pg_client_exec(client, "SELECT tenant, last_seq, rows FROM presence.new_tenants($1, $2)", 2, parameters, &result);
  for (int row = 0; status == STATUS_OK && row < PQntuples(result); row++) {
    int64_t last = 0, count = 0;
    status = read_number(result, row, 1, &last);
    if (status == STATUS_OK) status = read_number(result, row, 2, &count);
    if (status != STATUS_OK) break;
    found(context, value(result, row, 0));
    if (last > newest) newest = last;
    rows += count;
  }
  if (status == STATUS_OK) *seen = newest;
  *more = rows == LOOK_ROWS;
  return done(result, status);
}

enum status webhook_store_figures(struct pg_client *client, struct webhook_figures *figures) {
  PGresult *result;
  enum status status =
      pg_client_exec(client,
                     "SELECT state, count(*), coalesce(max(extract(epoch FROM clock_timestamp() - oldest_pending)), 0)"
                     " FROM presence.webhook_status GROUP BY state",
                     0, NULL, &result);
  *figures = (struct webhook_figures){0};
  for (int row = 0; status == STATUS_OK && row < PQntuples(result); row++) {
    for (int state = 0; state < WEBHOOK_STATE_COUNT && status == STATUS_OK; state++) {
      if (strcmp(PQgetvalue(result, row, 0), webhook_state_names[state]) != 0) continue;
      status = read_number(result, row, 1, &figures->count[state]);
      double age_s = strtod(PQgetvalue(result, row, 2), NULL);
      figures->oldest_pending_s[state] = age_s > 0 ? age_s : 0;
    }
  }
  return done(result, status);
}
