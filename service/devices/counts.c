/* GET /v1/tenants/{t}/counts
 *
 * Open sessions are counted by the scripts that open and close them, so this adds up one number per partition. Known devices are
 * the rows of presence.device, asked for afterwards: a row is committed after its session is counted. While PostgreSQL is away no
 * rows are made, and what the directory read of it last still holds. */
#include "api.h"
#include "device.h"
#include "http.h"

struct counts {
  struct pg_job job;
  struct request *request;
  size_t pending;     /* partitions */
  enum status status; /* the first failure of a partition */
  int64_t open_sessions, as_of_ms, recalibrated_ms, drift;
  enum status known_status;
  int64_t known;
};

/* A device whose first session has just opened has no row yet: what is known is never less than what is online. */
static enum status encode(struct buf *out, const struct counts *counts) {
  int64_t known = counts->known > counts->open_sessions ? counts->known : counts->open_sessions;
  enum status status = buf_printf(out, "{\"tenant\":\"%.*s\",\"online\":%lld,\"offline\":%lld,\"known\":%lld,\"as_of_ms\":%lld,",
                                  STR_ARG(counts->request->tenant_id), (long long)counts->open_sessions,
                                  (long long)(known - counts->open_sessions), (long long)known, (long long)counts->as_of_ms);
  if (status == STATUS_OK) status = buf_append_str(out, STR_LIT("\"recalibrated_ms\":"));
  if (status == STATUS_OK)
    status = counts->recalibrated_ms == TIME_MS_LOST ? buf_append_str(out, STR_LIT("null"))
                                                     : buf_append_int64(out, counts->recalibrated_ms);
  return status == STATUS_OK ? buf_printf(out, ",\"last_drift\":%lld}\n", (long long)counts->drift) : status;
}

static void reply(const struct counts *counts) {
  struct buf body = {0};
  if (encode(&body, counts) == STATUS_OK) {
    reply_json(counts->request, 200, &body);
    return;
  }
  buf_free(&body);
  reply_status(counts->request, STATUS_NO_MEMORY);
}

/* ---- PostgreSQL */

static void ask_known(struct pg_job *job, struct pg_client *client) {
  struct counts *counts = (struct counts *)job; /* its first member */
  counts->known_status = outbox_known_devices(client, counts->request->tenant_id, &counts->known);
}

static void got_known(struct pg_job *job) {
  struct counts *counts = (struct counts *)job;
  if (counts->known_status != STATUS_OK) counts->known = counts->request->tenant.known_devices;
  reply(counts);
}

static void end_counting(struct counts *counts) {
  _Static_assert(offsetof(struct counts, job) == 0, "ask_known() casts");
  if (counts->status != STATUS_OK) {
    reply_status(counts->request, counts->status);
    return;
  }
  counts->known_status = STATUS_UNAVAILABLE;
  counts->job = (struct pg_job){.work = ask_known, .done = got_known, .loop = counts->request->api->loop};
  if (pg_pool_submit(counts->request->api->shared->pool, &counts->job) != STATUS_OK) got_known(&counts->job);
}

/* ---- Redis */

/* The whole is as fresh as the partition that was compared longest ago, and was never compared where one of them never was. */
static void add(struct counts *counts, const struct store_count *partition) {
  counts->open_sessions += partition->open_sessions;
  counts->drift += partition->drift;
  if (partition->now_ms > counts->as_of_ms) counts->as_of_ms = partition->now_ms;
  if (partition->recalibrated_ms < counts->recalibrated_ms) counts->recalibrated_ms = partition->recalibrated_ms;
}

static void answered(void *context, enum status status, const redisReply *redis_reply) {
  struct counts *counts = context;
  struct store_count partition;
  if (status == STATUS_OK) status = store_count_decode(redis_reply, &partition);
  if (status == STATUS_OK)
    add(counts, &partition);
  else if (counts->status == STATUS_OK)
    counts->status = status;
  if (--counts->pending == 0) end_counting(counts);
}

static void count(struct counts *counts) {
  const struct api_loop *api = counts->request->api;
  const struct redis_target *target = api->shared->target;
  struct redis_call *call = NULL;
  counts->status = redis_call_new(&call);
  counts->pending = 1; /* so that no answer ends it while calls are still being sent */
  for (uint32_t p = 0; p < redis_target_partitions(target) && counts->status == STATUS_OK; p++) {
    counts->status = store_count_encode(call, target, p, counts->request->tenant_id);
    if (counts->status == STATUS_OK) counts->status = redis_link_send(api->link, p, call, answered, counts);
    if (counts->status == STATUS_OK) counts->pending++;
  }
  redis_call_free(call);
  if (--counts->pending == 0) end_counting(counts);
}

void handle_counts(struct request *request) {
  struct counts *counts = request_alloc(request, sizeof *counts);
  if (counts == NULL) {
    reply_status(request, STATUS_NO_MEMORY);
    return;
  }
  if (!request_query_only(request, NULL, 0)) return;
  counts->request = request;
  counts->recalibrated_ms = INT64_MAX;
  count(counts);
}
