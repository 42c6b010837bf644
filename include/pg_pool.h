/* pg_pool.h: a few threads with a PostgreSQL connection each, that do blocking work for event loops. */
#ifndef PRESENCE_PG_POOL_H
#define PRESENCE_PG_POOL_H

#include "loop.h"
#include "pg.h"

struct pg_pool;

/* One piece of work; embedded in its owner, which must live until done() has run. */
struct pg_job {
  void (*work)(struct pg_job *job, struct pg_client *client); /* on a pool thread; may block on PostgreSQL only */
  void (*done)(struct pg_job *job);                           /* on the loop's thread, once, whatever happened */
  struct loop *loop;
  struct loop_task task; /* the pool's */
  struct pg_job *next;   /* the pool's */
};

enum status pg_pool_new(const char *url, unsigned threads, size_t queue_limit, const struct clock *clock,
                        struct pg_pool **pool) MUST_CHECK;
/* STATUS_FULL where the queue is: done() is then not called. Any thread. */
enum status pg_pool_submit(struct pg_pool *pool, struct pg_job *job) MUST_CHECK;
/* Ends the jobs at hand as pg_client_interrupt does; what waits is not worked on. Every done() is posted: the loops must still
 * run. */
void pg_pool_stop(struct pg_pool *pool);
void pg_pool_free(struct pg_pool *pool);
/* True while the last use of PostgreSQL worked. Any thread. */
bool pg_pool_is_up(const struct pg_pool *pool);

#endif
