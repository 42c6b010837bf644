/* pgbouncer.h: a private PgBouncer in transaction mode before the test program's PostgreSQL. Few connections of its own, so that
 * clients share them. */
#ifndef PRESENCE_TEST_PGBOUNCER_H
#define PRESENCE_TEST_PGBOUNCER_H

#include "support/child.h"
#include "support/postgres_server.h"

struct pgbouncer {
  struct child child;
  const char *folder; /* of its socket */
};

bool pgbouncer_is_here(void); /* false: the set-up could not get it */
void pgbouncer_start(struct pgbouncer *pooler, const struct database *database);
const char *pgbouncer_url(const struct pgbouncer *pooler, const struct database *database);
void pgbouncer_stop(struct pgbouncer *pooler);

#endif
