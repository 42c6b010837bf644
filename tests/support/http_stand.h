/* http_stand.h: the HTTP server alone: a real loop in a thread of its own, handlers that the test can steer, a directory made by
 * hand. No Redis, no PostgreSQL. The test program calls metrics_init first. */
#ifndef PRESENCE_TEST_HTTP_STAND_H
#define PRESENCE_TEST_HTTP_STAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Tenant "t" with these tokens; tenant "other" with OTHER_TOKEN. */
#define DEVICE_TOKEN "device-secret"
#define READ_TOKEN "read-secret"
#define OTHER_TOKEN "other-secret"
#define ADMIN_TOKEN "admin-secret"
#define REVOKED_TOKEN "revoked-secret"
#define EXPIRED_TOKEN "expired-secret"

struct http_stand_options {
  int64_t request_timeout_ms, idle_timeout_ms; /* 0: 10000, 75000 */
  size_t max_connections;                      /* 0: 1000 */
  const char *cors_origin;                     /* NULL: none */
  const char *address;                         /* NULL: "127.0.0.1:0" */
  bool tls;                                    /* the test has made a certificate (certificate.h) */
  bool only_operational;
};

/* What the handlers answer:
 *   POST …/heartbeat     204 at once
 *   POST …/heartbeats    200 {"length":n,"sum":s} of the body's bytes
 *   POST …/disconnect    204, when http_stand_release lets it
 *   GET …/devices/{d}    200 {"tenant":t,"device":d,"query":value of "q" or null}
 *   GET /healthz         200; /readyz 503; /metrics 200 (the real one) */
struct http_stand;
struct http_stand *http_stand_start(const struct http_stand_options *options); /* NULL: all defaults */
const char *http_stand_address(const struct http_stand *stand);
void http_stand_hold(struct http_stand *stand, bool on); /* at first on */
size_t http_stand_held(struct http_stand *stand);        /* disconnects that wait */
size_t http_stand_connections(struct http_stand *stand); /* of the server's, asked on its thread */
size_t http_stand_requests(struct http_stand *stand);    /* alive, those whose client has gone included */
size_t http_stand_allocations(struct http_stand *stand); /* so far, on its thread: alloc_count() */
/* An orderly stop begins: the listener closes. */
void http_stand_drain(struct http_stand *stand);
/* Drains, lets go what is held, cuts after cut_ms, ends the thread, frees; fails where something stays. */
void http_stand_stop(struct http_stand *stand, int64_t cut_ms);

#endif
