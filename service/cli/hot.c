/* presencectl hot: where the most open sessions and bytes are, and whether buckets are fuller than they should be.
 *
 * A scan over the facts' keys, a page at a time with a pause after it; each bucket found is measured from samples. It looks at no
 * more than a bounded number of buckets: on a larger server the figures are of a random part, since the scan goes by hash. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "keys.h"
#include "redis_side.h"

#define SCAN_KEYS 200
#define BUCKETS_MAX 100000 /* looked at */
#define TOP_MAX 1000
#define DEVICES_PER_BUCKET 32 /* a full bucket as the design means it */

struct tenant_figures {
  char id[TENANT_ID_MAX + 1];
  int64_t buckets, fields, bytes, large; /* of the buckets seen that hold a session */
  int64_t fullest;                       /* fields of its fullest bucket */
};

struct bucket_figures {
  char tenant[TENANT_ID_MAX + 1];
  uint32_t partition, bucket;
  int64_t fields, bytes;
  bool large;
};

struct hot {
  struct cli *cli;
  struct redis_side side;
  struct redis_call *call;
  size_t top;
  struct bucket_figures *buckets; /* those seen, each once */
  size_t bucket_count;
  struct tenant_figures *tenants; /* sorted by id */
  size_t tenant_count;
  size_t servers;
  bool partial; /* there are more buckets than were looked at */
};

static void pause_for(int64_t us) {
  struct timespec time = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};
  (void)nanosleep(&time, NULL);
}

/* ---- looking */

/* The keys of a page, by partition: a call measures buckets of one. */
static enum status measure_some(struct hot *hot, uint32_t partition, struct measured_bucket *buckets, size_t count) {
  redisReply *reply = NULL;
  enum status status = store_measure_encode(hot->call, hot->side.target, partition, buckets, count);
  if (status == STATUS_OK) status = redis_conn_call(hot->side.conn, partition, hot->call, &reply);
  if (status == STATUS_OK) status = store_measure_decode(reply, buckets, count);
  freeReplyObject(reply);
  for (size_t i = 0; i < count && status == STATUS_OK; i++) {
    if (hot->bucket_count == BUCKETS_MAX) {
      hot->partial = true;
      break;
    }
    struct bucket_figures *figures = &hot->buckets[hot->bucket_count++];
    *figures = (struct bucket_figures){.partition = partition,
                                       .bucket = buckets[i].bucket,
                                       .fields = buckets[i].fields,
                                       .bytes = buckets[i].bytes,
                                       .large = buckets[i].large};
    snprintf(figures->tenant, sizeof figures->tenant, "%.*s", STR_ARG(buckets[i].tenant));
  }
  return status;
}

static enum status measure_page(struct hot *hot, const redisReply *keys) {
  enum status status = STATUS_OK;
  for (uint32_t p = 0; p < hot->side.partitions && status == STATUS_OK; p++) {
    struct measured_bucket buckets[STORE_MEASURE_MAX];
    size_t count = 0;
    for (size_t i = 0; i < keys->elements && status == STATUS_OK; i++) {
      struct str key = {keys->element[i]->str, keys->element[i]->len};
      uint32_t partition;
      struct measured_bucket *next = &buckets[count];
      *next = (struct measured_bucket){0};
      if (keys_parse_bucket(redis_target_env(hot->side.target), key, &partition, &next->tenant, &next->bucket) != STATUS_OK ||
          partition != p || !tenant_id_valid(next->tenant) || ++count < STORE_MEASURE_MAX)
        continue;
      status = measure_some(hot, p, buckets, count);
      count = 0;
    }
    if (count > 0 && status == STATUS_OK) status = measure_some(hot, p, buckets, count);
  }
  return status;
}

/* A scan of the server that this partition lies on. */
static enum status look_at_server(struct hot *hot, uint32_t partition) {
  uint64_t cursor = 0;
  enum status status;
  do {
    redisReply *reply = NULL;
    const redisReply *keys = NULL;
    int64_t began_us = clock_monotonic_us(clock_system());
    status = store_scan_encode(hot->call, hot->side.target, partition, cursor, BUCKET_SESSION, STR_NONE, SCAN_KEYS);
    if (status == STATUS_OK) status = redis_conn_call(hot->side.conn, partition, hot->call, &reply);
    if (status == STATUS_OK) status = store_scan_decode(reply, &cursor, &keys);
    if (status == STATUS_OK) status = measure_page(hot, keys);
    freeReplyObject(reply);
    pause_for(clock_monotonic_us(clock_system()) - began_us);
  } while (status == STATUS_OK && cursor != 0 && !hot->partial);
  return status;
}

static enum status look(struct hot *hot) {
  enum status status = STATUS_OK;
  for (uint32_t p = 0; p < hot->side.partitions && status == STATUS_OK; p++) {
    if (!redis_conn_leads(hot->side.conn, p)) continue;
    hot->servers++;
    status = look_at_server(hot, p);
  }
  return status;
}

/* ---- adding up */

