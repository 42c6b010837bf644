#include "tenant_reload.h"

#include "api.h"

static void reloaded(struct directory_waiter *waiter, bool refreshed) {
  struct tenant_reload *reload = (struct tenant_reload *)waiter; /* its first member */
  struct request *request = reload->request;
  if (!refreshed) {
    reload->done(reload, STATUS_UNAVAILABLE);
    return;
  }
  struct directory_snapshot *snapshot = directory_hold(request->api->shared->directory);
  const struct tenant *tenant = directory_tenant(snapshot, request->tenant_id);
  bool found = tenant != NULL && !tenant->deleting;
  if (found) {
    request->tenant = *tenant;
    request->tenant.id = request->tenant_id; /* outlives the snapshot */
  }
  directory_release(snapshot);
  reload->done(reload, found ? STATUS_OK : STATUS_NOT_FOUND);
}

enum status tenant_reload(struct tenant_reload *reload, struct request *request,
                          void (*done)(struct tenant_reload *reload, enum status status)) {
  _Static_assert(offsetof(struct tenant_reload, waiter) == 0, "reloaded() casts");
  reload->request = request;
  reload->done = done;
  reload->waiter = (struct directory_waiter){.done = reloaded, .loop = request->api->loop};
  return directory_refresh(request->api->shared->directory, &reload->waiter);
}

void tenant_reply_gone(struct request *request) {
  if ((request->scopes & SCOPE_ADMIN) != 0)
    reply_error(request, 404, "not_found", "there is no tenant %.*s", STR_ARG(request->tenant_id));
  else
    reply_error(request, 403, "forbidden", "the token is not for tenant %.*s", STR_ARG(request->tenant_id));
}
