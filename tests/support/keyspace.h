/* keyspace.h: what must hold among the keys of the service in Redis at every instant (design: keys), and when all is told. */
#ifndef PRESENCE_TEST_KEYSPACE_H
#define PRESENCE_TEST_KEYSPACE_H

#include "support/redis_server.h"

/* All rules of invariants.lua, at one instant; fails with the breaches. */
void keyspace_check(struct redis_server *server);
int64_t keyspace_open_sessions(struct redis_server *server); /* facts in all buckets */
int64_t keyspace_unpublished(struct redis_server *server);   /* entries of the transition streams */
/* Where a device's live field is; NULL: nowhere. The key, for HPEXPIRETIME and the like. */
const char *keyspace_live_key(struct redis_server *server, const char *tenant, const char *device);
const char *keyspace_session_key(struct redis_server *server, const char *tenant, const char *device);

#endif
