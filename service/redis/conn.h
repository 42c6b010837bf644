/* conn.h: what the start-up checks need of a connection. Private to service/redis. */
#ifndef PRESENCE_REDIS_CONN_H
#define PRESENCE_REDIS_CONN_H

#include "wire.h"

/* The open connection behind a partition; connects if needed. */
enum status conn_wire(struct redis_conn *conn, uint32_t partition, struct wire **wire) MUST_CHECK;

#endif
