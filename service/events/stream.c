/* stream.c: events as Server-Sent Events (https://html.spec.whatwg.org/multipage/server-sent-events.html). A client that reads
 * slowly is handed no more until it has taken what it has: it falls behind, in memory it costs no more, and it goes on from where
 * it was. One that does not read is cut (http_stream.h). */
#include "feed.h"
#include "http_stream.h"
#include "metrics.h"
#include "question.h"

enum {
  WAITING_MAX_BYTES = 65536, /* over it a client gets no further events for now */
  PAGE_ROWS = 64, /* what a client that does not read may hold: at most some 300 KB of events with the largest metadata */
  COMMENT_US = 15000000,
};

struct event_stream {
  struct event_subscriber subscriber;
  struct stream stream;
  struct request *request;
  bool streaming;
  int64_t commented_us;
};

static struct event_feed *feed_of(const struct event_stream *self) { return self->request->api->feed; }

static struct event_stream *from_subscriber(struct event_subscriber *subscriber) {
  return (struct event_stream *)(void *)((char *)subscriber - offsetof(struct event_stream, subscriber));
}

static struct event_stream *from_stream(struct stream *stream) {
  return (struct event_stream *)(void *)((char *)stream - offsetof(struct event_stream, stream));
}

/* ---- The client's side */

static void on_ready(struct stream *stream) {
  struct event_stream *self = from_stream(stream);
  event_feed_continue(feed_of(self), &self->subscriber);
}

static void on_closed(struct stream *stream) {
  struct event_stream *self = from_stream(stream);
  event_feed_leave(feed_of(self), &self->subscriber);
  metric_add(metrics_series(METRIC_EVENT_STREAMS), -1);
}

/* A line that clients ignore: it tells them, and whatever is between, that the connection is alive. */
static void comment(struct event_stream *self, int64_t now_us) {
  struct shared_bytes *bytes = NULL;
  struct buf text = {0};
  enum status status = buf_append_str(&text, STR_LIT(":\n\n"));
  self->commented_us = now_us;
  if (status == STATUS_OK) status = shared_bytes_new(&text, &bytes);
  if (status == STATUS_OK) status = stream_send(&self->stream, bytes, 0, bytes->len);
  if (status != STATUS_OK) buf_free(&text); /* the next one, then */
  shared_bytes_release(bytes);
}

/* ---- The feed's side */

static bool on_joined(struct event_subscriber *subscriber) {
  struct event_stream *self = from_subscriber(subscriber);
  self->stream = (struct stream){.ready = on_ready, .closed = on_closed};
  if (!reply_stream(self->request, "text/event-stream", &self->stream)) {
    event_feed_leave(feed_of(self), subscriber);
    reply_empty(self->request, 204); /* to nobody */
    return false;
  }
  self->streaming = true;
  metric_add(metrics_series(METRIC_EVENT_STREAMS), 1);
  comment(self, loop_now_us(self->request->api->loop)); /* what is between us must not wait for the first event */
  return true;
}

static bool on_events(struct event_subscriber *subscriber, const struct event_batch *batch, size_t first, size_t count) {
  struct event_stream *self = from_subscriber(subscriber);
  size_t begin = batch->events[first].frame;
  size_t end = batch->events[first + count - 1].end;
  if (stream_send(&self->stream, batch->frames, begin, end - begin) != STATUS_OK) return false; /* it is cut, and closed soon */
  return stream_waiting(&self->stream) < WAITING_MAX_BYTES;
}

static void on_failed(struct event_subscriber *subscriber, enum status status, struct str message) {
  struct event_stream *self = from_subscriber(subscriber);
  if (self->streaming) {
    /* It asks again with its last id, and is told that rows are missing; else PostgreSQL is away, and it goes on later. */
    if (status == STATUS_NOT_FOUND) stream_end(&self->stream);
    return;
  }
  event_feed_leave(feed_of(self), subscriber);
  events_reply_failure(self->request, status, message);
}

static bool on_tick(struct event_subscriber *subscriber, int64_t now_us) {
  struct event_stream *self = from_subscriber(subscriber);
  if (!self->streaming) return true;
  if (!request_is_allowed(self->request))
    stream_end(&self->stream);
  else if (now_us - self->commented_us > COMMENT_US - FEED_TICK_US)
    comment(self, now_us);
  return true;
}

static void on_drain(struct event_subscriber *subscriber) {
  struct event_stream *self = from_subscriber(subscriber);
  if (self->streaming) {
    stream_end(&self->stream);
    return;
  }
  event_feed_leave(feed_of(self), subscriber);
  reply_status(self->request, STATUS_UNAVAILABLE);
}

void events_stream(struct request *request, const struct events_question *question) {
  static const struct event_subscriber_calls calls = {
      .joined = on_joined, .events = on_events, .failed = on_failed, .tick = on_tick, .drain = on_drain};
  struct event_stream *self = request_alloc(request, sizeof *self);
  if (self == NULL) {
    reply_status(request, STATUS_NO_MEMORY);
    return;
  }
  self->request = request;
  if (event_feed_is_draining(feed_of(self))) {
    reply_status(request, STATUS_UNAVAILABLE);
    return;
  }
  self->subscriber = (struct event_subscriber){.calls = &calls, .tenant = request->tenant_id, .page_rows = PAGE_ROWS};
  event_feed_join(feed_of(self), &self->subscriber, question->after < 0 ? FEED_FROM_NOW : question->after);
}
