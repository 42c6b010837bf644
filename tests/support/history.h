/* history.h: what the outbox says of a device, and the rules that every outbox must keep (promises P2, P4). */
#ifndef PRESENCE_TEST_HISTORY_H
#define PRESENCE_TEST_HISTORY_H

#include "support/postgres_server.h"

/* A device's rows by seq as compact text: "online offline(timeout) online"; "" where there are none. */
const char *history_of(struct database *database, const char *tenant, const char *device);
/* Waits until it is exactly this text; fails with what was seen last. */
void history_wait(struct database *database, const char *tenant, const char *device, const char *wanted);
int64_t history_count(struct database *database, const char *type); /* rows of "online" or "offline" */
/* A member of the payload of the device's n-th row (from 0), as text. */
const char *history_payload(struct database *database, const char *tenant, const char *device, int n, const char *member);

struct history_rules {
  bool clock_stepped; /* Redis's clock went back: a detection may bear an earlier time than the deadline */
};
/* All rules of invariants.sql over the whole outbox; fails with the rows that break one. */
void history_check(struct database *database, const struct history_rules *rules);

#endif
