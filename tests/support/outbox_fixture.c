#include "support/test.h"

#include "support/outbox_fixture.h"

#include <stdlib.h>

struct pg_client *outbox_client(const struct outbox_fixture *fixture) {
  struct pg_client *client;
  assert_int_equal(pg_client_new(fixture->database.url, "test", clock_system(), &client), STATUS_OK);
  return client;
}

int outbox_setup(void **state) {
  struct outbox_fixture *fixture = calloc(1, sizeof *fixture);
  assert_non_null(fixture);
  database_create(&fixture->database, true);
  fixture->client = outbox_client(fixture);
  *state = fixture;
  return 0;
}

int outbox_teardown(void **state) {
  struct outbox_fixture *fixture = *state;
  pg_client_free(fixture->client);
  database_drop(&fixture->database);
  free(fixture);
  return 0;
}

struct transition online_at(const char *device, int64_t ms) {
  return (struct transition){.type = TRANSITION_ONLINE,
                             .tenant = STR_LIT("t1"),
                             .device = str_from(device),
                             .session = {ms, 0},
                             .online_since_ms = ms,
                             .ttl_ms = 1000,
                             .last_seen_ms = ms,
                             .offline_at_ms = TIME_MS_LOST,
                             .detected_at_ms = ms};
}

struct transition offline_at(const char *device, int64_t ms) {
  struct transition entry = online_at(device, ms);
  entry.type = TRANSITION_OFFLINE;
  entry.reason = REASON_TIMEOUT;
  entry.last_seen_ms = ms + 500;
  entry.offline_at_ms = ms + 1500;
  entry.detected_at_ms = ms + 1600;
  return entry;
}

struct outbox_counts append_all(struct pg_client *client, const struct transition *entries, size_t count) {
  struct outbox_counts counts;
  enum status status = outbox_append(client, 3, entries, count, &counts);
  if (status != STATUS_OK) fail_msg("outbox_append: %s: %s", status_name(status), pg_client_error(client));
  return counts;
}

const char *outbox_lines(struct database *database) {
  return sql_text(database,
                  "SELECT device, session, coalesce(payload->>'reason', right(type, 6)) FROM presence.outbox ORDER BY seq", NULL);
}
