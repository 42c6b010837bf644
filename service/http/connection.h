/* connection.h: what a loop knows of each client connection, and the deadlines that libmicrohttpd does not keep: it has idle
 * timeouts only, which a client that sends a byte a second never meets.
 *
 *           accept                    request whole               reply queued            reply sent
 *   (new) ---------> RECEIVING ------------------> WORKING ------------------> SENDING ------------> IDLE
 *                        ^                                                                            |
 *                        +------------------ first byte of a later request --------------------------+
 *
 *   state      list, oldest first   cut by shutdown(2) when
 *   RECEIVING  receiving            request_timeout has passed since accept or the first byte
 *   WORKING    working              never: its handler answers
 *   SENDING    sending              idle_timeout has passed: the client does not read its answer
 *   IDLE       idle                 idle_timeout has passed; or the oldest one, where a new connection needs its place
 *
 * The library does not tell when the first byte of a later request comes; it only speaks up once a request line is whole. So each
 * idle connection is visited every `visit` interval, a few per tick: the kernel's count of bytes received (TCP_INFO) against the
 * bytes of the requests so far. The loop's thread only. */
#ifndef PRESENCE_HTTP_CONNECTION_H
#define PRESENCE_HTTP_CONNECTION_H

#include <stddef.h>

#include "loop.h"

enum connection_state {
  CONNECTION_RECEIVING,
  CONNECTION_WORKING,
  CONNECTION_SENDING,
  CONNECTION_IDLE,
  CONNECTION_STATE_COUNT,
};

struct connection {
  enum connection_state state;
  int fd; /* the library's */
  bool peer_is_local;
  bool cut;                           /* shutdown(2) was called: the library will close it */
  bool rejected_early;                /* answered before its request was whole: what still comes is read and dropped (linger.h) */
  int64_t since_us;                   /* when it came into its state */
  uint64_t consumed;                  /* bytes of the requests that were whole, in clear text */
  struct connection *next, *previous; /* in its state's list */
};

struct connection_list {
  struct connection *head, *tail; /* head: longest in this state */
};

struct connections {
  struct loop *loop;
  struct connection_list lists[CONNECTION_STATE_COUNT];
  struct connection *visit_next; /* in the idle list; NULL: the round is over */
  int64_t round_started_us;
  struct loop_timer tick;
  int64_t request_timeout_us, idle_timeout_us, visit_us;
  size_t count, max;
  bool closing; /* an orderly stop: nothing stays idle */
};

void connections_init(struct connections *connections, struct loop *loop, int64_t request_timeout_ms, int64_t idle_timeout_ms,
                      size_t max);
/* Stops the deadlines. */
void connections_stop(struct connections *connections);

/* Accepted: RECEIVING. NULL: no memory. Where it takes the last place, the connection idle the longest makes room. */
struct connection *connections_add(struct connections *connections, int fd, bool peer_is_local);
void connections_remove(struct connections *connections, struct connection *connection); /* frees it */
void connections_move(struct connections *connections, struct connection *connection, enum connection_state state);
/* The request of this many bytes is whole. bytes 0: not known (chunked, TLS), the kernel is asked. */
void connections_request_whole(struct connections *connections, struct connection *connection, uint64_t bytes);

/* No connection stays idle from now on. */
void connections_close_idle(struct connections *connections);
/* Whatever they do. */
void connections_cut_all(struct connections *connections);

#endif
