/* poll.c: events as JSON pages, and the long poll: a page that waits for its first event.
 *
 *   at once (wait_ms 0, or no `after`)  a page from PostgreSQL; where it is empty and there is time, the wait
 *   the wait                            a subscriber of the feed until its first events, its deadline, or the service's stop */
#include "event_read.h"
#include "feed.h"
#include "question.h"

struct poll {
  struct pg_job job;
  struct event_subscriber subscriber;
  struct loop_timer deadline;
  struct request *request;
  struct events_question question;
  enum status status; /* the job's */
  struct event_batch *batch;
  struct buf expired;
};

static struct event_feed *feed_of(const struct poll *poll) { return poll->request->api->feed; }

static struct poll *poll_of(struct event_subscriber *subscriber) {
  return (struct poll *)(void *)((char *)subscriber - offsetof(struct poll, subscriber));
}

/* ---- The answer */

static enum status encode(struct buf *out, const struct event_batch *batch, size_t first, size_t count, int64_t next) {
  enum status status = buf_append_str(out, STR_LIT("{\"events\":["));
  for (size_t i = first; i < first + count && status == STATUS_OK; i++) {
    const struct event_entry *event = &batch->events[i];
    next = event->seq;
    if (i > first) status = buf_append(out, ",", 1);
    if (status == STATUS_OK) status = buf_append(out, batch->frames->data + event->data, event->data_len);
  }
  if (status == STATUS_OK) status = buf_append_str(out, STR_LIT("],\"next\":"));
  if (status == STATUS_OK) status = buf_append_int64(out, next);
  return status == STATUS_OK ? buf_append_str(out, STR_LIT("}\n")) : status;
}

/* next: where there is no event. */
static void answer(struct poll *poll, const struct event_batch *batch, size_t first, size_t count, int64_t next) {
  struct buf body = {0};
  if (count > (size_t)poll->question.limit) count = (size_t)poll->question.limit;
  enum status status = encode(&body, batch, first, count, next);
  if (status == STATUS_OK) {
    reply_json(poll->request, 200, &body);
    return;
  }
  buf_free(&body);
  reply_status(poll->request, status);
}

/* ---- The wait */

static void leave(struct poll *poll) {
  event_feed_leave(feed_of(poll), &poll->subscriber);
  loop_timer_cancel(poll->request->api->loop, &poll->deadline);
}

static void answer_empty(struct poll *poll) {
  leave(poll);
  answer(poll, NULL, 0, 0, poll->subscriber.seq);
}

static bool on_joined(struct event_subscriber *subscriber) {
  (void)subscriber;
  return true;
}

static bool on_events(struct event_subscriber *subscriber, const struct event_batch *batch, size_t first, size_t count) {
  struct poll *poll = poll_of(subscriber);
  leave(poll);
  answer(poll, batch, first, count, subscriber->seq);
  return false;
}

static void on_failed(struct event_subscriber *subscriber, enum status status, struct str message) {
  struct poll *poll = poll_of(subscriber);
  leave(poll);
  events_reply_failure(poll->request, status, message);
}

static bool on_tick(struct event_subscriber *subscriber, int64_t now_us) {
  (void)now_us;
  struct poll *poll = poll_of(subscriber);
  if (request_is_abandoned(poll->request)) { /* its connection is of use to others */
    answer_empty(poll);
    return false;
  }
  if (request_is_allowed(poll->request)) return true;
  leave(poll);
  reply_error(poll->request, 401, "unauthorized", "the token has been revoked or has expired meanwhile");
  return false;
}

static void on_drain(struct event_subscriber *subscriber) { answer_empty(poll_of(subscriber)); }

static void on_deadline(struct loop_timer *timer) { answer_empty(timer->context); }

static void start_waiting(struct poll *poll, int64_t after) {
  static const struct event_subscriber_calls calls = {
      .joined = on_joined, .events = on_events, .failed = on_failed, .tick = on_tick, .drain = on_drain};
  poll->subscriber = (struct event_subscriber){
      .calls = &calls, .tenant = poll->request->tenant_id, .page_rows = poll->question.limit, .seq = after};
  poll->deadline = (struct loop_timer){.fire = on_deadline, .context = poll};
  loop_timer_set(poll->request->api->loop, &poll->deadline, poll->question.wait_ms * 1000);
  event_feed_join(feed_of(poll), &poll->subscriber, after); /* which may answer */
}

/* ---- The page */

static void read_page(struct pg_job *job, struct pg_client *client) {
  struct poll *poll = (struct poll *)job; /* its first member */
  int64_t after = poll->question.after < 0 ? EVENTS_FROM_OLDEST : poll->question.after;
  poll->status = event_read_tenant(client, poll->request->tenant_id, after, poll->question.limit, &poll->batch, &poll->expired);
}

static void got_page(struct pg_job *job) {
  struct poll *poll = (struct poll *)job;
  struct event_batch *batch = poll->batch;
  struct buf expired = poll->expired; /* the answer ends the life of the request's memory */
  if (poll->status != STATUS_OK)
    events_reply_failure(poll->request, poll->status, buf_str(&expired));
  else if (batch->count > 0 || poll->question.wait_ms == 0 || event_feed_is_draining(feed_of(poll)))
    answer(poll, batch, 0, batch->count, batch->last);
  else
    start_waiting(poll, batch->last);
  event_batch_release(batch);
  buf_free(&expired);
}

void events_poll(struct request *request, const struct events_question *question) {
  _Static_assert(offsetof(struct poll, job) == 0, "read_page() casts");
  struct poll *poll = request_alloc(request, sizeof *poll);
  if (poll == NULL) {
    reply_status(request, STATUS_NO_MEMORY);
    return;
  }
  poll->request = request;
  poll->question = *question;
  if (question->wait_ms > 0 && question->after >= 0 && !event_feed_is_draining(feed_of(poll))) {
    start_waiting(poll, question->after);
    return;
  }
  poll->status = STATUS_UNAVAILABLE; /* where the pool stops before it comes to this */
  poll->job = (struct pg_job){.work = read_page, .done = got_page, .loop = request->api->loop};
  enum status status = pg_pool_submit(request->api->shared->pool, &poll->job);
  if (status != STATUS_OK) reply_postgres_status(request, status);
}
