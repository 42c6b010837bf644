#include "auth.h"

#include <strings.h>

bool auth_bearer(struct str header, struct str *secret) {
  static const char scheme[] = "Bearer ";
  size_t at = sizeof scheme - 1;
  if (header.len <= at || strncasecmp(header.data, scheme, at) != 0) return false;
  while (at < header.len && header.data[at] == ' ') at++;
  size_t end = header.len;
  while (end > at && header.data[end - 1] == ' ') end--;
  *secret = (struct str){header.data + at, end - at};
  return end > at && end - at <= AUTH_SECRET_MAX && memchr(secret->data, ' ', secret->len) == NULL;
}

static bool memo_fits(const struct auth_memo *memo, uint64_t serial, struct str authorization) {
  return memo->serial == serial && memo->len == authorization.len &&
         hash_equal_ct(memo->header, authorization.data, authorization.len);
}

static void memo_set(struct auth_memo *memo, uint64_t serial, struct str authorization, const struct token *token) {
  memo->serial = 0;
  if (authorization.len > sizeof memo->header) return;
  memcpy(memo->header, authorization.data, authorization.len);
  memo->len = authorization.len;
  memo->token = token;
  memo->serial = serial;
}

enum auth_verdict auth_token(const struct directory_snapshot *snapshot, uint64_t serial, struct str authorization,
                             struct auth_memo *memo, int64_t now_us, const struct token **token) {
  struct str secret;
  if (memo_fits(memo, serial, authorization)) {
    *token = memo->token;
  } else {
    if (!auth_bearer(authorization, &secret) || directory_token(snapshot, secret, token) != STATUS_OK) return AUTH_NO_TOKEN;
    if (*token == NULL) return AUTH_UNKNOWN_TOKEN;
    memo_set(memo, serial, authorization, *token);
  }
  return directory_token_is_valid(snapshot, *token, now_us) ? AUTH_ALLOWED : AUTH_NO_TOKEN;
}

enum auth_verdict auth_decide(const struct directory_snapshot *snapshot, const struct token *token, unsigned scopes,
                              const struct str *tenant_id, const struct tenant **tenant) {
  bool admin = (token->scopes & SCOPE_ADMIN) != 0;
  *tenant = NULL;
  if (tenant_id != NULL) {
    if (!admin && !str_equal(*tenant_id, token->tenant_id)) return AUTH_FORBIDDEN;
    *tenant = directory_tenant(snapshot, *tenant_id);
    if (*tenant == NULL || (*tenant)->deleting) return admin ? AUTH_UNKNOWN_TENANT : AUTH_FORBIDDEN;
  }
  return admin || (token->scopes & scopes) == scopes ? AUTH_ALLOWED : AUTH_NO_SCOPE;
}
