/* address.h: where one server listens. Private to service/redis. */
#ifndef PRESENCE_REDIS_ADDRESS_H
#define PRESENCE_REDIS_ADDRESS_H

#include <stdbool.h>

#include "str.h"

#define ADDRESS_HOST_MAX 253 /* of a name, RFC 1035 section 2.3.4 */

struct address {
  char *host; /* a name, or a numeric address without brackets; NULL: path */
  char *path; /* of a Unix socket */
  int port;
  char *text; /* for people: "127.0.0.1:6379", "[::1]:6379", "unix:/run/redis.sock" */
};

/* Copies. STATUS_INVALID: a host that is empty or too long, has a NUL in it, or a port out of range. */
enum status address_set(struct address *address, struct str host, int64_t port) MUST_CHECK;
enum status address_copy(struct address *address, const struct address *other) MUST_CHECK;
void address_clear(struct address *address);
bool address_equal(const struct address *a, const struct address *b);

#endif
