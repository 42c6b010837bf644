/* reply.h: answers that are the same every time, made once per loop and shared by its connections. The loop's thread only. */
#ifndef PRESENCE_HTTP_REPLY_H
#define PRESENCE_HTTP_REPLY_H

#include <stdbool.h>

#include "library.h"
#include "status.h"

/* PREPARED(ID, status, "word", "message", Retry-After in s or 0). A word of "" is an answer without body. */
#define PREPARED_REPLIES                                                                                                         \
  PREPARED(NO_CONTENT, 204, "", "", 0)                                                                                           \
  PREPARED(NO_PATH, 404, "not_found", "there is nothing at this path", 0)                                                        \
  PREPARED(NO_TENANT, 404, "tenant_not_found", "there is no such tenant", 0)                                                     \
  PREPARED(NO_TOKEN, 401, "unauthorized",                                                                                        \
           "a valid token is needed: Authorization: Bearer SECRET; this one is missing, unknown, expired or revoked", 0)         \
  PREPARED(FORBIDDEN, 403, "forbidden", "the token belongs to another tenant, or there is no such tenant", 0)                    \
  PREPARED(NO_SCOPE, 403, "missing_scope", "the token lacks the scope that this call needs", 0)                                  \
  PREPARED(TOO_LARGE, 413, "body_too_large", "the body is larger than this call allows", 0)                                      \
  PREPARED(BAD_ID, 400, "bad_id",                                                                                                \
           "a device id is 1 to 128 bytes of UTF-8 without control characters, percent-encoded where the path needs it", 0)      \
  PREPARED(BAD_QUERY, 400, "bad_query", "the query has a broken percent code, a parameter twice, or more than 16 parameters", 0) \
  PREPARED(NO_MEMORY, 503, "out_of_memory", "no memory is free for this request; repeating is harmless", 1)                      \
  PREPARED(BODIES_FULL, 503, "busy", "too many large bodies are being received; repeating is harmless", 1)                       \
  PREPARED(TOKEN_UNCHECKED, 503, "postgres_unavailable",                                                                         \
           "the token or tenant is not known here and PostgreSQL cannot be asked at present", 1)                                 \
  PREPARED(UNAVAILABLE, 503, "redis_unavailable",                                                                                \
           "Redis cannot be reached: the request may or may not be in force; repeating is harmless", 1)                          \
  PREPARED(NO_POSTGRES, 503, "postgres_unavailable",                                                                             \
           "PostgreSQL is needed for this answer and cannot be reached at present; repeating is harmless", 1)                    \
  PREPARED(INITIALISING, 503, "initialising", "Redis is being prepared or rebuilt; repeating is harmless", 1)                    \
  PREPARED(BUSY, 503, "busy", "too much is waiting; repeating is harmless", 1)                                                   \
  PREPARED(STALE, 503, "settings_changed", "the tenant's settings have just changed; repeating is harmless", 1)                  \
  PREPARED(INTERNAL, 500, "internal", "an error of the service; it has been logged", 0)

enum prepared_reply {
#define PREPARED(id, status, word, message, retry_after_s) PREPARED_##id,
  PREPARED_REPLIES
#undef PREPARED
      PREPARED_COUNT
};

struct replies {
  struct MHD_Response *prepared[PREPARED_COUNT];
  const char *cors_origin; /* "": none; borrowed */
  bool closing;            /* Connection: close on every answer from now on */
};

enum status replies_init(struct replies *replies, const char *cors_origin) MUST_CHECK;
void replies_close_connections(struct replies *replies);
void replies_free(struct replies *replies);

struct http_request;
void reply_prepared(struct http_request *request, enum prepared_reply reply);
void reply_method_not_allowed(struct http_request *request, unsigned methods);
void reply_preflight(struct http_request *request, unsigned methods);

#endif