static int by_place(const void *left, const void *right) {
  const struct bucket_figures *a = left, *b = right;
  int order = strcmp(a->tenant, b->tenant);
  if (order != 0) return order;
  if (a->bucket != b->bucket) return a->bucket < b->bucket ? -1 : 1;
  return a->partition == b->partition ? 0 : a->partition < b->partition ? -1 : 1;
}

static int larger(int64_t a_fields, int64_t a_bytes, int64_t b_fields, int64_t b_bytes) {
  if (a_fields != b_fields) return a_fields > b_fields ? -1 : 1;
  return a_bytes == b_bytes ? 0 : a_bytes > b_bytes ? -1 : 1;
}

static int buckets_by_size(const void *left, const void *right) {
  const struct bucket_figures *a = left, *b = right;
  int order = larger(a->fields, a->bytes, b->fields, b->bytes);
  return order != 0 ? order : by_place(a, b);
}

static int tenants_by_size(const void *left, const void *right) {
  const struct tenant_figures *a = left, *b = right;
  int order = larger(a->fields, a->bytes, b->fields, b->bytes);
  return order != 0 ? order : strcmp(a->id, b->id);
}

/* A scan may show a key twice: doubles lie side by side once sorted. */
static enum status add_up(struct hot *hot) {
  size_t kept = 0;
  hot->tenants = calloc(hot->bucket_count + 1, sizeof *hot->tenants);
  if (hot->tenants == NULL) return STATUS_NO_MEMORY;
  qsort(hot->buckets, hot->bucket_count, sizeof *hot->buckets, by_place);
  for (size_t i = 0; i < hot->bucket_count; i++) {
    const struct bucket_figures *bucket = &hot->buckets[i];
    if (kept > 0 && by_place(&hot->buckets[kept - 1], bucket) == 0) continue;
    struct tenant_figures *tenant = hot->tenant_count > 0 ? &hot->tenants[hot->tenant_count - 1] : NULL;
    if (tenant == NULL || strcmp(tenant->id, bucket->tenant) != 0) {
      tenant = &hot->tenants[hot->tenant_count++];
      memcpy(tenant->id, bucket->tenant, sizeof tenant->id);
    }
    tenant->buckets++;
    tenant->fields += bucket->fields;
    tenant->bytes += bucket->bytes;
    tenant->large += bucket->large;
    if (bucket->fields > tenant->fullest) tenant->fullest = bucket->fields;
    hot->buckets[kept++] = *bucket;
  }
  hot->bucket_count = kept;
  qsort(hot->buckets, kept, sizeof *hot->buckets, buckets_by_size);
  qsort(hot->tenants, hot->tenant_count, sizeof *hot->tenants, tenants_by_size);
  return STATUS_OK;
}

/* ---- telling */

static int64_t buckets_of(const PGresult *settings, const char *tenant) {
  for (int row = 0; row < PQntuples(settings); row++) {
    int64_t buckets;
    if (strcmp(PQgetvalue(settings, row, 0), tenant) == 0 &&
        str_to_int64(str_from(PQgetvalue(settings, row, 1)), &buckets) == STATUS_OK)
      return buckets;
  }
  return 0;
}

/* The max-devices with which a tenant made again would get buckets of the size meant; 0: those it has are good enough. Twice as
 * many as meant are still fast; in between nothing is worth moving devices for. */
static int64_t suggestion(const struct hot *hot, const struct tenant_figures *tenant, const PGresult *settings) {
  int64_t buckets = buckets_of(settings, tenant->id);
  if (hot->partial || buckets == 0) return 0;
  if (tenant->large == 0 && tenant->fields <= 2 * DEVICES_PER_BUCKET * buckets) return 0;
  return tenant->fields + tenant->fields / 4; /* some room to grow */
}

static enum status render_tenants(const struct hot *hot, const PGresult *settings, struct buf *out) {
  struct table table = {0};
  table_column(&table, "tenant", CELL_TEXT);
  table_column(&table, "fields", CELL_NUMBER);
  table_column(&table, "bytes", CELL_NUMBER);
  table_column(&table, "buckets_used", CELL_NUMBER);
  table_column(&table, "fullest_bucket", CELL_NUMBER);
  table_column(&table, "not_compact", CELL_NUMBER);
  table_column(&table, "suggested_max_devices", CELL_NUMBER);
  for (size_t i = 0; i < hot->tenant_count && i < hot->top; i++) {
    const struct tenant_figures *tenant = &hot->tenants[i];
    int64_t suggested = suggestion(hot, tenant, settings);
    table_add(&table, str_from(tenant->id));
    table_add_number(&table, tenant->fields);
    table_add_number(&table, tenant->bytes);
    table_add_number(&table, tenant->buckets);
    table_add_number(&table, tenant->fullest);
    table_add_number(&table, tenant->large);
    if (suggested > 0)
      table_add_number(&table, suggested);
    else
      table_add_null(&table);
  }
  enum status status = table_render(&table, TABLE_LIST, hot->cli->json, out);
  table_free(&table);
  return status;
}

