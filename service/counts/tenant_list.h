/* tenant_list.h: all tenants that are not being deleted, as the scripts need them. Private to whoever walks over all. */
#ifndef PRESENCE_COUNTS_TENANT_LIST_H
#define PRESENCE_COUNTS_TENANT_LIST_H

#include "pg.h"
#include "store.h"

/* Zero-initialised is empty and valid. */
struct tenant_list {
  PGresult *rows;
  size_t count;
  bool loaded;
};

/* Reads them anew; after a failure the list is as it was. */
enum status tenant_list_load(struct tenant_list *list, struct pg_client *client) MUST_CHECK;
/* Borrows from the list. */
struct store_tenant tenant_list_at(const struct tenant_list *list, size_t index);
void tenant_list_free(struct tenant_list *list);

#endif
