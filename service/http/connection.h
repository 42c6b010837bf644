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
 * An answer that goes on (http_stream.h) is between two states instead of SENDING:
 *   STREAMING       nothing waits         never: but whoever has left is found by a visit
 *   STREAM_SENDING  a piece waits         it has waited for STREAM_STALL_MS: the client does not read
 *
 * Two things the library does not tell: when the first byte of a later request comes (it speaks up once a request line is whole),
 * and that a client has gone which sent its last bytes and its end in one go (it reads once per event, and there is no second
 * event). So connections that are idle, streaming or receiving for a while are visited in rounds, a few per tick, and the kernel
 * is asked (TCP_INFO): bytes received against the bytes of the requests so far; has the peer closed. The loop's thread only. */
#ifndef PRESENCE_HTTP_CONNECTION_H
#define PRESENCE_HTTP_CONNECTION_H

#include <stddef.h>

#include "auth.h"
#include "loop.h"

enum connection_state {
  CONNECTION_RECEIVING,
  CONNECTION_WORKING,
  CONNECTION_SENDING,
  CONNECTION_STREAMING,
  CONNECTION_STREAM_SENDING,
  CONNECTION_IDLE,
  CONNECTION_STATE_COUNT,
};

struct stream;

struct connection {
  enum connection_state state;
  int fd; /* the library's */
  bool peer_is_local;
  bool cut;            /* shutdown(2) was called: the library will close it */
  bool rejected_early; /* answered before its request was whole: what still comes is read and dropped (linger.h) */
  int64_t since_us;    /* when it came into its state */
  uint64_t consumed;   /* bytes of the requests that were whole, in clear text */
  struct auth_memo auth;
  struct stream *stream;              /* NULL: its answer is none */
  struct connection *next, *previous; /* in its state's list */
};

struct connection_list {
  struct connection *head, *tail; /* head: longest in this state */
  struct connection *visit_next;  /* NULL: the round is over */
  int64_t round_started_us;
};

struct connections {
  struct loop *loop;
  struct connection_list lists[CONNECTION_STATE_COUNT];
  struct loop_timer tick;
  int64_t request_timeout_us, idle_timeout_us, stall_us, visit_us;
  size_t count, max;
  uint64_t accepted; /* in all */
  size_t cut_count;  /* of count: cut, the library has not closed them yet */
  bool closing;      /* an orderly stop: nothing stays idle */
};

void connections_init(struct connections *connections, struct loop *loop, int64_t request_timeout_ms, int64_t idle_timeout_ms,
                      size_t max);
/* Stops the deadlines. */
void connections_stop(struct connections *connections);

/* Accepted: RECEIVING. NULL: no memory. */
struct connection *connections_add(struct connections *connections, int fd, bool peer_is_local);
void connections_remove(struct connections *connections, struct connection *connection); /* frees it */
void connections_move(struct connections *connections, struct connection *connection, enum connection_state state);
/* The request of this many bytes is whole. bytes 0: not known (chunked, TLS), the kernel is asked. */
void connections_request_whole(struct connections *connections, struct connection *connection, uint64_t bytes);

/* The peer has closed or reset it, as far as the kernel knows. */
bool connection_has_ended(const struct connection *connection);

/* The library closes it at its next run. */
void connections_cut(struct connections *connections, struct connection *connection);
/* No connection stays idle from now on, and nobody gets more than a second to send or to read. */
void connections_close(struct connections *connections);
/* Whatever they do. */
void connections_cut_all(struct connections *connections);

#endif
