/* adoption.h: makes a Redis server usable that no worker has adopted yet: after every restart, fail-over or loss its run_id is
 * not the one in the partition's clock, and all scripts answer `initialising`.
 *
 *   run_id -> floor (highest session in PostgreSQL) -> adopt: raise the stream's last id above the floor, then set run_id
 *                                                            or, where the server is empty: rebuild, then set run_id
 *
 * Any worker does it for any partition, held or not; the script is idempotent. Used by the coordinator's thread only. */
#ifndef PRESENCE_WORKER_ADOPTION_H
#define PRESENCE_WORKER_ADOPTION_H

#include "log.h"
#include "pg.h"
#include "worker/rebuild.h"

struct adoption {
  const struct redis_target *target;
  const struct clock *clock;
  struct redis_conn *conn;    /* borrowed */
  struct pg_client *postgres; /* borrowed */
  struct redis_round checks;
  struct redis_call *call;
  struct rebuild rebuild;
  struct log_limit wait_limit;
};

enum status adoption_init(struct adoption *adoption, const struct redis_target *target, const struct clock *clock,
                          int64_t outage_ms, struct redis_conn *conn, struct pg_client *postgres) MUST_CHECK;
void adoption_free(struct adoption *adoption); /* zero-initialised is fine */

/* Looks at every partition and adopts where it is needed, or takes a step of the rebuild under way (adoption_is_rebuilding).
 * STATUS_OK: all servers are adopted. */
enum status adoption_round(struct adoption *adoption) MUST_CHECK;
static inline bool adoption_is_rebuilding(const struct adoption *adoption) { return adoption->rebuild.under_way; }

#endif
