/* tenant_reload.h: a request whose tenant settings turned out to be old (STATUS_STALE, RECORD_STALE) gets the new ones. */
#ifndef PRESENCE_TENANT_RELOAD_H
#define PRESENCE_TENANT_RELOAD_H

#include "http.h"

/* Embedded in its owner, which lives until done() has run. */
struct tenant_reload {
  struct directory_waiter waiter;
  struct request *request;
  /* On the loop's thread, once, never from inside tenant_reload(). STATUS_OK: request->tenant is as fresh as the call;
   * STATUS_NOT_FOUND: there is no such tenant any more; STATUS_UNAVAILABLE: PostgreSQL could not be asked. */
  void (*done)(struct tenant_reload *reload, enum status status);
};

/* STATUS_FULL: done() will not run. */
enum status tenant_reload(struct tenant_reload *reload, struct request *request,
                          void (*done)(struct tenant_reload *reload, enum status status)) MUST_CHECK;

/* The answer to a request whose tenant is gone: as if it had never been (404 for an admin, else 403). */
void tenant_reply_gone(struct request *request);

#endif
