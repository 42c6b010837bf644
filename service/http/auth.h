/* auth.h: who may call a route. Decisions on a directory snapshot; secrets are not logged.
 * Format: RFC 6750 section 2.1, "Authorization: Bearer SECRET". */
#ifndef PRESENCE_HTTP_AUTH_H
#define PRESENCE_HTTP_AUTH_H

#include "directory.h"

enum { AUTH_SECRET_MAX = 256, AUTH_MEMO_BYTES = 104 };

/* The secret of an Authorization header; false where it is no bearer token. */
bool auth_bearer(struct str header, struct str *secret);

enum auth_verdict {
  AUTH_ALLOWED,
  AUTH_NO_TOKEN,       /* 401: none, revoked or expired */
  AUTH_UNKNOWN_TOKEN,  /* 401, after asking PostgreSQL once */
  AUTH_UNKNOWN_TENANT, /* 404, after asking PostgreSQL once: an admin token and no such tenant */
  AUTH_FORBIDDEN,      /* 403: another tenant's token */
  AUTH_NO_SCOPE,       /* 403 */
};

/* Which token the last request of a connection carried: a device repeats itself for hours, and a hash costs as much as all else
 * that this service does for a request in memory. Zero-initialised: none. */
struct auth_memo {
  uint64_t serial; /* of the snapshot that `token` is in; 0: none */
  const struct token *token;
  size_t len;
  char header[AUTH_MEMO_BYTES]; /* the Authorization header; longer ones are not remembered */
};

/* The token of an Authorization header: AUTH_ALLOWED and *token, AUTH_NO_TOKEN or AUTH_UNKNOWN_TOKEN. serial: another one for
 * each snapshot, above 0. */
enum auth_verdict auth_token(const struct directory_snapshot *snapshot, uint64_t serial, struct str authorization,
                             struct auth_memo *memo, int64_t now_us, const struct token **token);

/* scopes: bits of enum token_scope, each of which is needed. tenant_id NULL: the path has none. AUTH_ALLOWED: *tenant is the
 * tenant, in the snapshot (NULL where the path has none). */
enum auth_verdict auth_decide(const struct directory_snapshot *snapshot, const struct token *token, unsigned scopes,
                              const struct str *tenant_id, const struct tenant **tenant);

#endif
