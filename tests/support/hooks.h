/* hooks.h: webhooks of a world, from the receivers of receiver.h. */
#ifndef PRESENCE_TEST_HOOKS_H
#define PRESENCE_TEST_HOOKS_H

#include "support/receiver.h"
#include "support/world.h"

/* What processes of such a world are started with: addresses of this machine are allowed, tries follow each other fast. */
#define HOOKS_ENVIRONMENT                                                                                                        \
  "PRESENCE_WEBHOOK_ALLOW_PRIVATE=yes", "PRESENCE_WEBHOOK_RETRY_MIN_MS=1", "PRESENCE_WEBHOOK_RETRY_MAX_MS=50"

/* `webhook add` for the world's tenant; words: further ones (NULL-terminated; may be NULL). The receiver gets to know the secret.
 * Returns the id. */
const char *hook_add(struct world *world, struct receiver *receiver, const char *path, const char *const *words);
/* The same with a URL of the test's own. */
const char *hook_add_url(struct world *world, struct receiver *receiver, const char *path, const char *url,
                         const char *const *words);
/* One column of presence.webhook_status. */
const char *hook_column(struct world *world, const char *id, const char *column);
/* Waits until it is in this state, for this reason: "paused gone", "active -". */
void hook_wait_state(struct world *world, const char *id, const char *state);
/* Lets another worker have all leases: as if time had passed since a worker was killed. */
void hook_end_leases(struct world *world);

/* Waits until the worker has looked at what people changed so far; the tenant has had events. */
void hook_settle(struct world *world, struct receiver *receiver);

/* Each of the devices d<first> … goes online and offline, one after the other: 2 * count events; waits until they are in the
 * outbox. */
void hook_events(struct world *world, int first, int count);
/* The same without waiting. */
void hook_cause_events(struct world *world, int first, int count);

#endif
