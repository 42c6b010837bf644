/* outbox_fixture.h: a fresh migrated database with a client, and transitions to append to it. */
#ifndef PRESENCE_TEST_OUTBOX_FIXTURE_H
#define PRESENCE_TEST_OUTBOX_FIXTURE_H

#include "outbox.h"
#include "support/postgres_server.h"

struct outbox_fixture {
  struct database database;
  struct pg_client *client;
};

int outbox_setup(void **state); /* of each test; *state is a struct outbox_fixture */
int outbox_teardown(void **state);
struct pg_client *outbox_client(const struct outbox_fixture *fixture); /* a further one; pg_client_free it */

/* Of tenant t1, session (ms, 0), which begins at ms; ttl 1000; no metadata. */
struct transition online_at(const char *device, int64_t ms);
/* A timeout: last seen at ms + 500, over at ms + 1500. */
struct transition offline_at(const char *device, int64_t ms);

/* Appends to partition 3 and fails the test unless it is committed. */
struct outbox_counts append_all(struct pg_client *client, const struct transition *entries, size_t count);
/* All outbox rows as lines "device session online|reason", by seq. */
const char *outbox_lines(struct database *database);

#endif
