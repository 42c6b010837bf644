/* aside.h: a stream entry that does not decode goes to presence.rejected as it is, so that it does not stall the stream. */
#ifndef PRESENCE_PUBLISHER_ASIDE_H
#define PRESENCE_PUBLISHER_ASIDE_H

#include "pg.h"
#include "store.h"

/* Blocking. Repeating it for the same entry changes nothing. */
enum status aside_put(struct pg_client *client, uint32_t partition, const struct stream_entry *entry) MUST_CHECK;

/* The entry's fields as a JSON object of strings; bytes that are no UTF-8 are replaced by '?'. */
enum status aside_format(const redisReply *fields, struct buf *out) MUST_CHECK;

#endif
