#include "lookup.h"

#include "api.h"

/* One script call: some of the lookup's devices, of one partition. */
struct lookup_call {
  struct lookup *lookup;
  size_t count;
  struct lookup_device *devices[];
};

/* One statement: some of the lookup's devices. */
struct lookup_rows {
  struct pg_job job;
  struct lookup *lookup;
  enum status status;
  size_t count;
  struct str *names;
  struct device_row *rows;
  struct lookup_device **devices;
};

static void end_reading(struct lookup *lookup);
static void read_redis(struct lookup *lookup);

/* ---- What the answers mean */

static enum status copy_text(struct request *request, struct str *text) {
  if (text->len == 0) return STATUS_OK;
  char *copy = request_alloc(request, text->len);
  if (copy == NULL) return STATUS_NO_MEMORY;
  memcpy(copy, text->data, text->len);
  text->data = copy;
  return STATUS_OK;
}

/* A row read before Redis stands for offline, and beside a close; where it says online Redis has none of that, and it is read
 * anew. */
static bool needs_row(const struct lookup_device *device) {
  bool contradicts = device->redis.state == STORE_NONE && (device->row.online || !device->row.found);
  return device_needs_row(&device->redis) && (!device->row_is_older || contradicts);
}

static void judge_all(struct lookup *lookup) {
  bool again = false;
  for (size_t i = 0; i < lookup->count; i++) {
    struct lookup_device *device = &lookup->devices[i];
    if (!device->wanted) continue;
    enum device_verdict verdict = device_judge(device->device, &device->redis, &device->row, lookup->second, &device->view);
    device->found = verdict == DEVICE_KNOWN;
    device->wanted = verdict == DEVICE_READ_AGAIN;
    again = again || device->wanted;
  }
  if (again) {
    lookup->second = true;
    read_redis(lookup);
  } else {
    lookup->done(lookup, STATUS_OK);
  }
}

/* ---- PostgreSQL */

static void ask_rows(struct pg_job *job, struct pg_client *client) {
  struct lookup_rows *rows = (struct lookup_rows *)job; /* its first member */
  rows->status = outbox_device_rows(client, rows->lookup->request->tenant_id, rows->names, rows->count, rows->rows);
}

static enum status without_rows(const struct lookup *lookup, enum status status) {
  for (size_t i = 0; i < lookup->count; i++)
    if (lookup->devices[i].wanted && lookup->devices[i].redis.state == STORE_NONE) return status;
  return STATUS_OK; /* closes are an answer by themselves */
}

static void got_rows(struct pg_job *job) {
  struct lookup_rows *rows = (struct lookup_rows *)job;
  struct lookup *lookup = rows->lookup;
  enum status status = rows->status == STATUS_OK ? STATUS_OK : without_rows(lookup, STATUS_UNAVAILABLE);
  for (size_t i = 0; i < rows->count && rows->status == STATUS_OK; i++) {
    buf_free(&rows->devices[i]->row.meta);
    rows->devices[i]->row = rows->rows[i];
    rows->devices[i]->row_is_older = false;
  }
  lookup->postgres_failed = status != STATUS_OK;
  if (status == STATUS_OK)
    judge_all(lookup);
  else
    lookup->done(lookup, status);
}

static struct lookup_rows *rows_new(struct lookup *lookup, size_t count) {
  _Static_assert(offsetof(struct lookup_rows, job) == 0, "ask_rows() casts");
  struct request *request = lookup->request;
  struct lookup_rows *rows = request_alloc(request, sizeof *rows);
  if (rows == NULL) return NULL;
  rows->job = (struct pg_job){.work = ask_rows, .done = got_rows, .loop = request->api->loop};
  rows->lookup = lookup;
  rows->status = STATUS_UNAVAILABLE;
  rows->names = request_alloc(request, count * sizeof rows->names[0]);
  rows->rows = request_alloc(request, count * sizeof rows->rows[0]);
  rows->devices = request_alloc(request, count * sizeof rows->devices[0]);
  return rows->names == NULL || rows->rows == NULL || rows->devices == NULL ? NULL : rows;
}

static void read_rows(struct lookup *lookup, size_t count) {
  struct lookup_rows *rows = rows_new(lookup, count);
  if (rows == NULL) {
    lookup->done(lookup, STATUS_NO_MEMORY);
    return;
  }
  for (size_t i = 0; i < lookup->count; i++) {
    struct lookup_device *device = &lookup->devices[i];
    if (!device->wanted || !needs_row(device)) continue;
    rows->devices[rows->count] = device;
    rows->names[rows->count++] = device->device;
  }
  enum status status = pg_pool_submit(lookup->request->api->shared->pool, &rows->job);
  if (status == STATUS_OK) return;
  status = without_rows(lookup, status);
  if (status == STATUS_OK)
    judge_all(lookup);
  else
    lookup->done(lookup, status);
}

/* ---- Redis */

static void reloaded(struct tenant_reload *reload, enum status status) {
  struct lookup *lookup = (struct lookup *)((char *)reload - offsetof(struct lookup, reload));
  lookup->postgres_failed = status != STATUS_OK;
  if (status == STATUS_OK)
    read_redis(lookup);
  else
    lookup->done(lookup, status);
}