static enum status render_buckets(const struct hot *hot, struct buf *out) {
  struct table table = {0};
  table_column(&table, "tenant", CELL_TEXT);
  table_column(&table, "partition", CELL_NUMBER);
  table_column(&table, "bucket", CELL_NUMBER);
  table_column(&table, "fields", CELL_NUMBER);
  table_column(&table, "bytes", CELL_NUMBER);
  table_column(&table, "compact", CELL_BOOL);
  for (size_t i = 0; i < hot->bucket_count && i < hot->top; i++) {
    const struct bucket_figures *bucket = &hot->buckets[i];
    table_add(&table, str_from(bucket->tenant));
    table_add_number(&table, bucket->partition);
    table_add_number(&table, bucket->bucket);
    table_add_number(&table, bucket->fields);
    table_add_number(&table, bucket->bytes);
    table_add(&table, bucket->large ? STR_LIT("f") : STR_LIT("t"));
  }
  enum status status = table_render(&table, TABLE_LIST, hot->cli->json, out);
  table_free(&table);
  return status;
}

/* What lies on each server, by the buckets seen. */
static enum status render_servers(struct hot *hot, struct buf *out) {
  struct table table = {0};
  table_column(&table, "server", CELL_TEXT);
  table_column(&table, "buckets", CELL_NUMBER);
  table_column(&table, "fields", CELL_NUMBER);
  table_column(&table, "bytes", CELL_NUMBER);
  for (uint32_t p = 0; p < hot->side.partitions; p++) {
    int64_t buckets = 0, fields = 0, bytes = 0;
    if (!redis_conn_leads(hot->side.conn, p)) continue;
    for (size_t i = 0; i < hot->bucket_count; i++) {
      const struct bucket_figures *bucket = &hot->buckets[i];
      if (!redis_conn_same_server(hot->side.conn, p, bucket->partition)) continue;
      buckets++;
      fields += bucket->fields;
      bytes += bucket->bytes;
    }
    const char *server = redis_conn_server(hot->side.conn, p);
    table_add(&table, str_from(server != NULL ? server : "none"));
    table_add_number(&table, buckets);
    table_add_number(&table, fields);
    table_add_number(&table, bytes);
  }
  enum status status = table_render(&table, TABLE_LIST, hot->cli->json, out);
  table_free(&table);
  return status;
}

/* Two tables, or one object with both lists; one more where there are several servers. */
static enum cli_exit print(struct hot *hot, const PGresult *settings) {
  struct buf out = {0};
  bool json = hot->cli->json;
  enum status status = json ? buf_printf(&out, "{\"buckets_seen\":%zu,\"partial\":%s,\"tenants\":", hot->bucket_count,
                                         hot->partial ? "true" : "false")
                            : STATUS_OK;
  if (status == STATUS_OK) status = render_tenants(hot, settings, &out);
  if (status == STATUS_OK) status = buf_append_str(&out, json ? STR_LIT(",\"buckets\":") : STR_LIT("\n"));
  if (status == STATUS_OK) status = render_buckets(hot, &out);
  if (status == STATUS_OK && hot->servers > 1) {
    status = buf_append_str(&out, json ? STR_LIT(",\"servers\":") : STR_LIT("\n"));
    if (status == STATUS_OK) status = render_servers(hot, &out);
  }
  if (status == STATUS_OK && json) status = buf_append_str(&out, STR_LIT("}\n"));
  if (status == STATUS_OK && !json && hot->partial)
    status = buf_printf(&out, "\nonly %zu buckets were looked at; there are more\n", hot->bucket_count);
  enum cli_exit code = status == STATUS_OK ? CLI_OK : cli_fail("%s", status_name(status));
  if (code == CLI_OK && fwrite(out.data, 1, out.len, stdout) != out.len) code = cli_fail("standard output cannot be written");
  buf_free(&out);
  return code;
}

static enum cli_exit look_and_print(struct hot *hot) {
  PGresult *settings;
  enum cli_exit code = cli_query(hot->cli, "SELECT id, buckets FROM presence.directory_tenant", 0, NULL, &settings);
  if (code == CLI_OK) {
    enum status status = look(hot);
    if (status == STATUS_OK) status = add_up(hot);
    code = status == STATUS_OK ? print(hot, settings) : redis_side_fail(&hot->side, status);
  }
  PQclear(settings);
  return code;
}

enum cli_exit hot_show(struct cli *cli) {
  struct hot hot = {.cli = cli};
  int64_t top;
  enum cli_exit code = cli_flag_number(cli, CLI_FLAG_TOP, 1, TOP_MAX, 10, &top);
  if (code != CLI_OK) return code;
  hot.top = (size_t)top;
  code = redis_side_open(cli, &hot.side);
  if (code == CLI_OK) {
    hot.buckets = calloc(BUCKETS_MAX, sizeof *hot.buckets);
    bool ready = hot.buckets != NULL && redis_call_new(&hot.call) == STATUS_OK;
    code = ready ? look_and_print(&hot) : cli_fail("out of memory");
  }
  free(hot.buckets);
  free(hot.tenants);
  redis_call_free(hot.call);
  redis_side_close(&hot.side);
  return code;
}
