/* store.h: what a worker asks of presence.webhook: the functions of the migration, one call each. Blocking: the webhooks' thread.
 */
#ifndef PRESENCE_WEBHOOK_STORE_H
#define PRESENCE_WEBHOOK_STORE_H

#include "pg.h"
#include "webhook/window.h"

struct webhook_lease {
  int64_t id, version;
};

/* Takes and keeps leases for so long; all that the worker then holds, at most `most` of them. */
enum status webhook_store_lease(struct pg_client *client, const char *worker, int64_t lease_ms, struct webhook_lease *leases,
                                size_t most, size_t *count) MUST_CHECK;
enum status webhook_store_release(struct pg_client *client, const char *worker) MUST_CHECK;

/* Zero-initialised; freed by webhook_settings_free, also after a failure. Texts end in a NUL. */
struct webhook_settings {
  int64_t id, version;
  struct buf tenant, url, types; /* types: with commas between */
  struct buf key;                /* to sign with */
  int64_t cursor;
  int64_t delivered[WINDOW_MAX]; /* above it, ascending */
  size_t delivered_count;
  int64_t attempts, failing_ms;
};
/* STATUS_NOT_FOUND: the worker does not hold it any more. */
enum status webhook_store_load(struct pg_client *client, const char *worker, int64_t id,
                               struct webhook_settings *settings) MUST_CHECK;
void webhook_settings_free(struct webhook_settings *settings); /* leaves it zeroed, the key overwritten */

struct webhook_progress {
  int64_t id, version, cursor;
  const int64_t *delivered;
  size_t delivered_count;
  int64_t attempts, failing_ms;
  const char *error; /* of an attempt since the last save; "": none failed */
  bool succeeded;    /* one since the last save did */
};
/* STATUS_NOT_FOUND: it is not the worker's any more, or somebody changed it. */
enum status webhook_store_save(struct pg_client *client, const char *worker, const struct webhook_progress *progress) MUST_CHECK;
/* Pauses it; reason: "failing", "gone", "expired". STATUS_NOT_FOUND as above. */
enum status webhook_store_pause(struct pg_client *client, const char *worker, int64_t id, int64_t version, const char *reason,
                                const char *error) MUST_CHECK;

/* Calls `found` for each tenant that has rows behind *seen, among the next few thousand, and moves *seen on; *more: there may be
 * more behind it. */
enum status webhook_store_new_tenants(struct pg_client *client, int64_t *seen, bool *more,
                                      void (*found)(void *context, struct str tenant), void *context) MUST_CHECK;

/* All webhooks, by the state that people see. */
enum webhook_state { WEBHOOK_ACTIVE, WEBHOOK_FAILING, WEBHOOK_PAUSED, WEBHOOK_STATE_COUNT };
extern const char *const webhook_state_names[WEBHOOK_STATE_COUNT];
struct webhook_figures {
  int64_t count[WEBHOOK_STATE_COUNT];
  double oldest_pending_s[WEBHOOK_STATE_COUNT]; /* age of the oldest event not delivered; 0: none */
};
enum status webhook_store_figures(struct pg_client *client, struct webhook_figures *figures) MUST_CHECK;

#endif
