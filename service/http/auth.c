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

static enum auth_verdict token_verdict(enum status status) {
  if (status == STATUS_OK) return AUTH_ALLOWED;
  return status == STATUS_NOT_FOUND ? AUTH_UNKNOWN_TOKEN : AUTH_NO_TOKEN;
}

enum auth_verdict auth_decide(const struct directory_snapshot *snapshot, struct str authorization, int64_t now_us,
                              unsigned scopes, const struct str *tenant_id, struct auth_result *result) {
  *result = (struct auth_result){0};
  struct str secret;
  if (!auth_bearer(authorization, &secret)) return AUTH_NO_TOKEN;
  struct str own_tenant = STR_NONE;
  enum auth_verdict verdict = token_verdict(directory_token(snapshot, secret, now_us, &result->scopes, &own_tenant));
  if (verdict != AUTH_ALLOWED) return verdict;

  bool admin = (result->scopes & SCOPE_ADMIN) != 0;
  if (tenant_id != NULL) {
    if (!admin && !str_equal(*tenant_id, own_tenant)) return AUTH_FORBIDDEN;
    result->tenant = directory_tenant(snapshot, *tenant_id);
    if (result->tenant == NULL || result->tenant->deleting) return admin ? AUTH_UNKNOWN_TENANT : AUTH_FORBIDDEN;
  }
  return admin || (result->scopes & scopes) == scopes ? AUTH_ALLOWED : AUTH_NO_SCOPE;
}
