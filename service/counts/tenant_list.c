#include "tenant_list.h"

static bool number_at(const PGresult *rows, int row, int column, int64_t *value) {
  return str_to_int64(str_from(PQgetvalue(rows, row, column)), value) == STATUS_OK;
}

static bool is_sound(const PGresult *rows) {
  int64_t generation, buckets;
  for (int row = 0; row < PQntuples(rows); row++) {
    if (!number_at(rows, row, 1, &generation) || !number_at(rows, row, 2, &buckets) || buckets < 1 || buckets > UINT32_MAX)
      return false;
  }
  return true;
}

enum status tenant_list_load(struct tenant_list *list, struct pg_client *client) {
  PGresult *rows = NULL;
  enum status status = pg_client_exec(
      client, "SELECT id, generation, buckets FROM presence.directory_tenant WHERE NOT deleting ORDER BY id", 0, NULL, &rows);
  if (status == STATUS_OK && !is_sound(rows)) status = STATUS_PROTOCOL;
  if (status != STATUS_OK) {
    PQclear(rows);
    return status;
  }
  tenant_list_free(list);
  *list = (struct tenant_list){.rows = rows, .count = (size_t)PQntuples(rows), .loaded = true};
  return STATUS_OK;
}

struct store_tenant tenant_list_at(const struct tenant_list *list, size_t index) {
  int row = (int)index;
  int64_t generation = 0, buckets = 0;
  (void)number_at(list->rows, row, 1, &generation);
  (void)number_at(list->rows, row, 2, &buckets);
  return (struct store_tenant){
      .id = str_from(PQgetvalue(list->rows, row, 0)), .generation = generation, .buckets = (uint32_t)buckets};
}

void tenant_list_free(struct tenant_list *list) {
  PQclear(list->rows);
  *list = (struct tenant_list){0};
}
