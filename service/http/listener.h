/* listener.h: the listening sockets, one per loop on one address, so that the kernel spreads new connections over the loops.
 *
 * The first one is bound alone: another process on the port is an error, not silent company. SO_REUSEPORT is set only then, which
 * is enough for our own further sockets to join (socket(7); Linux looks at the option of both sockets when the second one binds)
 * and makes any other process's first socket fail. Call from one thread. */
#ifndef PRESENCE_HTTP_LISTENER_H
#define PRESENCE_HTTP_LISTENER_H

#include <sys/socket.h>

#include "str.h"

struct listener {
  struct sockaddr_storage address;
  socklen_t address_len;
  int fd; /* the first one; -1 once it was taken */
};

/* Binds and listens. *error: one clear line (malloc'd; NULL where there is no memory). */
enum status listener_open(struct listener *listener, const char *listen, char **error) MUST_CHECK;
/* A descriptor for the next loop; the caller closes it. */
enum status listener_take(struct listener *listener, int *fd) MUST_CHECK;
void listener_close(struct listener *listener); /* what was not taken */
/* "127.0.0.1:8080" with the real port. */
#define LISTENER_TEXT_MAX 64
void listener_format(const struct listener *listener, char out[LISTENER_TEXT_MAX]);

/* Raises the process's limit of open files towards what max_connections and `others` need. Returns how many connections fit, at
 * most max_connections. */
int64_t listener_raise_file_limit(int64_t max_connections, int64_t others);

#endif
