/* router.h: from method and raw path to a route of routes.def. */
#ifndef PRESENCE_HTTP_ROUTER_H
#define PRESENCE_HTTP_ROUTER_H

#include "http.h"
#include "path.h"

/* A scope of routes only: open for a peer on loopback, else for an admin token. */
#define SCOPE_ADMIN_UNLESS_LOCAL (1U << 16)

/* As a bit set: several methods of one path in an Allow header. */
enum http_method {
  METHOD_GET = 1,
  METHOD_HEAD = 2,
  METHOD_POST = 4,
  METHOD_PUT = 8,
  METHOD_PATCH = 16,
  METHOD_DELETE = 32,
  METHOD_OPTIONS = 64,
  METHOD_OTHER = 128,
};
#define ALLOW_TEXT_MAX 64

enum http_method http_method_parse(const char *text);
/* "GET, HEAD, POST" of a set of methods. */
void http_methods_format(unsigned methods, char out[ALLOW_TEXT_MAX]);

/* What the table says of a route. */
unsigned route_scopes(enum route_id route);
size_t route_body_max(enum route_id route);
#define ROUTE_LABEL_MAX 32
void route_label(enum route_id route, char out[ROUTE_LABEL_MAX]); /* for metrics: "heartbeat"; of ROUTE_COUNT: "none" */
/* Served by a process without the role api too. */
bool route_is_operational(enum route_id route);

enum route_verdict { ROUTE_FOUND, ROUTE_NO_PATH, ROUTE_NO_METHOD };
struct route_match {
  enum route_id route; /* ROUTE_FOUND; ROUTE_COUNT otherwise */
  unsigned methods;    /* that the path knows */
  bool has_tenant, has_device;
  struct str tenant, device, asset; /* raw, pointing into the path */
};
/* HEAD finds the routes of GET. only_operational: as if the table had no others. */
enum route_verdict router_match(enum http_method method, struct str raw_path, bool only_operational, struct route_match *match);

#endif
