/* redis_group.h: several Redis servers that belong together, on free TCP ports of 127.0.0.1 (and each on its Unix socket for the
 * test itself): a primary with replicas and Sentinels, or a cluster. */
#ifndef PRESENCE_TEST_REDIS_GROUP_H
#define PRESENCE_TEST_REDIS_GROUP_H

#include "support/pki.h"
#include "support/redis_server.h"

#define GROUP_SERVERS_MAX 8
#define GROUP_SENTINELS 3

/* Of a group that lets nobody in without a certificate, a user name and a password: only TLS on TCP, also among the servers, and
 * the users of deploy/redis. */
struct group_security {
  struct certified authority, server, client;
  const char *acl; /* a file for the Redis servers */
};
struct group_security *group_security_make(void);

struct redis_group {
  const struct group_security *security; /* NULL: none */
  struct redis_server servers[GROUP_SERVERS_MAX];
  int ports[GROUP_SERVERS_MAX];
  const char *configs[GROUP_SERVERS_MAX][40];
  size_t count;
  struct child sentinels[GROUP_SENTINELS];
  int sentinel_ports[GROUP_SENTINELS];
  const char *sentinel_sockets[GROUP_SENTINELS];
  const char *environment[5]; /* the service's options for it; [0] is PRESENCE_REDIS_URL */
};

/* servers[0] is the primary, the others its replicas, all in step when this returns; the Sentinels know them, and call the
 * primary "main". security: NULL for none. */
void sentinel_group_start(struct redis_group *group, size_t replicas, const struct group_security *security);
/* A cluster of so many primaries, the slots in equal ranges; the first has so many replicas (the last servers). */
void cluster_start(struct redis_group *group, size_t primaries, size_t replicas, const struct group_security *security);
/* Moves a slot to another primary as redis-cli does: begin, step until it says that no key is left, end. */
struct slot_move {
  struct redis_group *group;
  int slot;
  size_t from, to;
};
void slot_move_begin(const struct slot_move *move);
bool slot_move_step(const struct slot_move *move); /* at most a few keys */
void slot_move_end(const struct slot_move *move);
void redis_group_stop(struct redis_group *group); /* also when it was never started */

/* A world whose service has the group for its Redis. A short outage counts as one there, so that it is the presence clock which
 * saves the sessions, and not a long timeout. Its end stops the group, too. */
void group_world_start(void **state, const struct redis_group *group);
int group_world_stop(void **state, struct redis_group *group);

bool group_is_primary(const struct redis_server *server);
/* Waits until one other than `not_this` is a primary; its number. */
size_t group_wait_promoted(struct redis_group *group, size_t not_this);
/* Asks a Sentinel for a fail-over with everybody alive. */
void group_fail_over(struct redis_group *group);
/* The replica hears nothing more from its primary; Sentinels bring it back after a while. */
void group_cut_off(struct redis_group *group, size_t replica);
/* Waits until all replicas that are connected to this server have all that it has. */
void group_wait_in_step(struct redis_group *group, size_t primary, int replicas);

#endif
