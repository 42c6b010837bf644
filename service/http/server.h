/* server.h: one loop's HTTP server: a libmicrohttpd daemon without threads, run by the loop.
 *
 *   server.c    the daemon: start, run after each pass, orderly stop, library log
 *   dispatch.c  a request's way in: route, token, body, handler
 *   reply.c     its way out: prepared answers and others
 */
#ifndef PRESENCE_HTTP_SERVER_H
#define PRESENCE_HTTP_SERVER_H

#include "linger.h"
#include "log.h"
#include "metrics.h"
#include "reply.h"
#include "request.h"

typedef void http_handler(struct request *request);
extern http_handler *const http_handlers[ROUTE_COUNT]; /* those that routes.def names */

struct http_server_options {
  struct api_loop *api; /* handed to handlers; api->loop runs the server */
  struct directory *directory;
  http_handler *const *handlers; /* by enum route_id */
  int listen_fd;                 /* taken over */
  bool only_operational;         /* healthz, readyz, metrics; the rest is 404 */
  int64_t request_timeout_ms, idle_timeout_ms;
  size_t max_connections;  /* of this loop */
  const char *cors_origin; /* "": none; borrowed */
  bool tls;                /* HTTPS with what certificate.h shows */
};

/* *error: one clear line (malloc'd) or NULL. */
enum status http_server_new(const struct http_server_options *options, struct http_server **server, char **error) MUST_CHECK;
/* Part of the loop's after-pass hook, before the batcher sends: answers what was replied to. */
void http_server_run(struct http_server *server);
/* The longest sleep in us the library allows, -1: any. 0 only while something is left to do. */
int64_t http_server_sleep_us(struct http_server *server);

/* A client is connected that has no request under way. */
bool http_server_may_hear(const struct http_server *server);
/* Until the next http_server_run, which then looks at all of them at once, new requests do not wake the loop. Returns whether it
 * is so: the caller sees to a pass soon. */
bool http_server_rest(struct http_server *server, bool rest);

/* An orderly stop: takes what is in the listen queue, closes the listener, closes idle connections, lets the others end. */
void http_server_drain(struct http_server *server);
/* Connections go, whatever they do; those whose handler works stay until it has replied. */
void http_server_cut(struct http_server *server);
/* Nothing is connected, no handler works: it may be freed. */
bool http_server_is_idle(const struct http_server *server);
/* On the loop's thread or after its end. Needs http_server_is_idle. */
void http_server_free(struct http_server *server);

#endif
