/* request.h: the life of a request inside the server; http.h shows handlers the public half.
 *
 *   phase      who moves it on
 *   HEADERS    the library, when the headers are in: route, token, declared length
 *   DIRECTORY  the directory, asked once for a token or tenant it did not know (suspended)
 *   BODY       the library, as the body comes in
 *   DISCARD    the same, for a refused request with a small body: read to its end, so that the connection can stay
 *   HANDLING   the handler; where it does not reply at once it is polled (server_state.h), then the connection is suspended
 *   REPLIED    the library, which sends; then the request is released
 *
 * A request whose connection has gone while something still works for it (DIRECTORY, HANDLING) is an orphan: `mhd` is NULL, and
 * it is released when its answer comes. The loop's thread only. */
#ifndef PRESENCE_HTTP_REQUEST_H
#define PRESENCE_HTTP_REQUEST_H

#include "body.h"
#include "connection.h"
#include "library.h"
#include "path.h"
#include "router.h"
#include "session.h"

struct http_server;

enum request_phase { PHASE_HEADERS, PHASE_DIRECTORY, PHASE_BODY, PHASE_DISCARD, PHASE_HANDLING, PHASE_REPLIED };

enum { REQUEST_ARENA_BYTES = 1024 };

struct request_block; /* further memory of request_alloc */

struct http_request {
  struct request public; /* first: a handler's pointer is ours too */
  struct http_server *server;
  struct connection *connection;
  struct MHD_Connection *mhd; /* NULL: an orphan */
  enum request_phase phase;
  bool suspended; /* resumed by the reply */
  bool polled;    /* waits for the reply without being suspended, see server_state.h */
  unsigned polled_runs;
  bool asked_directory; /* once is enough */
  bool directory_refreshed;
  bool body_expected;  /* a length above 0 is declared, or chunked */
  bool body_known;     /* declared */
  bool body_too_large; /* the chunked kind */
  bool wants_continue; /* Expect: 100-continue */
  uint64_t body_declared;
  uint64_t body_discarded;
  struct body body;

  unsigned http_status; /* of the answer; 0: none yet */
  struct MHD_Response *response;
  bool response_shared;  /* one of the prepared ones: not ours to destroy */
  struct stream *stream; /* the answer goes on, see http_stream.h; NULL: it does not */

  char tenant_bytes[TENANT_ID_MAX];
  char device_bytes[DEVICE_ID_MAX];
  char asset_bytes[ASSET_NAME_MAX];
  char *query_raw; /* malloc'd copy of what followed the '?'; NULL: nothing */
  struct query *query;
  struct directory_waiter waiter;

  struct request_block *blocks;
  size_t arena_used;
  struct http_request *next; /* in the pool */
  _Alignas(16) char arena[REQUEST_ARENA_BYTES];
};

struct request_pool {
  struct http_request *free;
  size_t kept;
};

/* NULL: no memory. */
struct http_request *request_take(struct request_pool *pool);
void request_give(struct request_pool *pool, struct http_request *request);
void request_pool_free(struct request_pool *pool);

static inline struct http_request *request_private(struct request *request) { return (struct http_request *)request; }

#endif
