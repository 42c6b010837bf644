/* webhooks.h: events of the outbox, POSTed to the URLs that tenants have asked for.
 *
 *   presence.webhook: leases ──► endpoints (window: events read, not all delivered; health: how often to ask)
 *   outbox, per tenant ────────► window ──► sender (libcurl) ──► receivers
 *                                window ◄── results          progress ──► presence.webhook
 *
 * At least once, in order per device: an event counts as delivered once its receiver has answered 2xx, and that is saved
 * afterwards. Who serves an endpoint is decided by a lease in its row; two workers at one endpoint may repeat events and do no
 * other harm. One thread. Metrics: webhook_deliveries, webhook_endpoints, webhook_oldest_pending. */
#ifndef PRESENCE_WEBHOOKS_H
#define PRESENCE_WEBHOOKS_H

#include "clock.h"
#include "config.h"
#include "status.h"

struct webhooks;

/* config must outlive it. */
enum status webhooks_new(const struct config *config, const struct clock *clock, struct webhooks **webhooks) MUST_CHECK;
void webhooks_free(struct webhooks *webhooks);

/* One round: leases, new events, requests, results, progress; waits until there is more to do, for a second at most. *sleep_us:
 * 0. Another status than STATUS_OK: PostgreSQL did not do what was asked. */
enum status webhooks_tick(struct webhooks *webhooks, int64_t *sleep_us) MUST_CHECK;
/* After the last round: waits a moment for what is under way, saves progress and gives the leases back. */
void webhooks_finish(struct webhooks *webhooks);
/* Ends a wait, and a statement that takes too long, for a quick stop; may be called again and again. Any thread. */
void webhooks_interrupt(struct webhooks *webhooks);

#endif