static void reload_settings(struct lookup *lookup) {
  bool first = !lookup->reloaded;
  lookup->reloaded = true;
  enum status status = first ? tenant_reload(&lookup->reload, lookup->request, reloaded) : STATUS_UNAVAILABLE;
  if (status != STATUS_OK) lookup->done(lookup, status);
}

static void end_reading(struct lookup *lookup) {
  size_t rows_needed = 0;
  for (size_t i = 0; i < lookup->count; i++) rows_needed += lookup->devices[i].wanted && needs_row(&lookup->devices[i]);
  if (lookup->stale)
    reload_settings(lookup);
  else if (lookup->status != STATUS_OK)
    lookup->done(lookup, lookup->status);
  else if (rows_needed > 0 && !lookup->second)
    read_rows(lookup, rows_needed);
  else
    judge_all(lookup);
}

static void note(struct lookup *lookup, enum status status) {
  if (status == STATUS_STALE)
    lookup->stale = true;
  else if (lookup->status == STATUS_OK)
    lookup->status = status;
}

static void take_reply(struct lookup_call *call, const redisReply *reply) {
  struct store_device devices[STORE_ITEMS_MAX];
  int64_t now_ms = 0;
  enum status status = store_read_decode(reply, call->count, &now_ms, devices);
  for (size_t i = 0; i < call->count && status == STATUS_OK; i++) {
    call->devices[i]->redis = devices[i];
    status = copy_text(call->lookup->request, &call->devices[i]->redis.meta);
  }
  note(call->lookup, status);
}

static void answered(void *context, enum status status, const redisReply *reply) {
  struct lookup_call *call = context;
  struct lookup *lookup = call->lookup;
  if (status == STATUS_OK)
    take_reply(call, reply);
  else
    note(lookup, status);
  if (--lookup->pending == 0) end_reading(lookup);
}

static enum status send(struct lookup *lookup, struct redis_call *encoder, uint32_t partition, struct lookup_call *call) {
  const struct api_shared *shared = lookup->request->api->shared;
  struct store_tenant tenant = device_store_tenant(&lookup->request->tenant);
  struct read_item items[STORE_ITEMS_MAX];
  for (size_t i = 0; i < call->count; i++)
    items[i] = (struct read_item){.bucket = call->devices[i]->place.bucket, .device = call->devices[i]->device};
  enum status status =
      store_read_encode(encoder, shared->target, partition, shared->config->outage_ms, &tenant, items, call->count);
  if (status != STATUS_OK) return status;
  return redis_link_send(lookup->request->api->link, partition, encoder, answered, call);
}

/* A call for the first device that has none yet, and for all others of its partition that fit. */
static enum status read_partition(struct lookup *lookup, struct redis_call *encoder, size_t first, bool *sent) {
  uint32_t partition = lookup->devices[first].place.partition;
  size_t room = lookup->count - first < STORE_ITEMS_MAX ? lookup->count - first : STORE_ITEMS_MAX;
  struct lookup_call *call = request_alloc(lookup->request, sizeof *call + room * sizeof(call->devices[0]));
  if (call == NULL) return STATUS_NO_MEMORY;
  call->lookup = lookup;
  for (size_t i = first; i < lookup->count && call->count < room; i++) {
    struct lookup_device *device = &lookup->devices[i];
    if (!device->wanted || sent[i] || device->place.partition != partition) continue;
    sent[i] = true;
    call->devices[call->count++] = device;
  }
  enum status status = send(lookup, encoder, partition, call);
  if (status == STATUS_OK) lookup->pending++;
  return status;
}

static void read_redis(struct lookup *lookup) {
  const struct request *request = lookup->request;
  uint32_t partitions = redis_target_partitions(request->api->shared->target);
  bool sent[LOOKUP_DEVICES_MAX] = {false};
  struct redis_call *encoder = NULL;
  lookup->stale = false;
  lookup->status = redis_call_new(&encoder);
  lookup->pending = 1; /* so that no answer ends the round while calls are still being sent */
  for (size_t i = 0; i < lookup->count; i++)
    lookup->devices[i].place = device_place(&request->tenant, lookup->devices[i].device, partitions);
  for (size_t i = 0; i < lookup->count && lookup->status == STATUS_OK; i++)
    if (lookup->devices[i].wanted && !sent[i]) lookup->status = read_partition(lookup, encoder, i, sent);
  redis_call_free(encoder);
  if (--lookup->pending == 0) end_reading(lookup);
}

void lookup_start(struct lookup *lookup) {
  lookup->reloaded = lookup->second = lookup->postgres_failed = false;
  for (size_t i = 0; i < lookup->count; i++) lookup->devices[i].wanted = true;
  read_redis(lookup);
}

void lookup_free(struct lookup *lookup) {
  for (size_t i = 0; i < lookup->count; i++) buf_free(&lookup->devices[i].row.meta);
}

void lookup_reply_failure(const struct lookup *lookup, enum status status) {
  if (status == STATUS_NOT_FOUND)
    tenant_reply_gone(lookup->request);
  else if (lookup->postgres_failed)
    reply_postgres_status(lookup->request, status);
  else
    reply_status(lookup->request, status);
}
