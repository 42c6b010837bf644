/* rebuild.h: an emptied Redis gets its open sessions back from the device rows that are online.
 *
 *   adopt says "empty" and takes the token -> rebuild_add, for each such partition
 *   rebuild_step, again and again: a page of rows -> one script call to each partition -> after the last page: adopted
 *
 * One walk over the rows serves all partitions that were lost together. A worker that is overtaken (its token went to another
 * one) is told so by its next step and leaves the partition alone. Used by the coordinator's thread only. */
#ifndef PRESENCE_WORKER_REBUILD_H
#define PRESENCE_WORKER_REBUILD_H

#include "audit/rows.h"
#include "redis_round.h"

struct rebuild {
  char token[STORE_TOKEN_LEN + 1]; /* this worker's; the same in all its rebuilds */
  bool under_way;
  /* private */
  const struct redis_target *target;
  const struct clock *clock;
  struct redis_conn *conn;    /* borrowed */
  struct pg_client *postgres; /* borrowed */
  int64_t outage_ms;
  bool *wanted;                          /* by partition: ours to rebuild */
  char (*run_ids)[REDIS_RUN_ID_LEN + 1]; /* likewise: of its server when the token was taken */
  struct store_row *rows;                /* REBUILD_PAGE, sorted by partition */
  uint32_t *partitions;                  /* of the page's rows */
  int64_t away_since_us;                 /* since when no server has answered; 0: one has */
  struct redis_round round;
  struct audit_place place;
  int64_t restored, misplaced, began_us;
};

#define REBUILD_PAGE 2000 /* rows; about 250 a partition with 8 of them */

enum status rebuild_init(struct rebuild *rebuild, const struct redis_target *target, const struct clock *clock, int64_t outage_ms,
                         struct redis_conn *conn, struct pg_client *postgres) MUST_CHECK;
void rebuild_free(struct rebuild *rebuild); /* zero-initialised is fine */

/* The token of this partition is ours. Only before the first step. */
void rebuild_add(struct rebuild *rebuild, uint32_t partition, const char *run_id);
/* A page. STATUS_OK: under_way says whether there is more. Another status: a server is away; the same page is tried again. */
enum status rebuild_step(struct rebuild *rebuild) MUST_CHECK;

#endif
