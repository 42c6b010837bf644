/* linger.h: a lingering close. A connection that is closed while its client still sends is reset by TCP, and the client may never
 * see the answer (RFC 9112 section 9.6). So the socket is kept for a moment after the library has let go of it, its sending half
 * closed, and what arrives is dropped. The loop's thread only. */
#ifndef PRESENCE_HTTP_LINGER_H
#define PRESENCE_HTTP_LINGER_H

#include "loop.h"

struct lingerer;
struct linger_list {
  struct lingerer *head;
  unsigned count;
};

/* Takes a copy of fd, which the caller goes on to close. Bounded in number, time and bytes; where it can't, nothing happens. */
void linger_start(struct linger_list *list, struct loop *loop, int fd);
void linger_stop_all(struct linger_list *list);

#endif
