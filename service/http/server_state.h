/* server_state.h: what server.c, dispatch.c and reply.c share.
 *
 * To suspend a connection and resume it costs three system calls (out of the library's epoll set, into it again, a read that
 * finds nothing), and Redis mostly answers within the next passes. So a request whose handler has not replied is polled first:
 * the library keeps its connection among those with something to do and asks for the answer at each run, which is cheap, and is
 * not run for that reason alone. Who was polled in vain POLLED_RUNS_MAX times is suspended: a slow Redis, a long poll. */
#ifndef PRESENCE_HTTP_SERVER_STATE_H
#define PRESENCE_HTTP_SERVER_STATE_H

#include "api.h"
#include "server.h"

enum {
  /* Request line and headers; over it 414 or 431. */
  HEADERS_MAX_BYTES = 8192,
  /* They, the notes that the library makes about each header, and the answer: room for 12 headers where they fill
   * HEADERS_MAX_BYTES, for 30 where they take 7000. All of it is memory that each open connection holds, since the library clears
   * it after a request. */
  CONNECTION_MEMORY_BYTES = 9728,
  STATUS_SLOTS = 24,
  POLLED_RUNS_MAX = 32,
  POLLED_SLEEP_US = 1000, /* between two runs while anybody is polled: the library's own work must not wait longer */
};

struct http_server {
  struct http_server_options options;
  struct loop *loop;
  struct MHD_Daemon *daemon;
  struct loop_watch watch; /* of the library's epoll descriptor */
  bool draining;
  bool run_due; /* the library has something to do of which it does not tell by its time-out */
  size_t polled_count;
  int64_t last_run_us;

  struct connections connections;
  struct linger_list closing; /* linger.h */
  struct request_pool requests;
  size_t requests_alive; /* orphans too */
  struct body_pool bodies;
  struct replies replies;
  struct directory_snapshot *snapshot; /* held; the newest seen */
  uint64_t snapshot_serial;

  struct metric_series *seconds;
  struct metric_series *answered[ROUTE_COUNT + 1][STATUS_SLOTS]; /* found at their first use */
  struct log_limit library_log, failed_log;
};

/* server.c */
void server_count(struct http_server *server, enum route_id route, unsigned http_status);

/* dispatch.c: the library's callbacks (microhttpd.h; context: the server), and the end of a request */
void *dispatch_begin(void *context, const char *uri, struct MHD_Connection *mhd);
enum MHD_Result dispatch_handle(void *context, struct MHD_Connection *mhd, const char *url, const char *method,
                                const char *version, const char *upload, size_t *upload_size, void **request_context);
void dispatch_completed(void *context, struct MHD_Connection *mhd, void **request_context, enum MHD_RequestTerminationCode code);
void dispatch_release(struct http_request *request);
/* Hands the answer to the library. */
enum MHD_Result dispatch_send(struct http_request *request);

#endif
