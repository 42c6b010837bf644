/* directory.h: tenants and tokens of PostgreSQL, cached in memory. Lookups are lock-free for a loop: it holds a snapshot for one
 * pass. A thread of its own refreshes it (each second, and at once when a loop asks); with PostgreSQL away the last snapshot
 * stays in force. */
#ifndef PRESENCE_DIRECTORY_H
#define PRESENCE_DIRECTORY_H

#include "hash.h"
#include "loop.h"
#include "str.h"

enum token_scope { SCOPE_DEVICE = 1, SCOPE_READ = 2, SCOPE_EVENTS = 4, SCOPE_ADMIN = 8 };

/* Immutable, valid as long as the snapshot it came from is held. */
struct tenant {
  struct str id;
  int64_t generation;
  uint32_t buckets;
  int64_t default_ttl_ms, min_ttl_ms, max_ttl_ms;
  int64_t max_devices;
  int64_t heartbeats_per_second; /* 0 = unlimited */
  int64_t known_devices;         /* rows in presence.device when last looked; for the soft device limit */
  bool deleting;                 /* being deleted: nothing is accepted */
};

struct token {
  uint8_t sha256[HASH_SHA256_BYTES]; /* of its secret */
  struct str tenant_id;              /* empty for an admin token */
  unsigned scopes;                   /* bits of enum token_scope */
  int64_t expires_ms;                /* by PostgreSQL's clock; INT64_MAX: never */
  bool revoked;
};

struct directory;
struct directory_snapshot;

enum status directory_new(const char *postgres_url, const struct clock *clock, struct directory **directory) MUST_CHECK;
/* Starts the thread. STATUS_UNAVAILABLE where the first load fails within wait_ms. */
enum status directory_start(struct directory *directory, int64_t wait_ms) MUST_CHECK;
void directory_stop(struct directory *directory); /* stops the thread; waiters get STATUS_UNAVAILABLE */
void directory_free(struct directory *directory);

/* The newest snapshot, held (reference counted) until released. Any thread. */
struct directory_snapshot *directory_hold(struct directory *directory);
void directory_release(struct directory_snapshot *snapshot);
/* Lock-free: false as soon as there is a newer one to hold. */
bool directory_is_newest(const struct directory *directory, const struct directory_snapshot *snapshot);
/* True while PostgreSQL answered the last time it was asked (at least each second). Any thread. */
bool directory_is_up(const struct directory *directory);

const struct tenant *directory_tenant(const struct directory_snapshot *snapshot, struct str tenant); /* NULL: unknown */

/* The token with this secret; NULL: unknown in this snapshot. The secret is hashed; hashes are compared in constant time.
 * STATUS_NO_MEMORY is the only failure. */
enum status directory_token(const struct directory_snapshot *snapshot, struct str secret, const struct token **token) MUST_CHECK;
/* Neither revoked nor expired by PostgreSQL's clock; now_us = the clock's monotonic time. */
bool directory_token_is_valid(const struct directory_snapshot *snapshot, const struct token *token, int64_t now_us);

/* Asks for a refresh that begins after this call, for a token or tenant not in the snapshot (made a moment ago). done() runs once
 * on the loop's thread; waiter is embedded in its owner. refreshed = false: PostgreSQL could not be asked. */
struct directory_waiter {
  void (*done)(struct directory_waiter *waiter, bool refreshed);
  struct loop *loop;
  struct loop_task task; /* the directory's */
  bool refreshed;        /* the directory's */
  struct directory_waiter *next;
};
/* STATUS_FULL: too many wait; STATUS_UNAVAILABLE: the thread does not run. done() is then not called. Any thread. */
enum status directory_refresh(struct directory *directory, struct directory_waiter *waiter) MUST_CHECK;

#endif
