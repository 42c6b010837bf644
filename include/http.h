/* http.h: what a handler sees of an HTTP request, and the table of routes. libmicrohttpd stays behind it.
 *
 * Flow of a request on its loop's thread:
 *   headers in -> route (404, 405) -> token (401, 403; maybe waits for the directory) -> declared length (413) -> body in ->
 *   handler -> [waits: batcher, Redis, PostgreSQL pool] -> exactly one reply_*()
 * A handler runs once, when the whole body is there; it must end in exactly one reply_*() call, at once or later from a callback
 * on the same thread. A client that has gone by then is no concern of the handler's: the request lives until the reply. */
#ifndef PRESENCE_HTTP_H
#define PRESENCE_HTTP_H

#include "directory.h"

struct request;
struct api_loop;

/* service/http/routes.def: ROUTE(ID, METHOD, "/v1/tenants/{tenant}/…", SCOPE bits (0: open), body limit in bytes, handler) */
enum route_id {
#define ROUTE(id, method, pattern, scope, body_max, handler) ROUTE_##id,
#include "../service/http/routes.def"
#undef ROUTE
  ROUTE_COUNT
};

/* The handlers, named in routes.def; each lives in the folder of what it is about. */
#define ROUTE(id, method, pattern, scope, body_max, handler) void handler(struct request *request);
#include "../service/http/routes.def"
#undef ROUTE

enum { ASSET_NAME_MAX = 32 };

struct request {
  struct api_loop *api; /* the loop that serves it, and through it everything else (api.h) */
  enum route_id route;
  struct str tenant_id; /* percent-decoded; empty where the path has none */
  struct str device;    /* percent-decoded, valid by device_id_valid */
  struct str asset;     /* the name of a file, as in the path; empty where there is none or it is too long to be one */
  struct tenant tenant; /* a copy of the directory's; its id is tenant_id. Set where the path has a tenant */
  unsigned scopes;      /* of the token */
  struct str body;      /* whole, within the route's limit */
  int64_t started_us;   /* monotonic: when its headers were there */
};

/* Memory that lives as long as the request; zeroed; NULL when there is none (reply 503 then). */
void *request_alloc(struct request *request, size_t size);
/* A query parameter, decoded ('+' is a space); false where absent. A doubled one or a broken percent code has been refused. */
bool request_query(const struct request *request, const char *name, struct str *value);
bool request_header(const struct request *request, const char *name, struct str *value);
/* What a call takes of its query. False: it has answered 400, and the handler returns. */
bool request_query_only(struct request *request, const char *const *names, size_t count) MUST_CHECK; /* no other parameter */
bool request_query_number(struct request *request, const char *name, int64_t least, int64_t most, int64_t absent,
                          int64_t *value) MUST_CHECK;

/* For an answer that takes long: is its token still good for it? What is asked of a request's token when it comes in, once more.
 */
bool request_is_allowed(struct request *request);
/* For the same: its client has gone, or will at least send no more. Asks the kernel. */
bool request_is_abandoned(const struct request *request);

/* The answers. Each takes the request from the handler. */
void reply_empty(struct request *request, unsigned http_status);                  /* 204 and the like; prepared once */
void reply_json(struct request *request, unsigned http_status, struct buf *body); /* takes the buffer's memory */
void reply_text(struct request *request, unsigned http_status, const char *content_type, struct buf *body);
/* A file that is part of the program: its bytes are not copied, so they must stay. The browser keeps it and asks each time
 * whether it is still the same (304). policy: a Content-Security-Policy, or NULL. */
struct reply_file {
  struct str bytes;
  uint64_t fingerprint; /* another one for other bytes */
  const char *content_type, *policy;
};
void reply_file(struct request *request, const struct reply_file *file);
/* {"error": word, "message": formatted}; 503 and 429 get Retry-After. */
void reply_error(struct request *request, unsigned http_status, const char *word, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
void reply_retry(struct request *request, unsigned http_status, unsigned retry_after_s, const char *word, const char *format, ...)
    __attribute__((format(printf, 5, 6)));
/* The answer to a status from a road: 503 unavailable/initialising with Retry-After, 500 where it is our fault. */
void reply_status(struct request *request, enum status status);
/* The same where PostgreSQL was asked: 503 says that it is PostgreSQL which is away. */
void reply_postgres_status(struct request *request, enum status status);

#endif
