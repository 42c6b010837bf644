/* auth.h: who may call a route. Pure decisions on a directory snapshot; secrets are neither kept nor logged.
 * Format: RFC 6750 section 2.1, "Authorization: Bearer SECRET". */
#ifndef PRESENCE_HTTP_AUTH_H
#define PRESENCE_HTTP_AUTH_H

#include "directory.h"

enum { AUTH_SECRET_MAX = 256 };

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

/* scopes: bits of enum token_scope, each of which is needed; SCOPE_ADMIN is needed alone. tenant_id NULL: the path has none.
 * *tenant is set where it is named and allowed; it and nothing else lives in the snapshot. */
struct auth_result {
  unsigned scopes;             /* the token's */
  const struct tenant *tenant; /* NULL where the path has none */
};
enum auth_verdict auth_decide(const struct directory_snapshot *snapshot, struct str authorization, int64_t now_us,
                              unsigned scopes, const struct str *tenant_id, struct auth_result *result);

#endif
