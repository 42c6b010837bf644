/* audit.h: device rows in PostgreSQL and facts in Redis are compared with each other and made to agree: after an adoption, after
 * PostgreSQL restarted or became another one (with an older state, perhaps), on demand and slowly all the time, without stopping
 * anything.
 *
 *   walk: rows that are online, then all open sessions -> mark: where they disagree, a marker on the stream
 *   publisher: a marker at the stream's head -> all earlier transitions are in PostgreSQL -> reads the row -> repair
 *
 * A disagreement at the walk is mostly a transition that is under way; the marker tells it from a real one. Each of the four real
 * ones is repaired as enum disagreement says. */
#ifndef PRESENCE_AUDIT_H
#define PRESENCE_AUDIT_H

#include "partition_set.h"
#include "pg.h"
#include "store.h"

/* "redis_older"; kind is one of the four that are repaired. Static storage. */
const char *audit_kind(enum disagreement kind);
const char *audit_meaning(enum disagreement kind);

/* The publisher's part: the markers of a run at the stream's head, at most STORE_ROWS_MAX. One thread. */
struct audit_repairer;
enum status audit_repairer_new(const struct redis_target *target, int64_t outage_ms, struct audit_repairer **repairer) MUST_CHECK;
void audit_repairer_free(struct audit_repairer *repairer);
/* STATUS_OK: the markers have done their work and may be trimmed. run_id: of the server they were read from. Metric:
 * audit_findings. */
enum status audit_repair(struct audit_repairer *repairer, struct pg_client *postgres, struct redis_conn *conn, uint32_t partition,
                         const char *run_id, const struct stream_entry *markers, size_t count) MUST_CHECK;

/* A walk over one partition, in steps of a page. What options point to must outlive it. */
struct audit_walk;
struct audit_walk_options {
  const struct redis_target *target;
  struct redis_conn *conn;
  struct pg_client *postgres;
  int64_t outage_ms;
  bool mark; /* false: only look */
  /* Called for each disagreement, undecided ones left out; may be NULL. The row is borrowed. */
  void (*differs)(void *context, uint32_t partition, const struct store_row *row, enum disagreement kind);
  void *context;
};
enum status audit_walk_new(const struct audit_walk_options *options, struct audit_walk **walk) MUST_CHECK;
void audit_walk_free(struct audit_walk *walk);
void audit_walk_begin(struct audit_walk *walk, uint32_t partition);
bool audit_walk_ended(const struct audit_walk *walk);
/* Another status than STATUS_OK: the same step is taken again. STATUS_FULL: too many transitions and markers wait for PostgreSQL.
 */
enum status audit_walk_step(struct audit_walk *walk) MUST_CHECK;

/* ---- the worker's part: each partition held, again and again. One thread. */
struct auditor;
struct auditor_options {
  const struct redis_target *target;
  const struct clock *clock;
  const struct partition_set *held;
  const char *postgres_url;
  int64_t outage_ms;
  int64_t interval_ms; /* from one walk over a partition to the next, where nothing calls for one earlier */
};
enum status auditor_new(const struct auditor_options *options, struct auditor **auditor) MUST_CHECK;
void auditor_free(struct auditor *auditor);
/* At most one step. Another status than STATUS_OK: a server did not answer. */
enum status auditor_tick(struct auditor *auditor, int64_t *sleep_us) MUST_CHECK;
void auditor_interrupt(struct auditor *auditor); /* ends a statement under way; any thread */

#endif
