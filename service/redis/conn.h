/* conn.h: what the start-up checks need of a connection. Private to service/redis. */
#ifndef PRESENCE_REDIS_CONN_H
#define PRESENCE_REDIS_CONN_H

#include "wire.h"

const struct redis_target *conn_target(const struct redis_conn *conn);
/* The open connection behind a partition, and its address for people; connects if needed. Both until the next call on the conn.
 */
enum status conn_wire(struct redis_conn *conn, uint32_t partition, struct wire **wire, const char **address) MUST_CHECK;

#endif
