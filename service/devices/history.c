/* GET /v1/tenants/{t}/devices/{d}/history: the sessions that the outbox holds, and the share of time online. It needs no Redis,
 * and lags behind it by what is not yet published. */
#include "api.h"
#include "http.h"
#include "outbox.h"

enum { LIMIT_DEFAULT = 100, LIMIT_MAX = 1000 };

struct history {
  struct pg_job job;
  struct request *request;
  int64_t limit;
  enum status status;
  struct buf body;
};

static void read_history(struct pg_job *job, struct pg_client *client) {
  struct history *history = (struct history *)job; /* its first member */
  const struct request *request = history->request;
  history->status = outbox_device_history(client, request->tenant_id, request->device, history->limit, &history->body);
}

static void got_history(struct pg_job *job) {
  struct history *history = (struct history *)job;
  struct buf body = history->body; /* the reply ends the life of the request's memory */
  enum status status = history->status;
  if (status == STATUS_OK) status = buf_append(&body, "\n", 1);
  if (status == STATUS_OK) {
    reply_json(history->request, 200, &body);
    return;
  }
  buf_free(&body);
  if (status == STATUS_NOT_FOUND)
    reply_error(history->request, 404, "not_found", "no session of this device has reached PostgreSQL");
  else
    reply_postgres_status(history->request, status);
}

void handle_history(struct request *request) {
  _Static_assert(offsetof(struct history, job) == 0, "read_history() casts");
  static const char *const names[] = {"limit"};
  struct history *history = request_alloc(request, sizeof *history);
  if (history == NULL) {
    reply_status(request, STATUS_NO_MEMORY);
    return;
  }
  if (!request_query_only(request, names, sizeof names / sizeof names[0]) ||
      !request_query_number(request, "limit", 1, LIMIT_MAX, LIMIT_DEFAULT, &history->limit))
    return;
  history->request = request;
  history->status = STATUS_UNAVAILABLE; /* where the pool stops before it comes to this */
  history->job = (struct pg_job){.work = read_history, .done = got_history, .loop = request->api->loop};
  enum status status = pg_pool_submit(request->api->shared->pool, &history->job);
  if (status != STATUS_OK) reply_postgres_status(request, status);
}
