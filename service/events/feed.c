#include "feed.h"

#include <stdlib.h>

#include "event_read.h"
#include "session.h"
#include "tailer.h"

enum {
  RING_BATCHES = 1024, /* kept, newest first to go last */
  RING_BYTES = 1048576,
  PAGES_MAX = 2, /* under way at once, of the pool that others need too */
};

/* What a feed asks of another thread for a subscriber, who may leave meanwhile. */
struct feed_call {
  struct pg_job job;         /* a page */
  struct tail_waiter waiter; /* a sync */
  struct event_feed *feed;
  struct event_subscriber *subscriber; /* NULL: has left */
  char tenant_bytes[TENANT_ID_MAX];
  struct str tenant;
  int64_t after, most;
  int64_t position; /* the feed's when it was asked: rows up to it are in the page's sight */
  enum status status;
  struct event_batch *batch;
  struct buf message;
};

struct event_feed {
  struct event_tailer *tailer;
  struct pg_pool *pool;
  struct loop *loop;
  struct tail_end end;
  struct loop_timer tick;
  bool draining;
  bool synced; /* position is known */
  int64_t position;
  struct event_batch *ring[RING_BATCHES]; /* each begins where the one before ends; the last one ends at position */
  size_t ring_first, ring_count, ring_bytes;
  struct event_subscriber *subscribers;
  struct event_subscriber *queue_head, *queue_tail; /* BEHIND, in the order they came */
  struct event_subscriber *walk;                    /* the next one of the walk over all that is under way */
  unsigned pages;                                   /* under way */
  unsigned calls;                                   /* the same and syncs */
};

static void advance(struct event_feed *feed, struct event_subscriber *subscriber);

/* ---- The newest batches */

static struct event_batch *ring_at(const struct event_feed *feed, size_t i) {
  return feed->ring[(feed->ring_first + i) % RING_BATCHES];
}

static size_t weight(const struct event_batch *batch) { return batch->frames->len + batch->count * sizeof(struct event_entry); }

static void ring_drop_first(struct event_feed *feed) {
  struct event_batch *batch = ring_at(feed, 0);
  feed->ring_bytes -= weight(batch);
  feed->ring_first = (feed->ring_first + 1) % RING_BATCHES;
  feed->ring_count--;
  event_batch_release(batch);
}

static void ring_add(struct event_feed *feed, struct event_batch *batch) {
  while (feed->ring_count > 0 && (feed->ring_count == RING_BATCHES || feed->ring_bytes + weight(batch) > RING_BYTES))
    ring_drop_first(feed);
  feed->ring[(feed->ring_first + feed->ring_count++) % RING_BATCHES] = event_batch_hold(batch);
  feed->ring_bytes += weight(batch);
}

/* The batch that holds what comes after seq; NULL: older than what is kept. Needs seq below the position. */
static const struct event_batch *ring_find(const struct event_feed *feed, int64_t seq) {
  size_t low = 0;
  size_t high = feed->ring_count;
  if (high == 0 || ring_at(feed, 0)->after > seq) return NULL;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (ring_at(feed, middle)->last <= seq)
      low = middle + 1;
    else
      high = middle;
  }
  return low < feed->ring_count ? ring_at(feed, low) : NULL;
}

/* ---- Who waits */

static void queue_remove(struct event_feed *feed, struct event_subscriber *subscriber) {
  if (!subscriber->queued) return;
  subscriber->queued = false;
  if (subscriber->previous_queued != NULL)
    subscriber->previous_queued->next_queued = subscriber->next_queued;
  else
    feed->queue_head = subscriber->next_queued;
  if (subscriber->next_queued != NULL)
    subscriber->next_queued->previous_queued = subscriber->previous_queued;
  else
    feed->queue_tail = subscriber->previous_queued;
}

static void queue_add(struct event_feed *feed, struct event_subscriber *subscriber) {
  subscriber->queued = true;
  subscriber->next_queued = NULL;
  subscriber->previous_queued = feed->queue_tail;
  if (feed->queue_tail != NULL)
    feed->queue_tail->next_queued = subscriber;
  else
    feed->queue_head = subscriber;
  feed->queue_tail = subscriber;
}

static bool is_in(const struct event_feed *feed, const struct event_subscriber *subscriber) {
  return subscriber->previous != NULL || feed->subscribers == subscriber;
}

void event_feed_leave(struct event_feed *feed, struct event_subscriber *subscriber) {
  if (!is_in(feed, subscriber)) return;
  queue_remove(feed, subscriber);
  if (subscriber->call != NULL) subscriber->call->subscriber = NULL;
  subscriber->call = NULL;
  if (feed->walk == subscriber) feed->walk = subscriber->next;
  if (subscriber->previous != NULL)
    subscriber->previous->next = subscriber->next;
  else
    feed->subscribers = subscriber->next;
  if (subscriber->next != NULL) subscriber->next->previous = subscriber->previous;
  subscriber->next = subscriber->previous = NULL;
  tailer_interest(feed->tailer, -1);
}

static void enter(struct event_feed *feed, struct event_subscriber *subscriber) {
  subscriber->previous = NULL;
  subscriber->next = feed->subscribers;
  if (subscriber->next != NULL) subscriber->next->previous = subscriber;
  feed->subscribers = subscriber;
  tailer_interest(feed->tailer, 1);
}

/* ---- Events to a subscriber. Each gives false where there is nothing more to do for it now: it may have left. */

static bool join(struct event_subscriber *subscriber) {
  if (subscriber->has_joined) return true;
  subscriber->has_joined = true;
  return subscriber->calls->joined(subscriber);
}

/* Its state meanwhile is PAUSED: what its callee leaves it in. */
static bool hand_over(struct event_subscriber *subscriber, const struct event_batch *batch) {
  size_t first = 0;
  size_t count = event_batch_find(batch, subscriber->tenant, subscriber->seq, &first);
  if (batch->last > subscriber->seq) subscriber->seq = batch->last;
  subscriber->state = SUBSCRIBER_PAUSED;
  return count == 0 || subscriber->calls->events(subscriber, batch, first, count);
}

static void fail(struct event_subscriber *subscriber, enum status status, struct str message) {
  subscriber->state = SUBSCRIBER_RETRYING;
  subscriber->calls->failed(subscriber, status, message);
}

/* ---- Pages */

static struct feed_call *make_call(struct event_feed *feed, struct event_subscriber *subscriber) {
  struct feed_call *call = calloc(1, sizeof *call);
  if (call == NULL) return NULL;
  call->feed = feed;
  call->subscriber = subscriber;
  call->status = STATUS_UNAVAILABLE; /* where nobody comes to it before the end */
  subscriber->call = call;
  feed->calls++;
  return call;
}

static void end_call(struct feed_call *call) {
  call->feed->calls--;
  if (call->subscriber != NULL) call->subscriber->call = NULL;
  event_batch_release(call->batch);
  buf_free(&call->message);
  free(call);
}

static void read_page(struct pg_job *job, struct pg_client *client) {
  struct feed_call *call = (struct feed_call *)job; /* its first member */
  call->status = event_read_tenant(client, call->tenant, call->after, call->most, &call->batch, &call->message);
}

static void start_pages(struct event_feed *feed);

static void got_page(struct pg_job *job) {
  struct feed_call *call = (struct feed_call *)job;
  struct event_feed *feed = call->feed;
  struct event_subscriber *subscriber = call->subscriber;
  feed->pages--;
  if (subscriber != NULL) {
    subscriber->call = NULL; /* it may ask again at once */
    call->subscriber = NULL;
    if (call->status != STATUS_OK) {
      fail(subscriber, call->status, buf_str(&call->message));
    } else if (join(subscriber) && hand_over(subscriber, call->batch)) {
      /* A page that is not full reaches as far as the tailer had come when it was asked for. */
      bool full = (int64_t)call->batch->count == call->most;
      if (!full && call->position > subscriber->seq) subscriber->seq = call->position;
      advance(feed, subscriber);
    }
  }
  end_call(call);
  start_pages(feed);
}

static enum status start_page(struct event_feed *feed, struct event_subscriber *subscriber) {
  struct feed_call *call = make_call(feed, subscriber);
  if (call == NULL) return STATUS_NO_MEMORY;
  memcpy(call->tenant_bytes, subscriber->tenant.data, subscriber->tenant.len);
  call->tenant = (struct str){call->tenant_bytes, subscriber->tenant.len};
  call->after = subscriber->seq;
  call->most = subscriber->page_rows;
  call->position = feed->position;
  call->job = (struct pg_job){.work = read_page, .done = got_page, .loop = feed->loop};
  enum status status = pg_pool_submit(feed->pool, &call->job);
  if (status == STATUS_OK)
    feed->pages++;
  else
    end_call(call);
  return status;
}

static void start_pages(struct event_feed *feed) {
  while (feed->queue_head != NULL && feed->pages < PAGES_MAX) {
    struct event_subscriber *subscriber = feed->queue_head;
    queue_remove(feed, subscriber);
    enum status status = start_page(feed, subscriber);
    if (status != STATUS_OK) fail(subscriber, status, STR_NONE);
  }
}

/* Brings it on as far as the newest batches reach, or has it wait for a page. */
static void advance(struct event_feed *feed, struct event_subscriber *subscriber) {
  while (subscriber->seq < feed->position) {
    const struct event_batch *batch = ring_find(feed, subscriber->seq);
    if (batch == NULL) {
      subscriber->state = SUBSCRIBER_BEHIND;
      queue_add(feed, subscriber);
      start_pages(feed);
      return;
    }
    if (!join(subscriber) || !hand_over(subscriber, batch)) return;
  }
  if (!join(subscriber)) return;
  subscriber->state = SUBSCRIBER_LIVE;
}

void event_feed_continue(struct event_feed *feed, struct event_subscriber *subscriber) {
  if (is_in(feed, subscriber) && subscriber->state == SUBSCRIBER_PAUSED) advance(feed, subscriber);
}

/* ---- The tailer's side */

static void on_batch(struct tail_end *end, struct event_batch *batch) {
  struct event_feed *feed = (struct event_feed *)(void *)((char *)end - offsetof(struct event_feed, end));
  if (!feed->synced || batch->after != feed->position)
    while (feed->ring_count > 0) ring_drop_first(feed);
  feed->synced = true;
  feed->position = batch->last;
  if (batch->count > 0) ring_add(feed, batch);
  for (struct event_subscriber *subscriber = feed->subscribers; subscriber != NULL; subscriber = feed->walk) {
    feed->walk = subscriber->next;
    if (subscriber->state != SUBSCRIBER_LIVE) continue;
    if (subscriber->seq < batch->after)
      advance(feed, subscriber);
    else if (hand_over(subscriber, batch))
      subscriber->state = SUBSCRIBER_LIVE;
  }
}

static void synced(struct tail_waiter *waiter, bool ok) {
  struct feed_call *call = (struct feed_call *)(void *)((char *)waiter - offsetof(struct feed_call, waiter));
  struct event_feed *feed = call->feed;
  struct event_subscriber *subscriber = call->subscriber;
  int64_t after = call->after;
  end_call(call);
  if (subscriber == NULL) return;
  if (!ok || !feed->synced) { /* the batch did not come: memory is short */
    fail(subscriber, STATUS_UNAVAILABLE, STR_NONE);
    return;
  }
  subscriber->seq = after == FEED_FROM_NOW ? feed->position : after;
  advance(feed, subscriber);
}

static void sync_first(struct event_feed *feed, struct event_subscriber *subscriber) {
  struct feed_call *call = make_call(feed, subscriber);
  if (call == NULL) {
    fail(subscriber, STATUS_NO_MEMORY, STR_NONE);
    return;
  }
  call->after = subscriber->seq;
  call->waiter = (struct tail_waiter){.done = synced, .loop = feed->loop};
  subscriber->state = SUBSCRIBER_SYNCING;
  tailer_sync(feed->tailer, &call->waiter);
}

static void start(struct event_feed *feed, struct event_subscriber *subscriber) {
  if (!feed->synced || subscriber->seq == FEED_FROM_NOW)
    sync_first(feed, subscriber);
  else
    advance(feed, subscriber);
}

static void on_tick(struct loop_timer *timer) {
  struct event_feed *feed = timer->context;
  for (struct event_subscriber *subscriber = feed->subscribers; subscriber != NULL; subscriber = feed->walk) {
    feed->walk = subscriber->next;
    if (!subscriber->calls->tick(subscriber, loop_now_us(feed->loop))) continue;
    if (subscriber->state == SUBSCRIBER_RETRYING) start(feed, subscriber);
  }
  if (feed->subscribers != NULL) loop_timer_set(feed->loop, timer, FEED_TICK_US);
}

void event_feed_join(struct event_feed *feed, struct event_subscriber *subscriber, int64_t after) {
  subscriber->seq = after;
  enter(feed, subscriber);
  if (!feed->tick.armed) loop_timer_set(feed->loop, &feed->tick, FEED_TICK_US);
  start(feed, subscriber);
}

int64_t event_feed_position(const struct event_feed *feed) { return feed->position; }

/* ---- Life */

enum status event_feed_new(struct event_tailer *tailer, struct pg_pool *pool, struct loop *loop, struct event_feed **out) {
  _Static_assert(offsetof(struct feed_call, job) == 0, "read_page() casts");
  struct event_feed *feed = calloc(1, sizeof *feed);
  if (feed == NULL) return STATUS_NO_MEMORY;
  feed->tailer = tailer;
  feed->pool = pool;
  feed->loop = loop;
  feed->end = (struct tail_end){.batch = on_batch, .loop = loop};
  feed->tick = (struct loop_timer){.fire = on_tick, .context = feed};
  enum status status = tailer_attach(tailer, &feed->end);
  if (status == STATUS_OK)
    *out = feed;
  else
    free(feed);
  return status;
}

void event_feed_drain(struct event_feed *feed) {
  feed->draining = true;
  for (struct event_subscriber *subscriber = feed->subscribers; subscriber != NULL; subscriber = feed->walk) {
    feed->walk = subscriber->next;
    subscriber->calls->drain(subscriber);
  }
}

bool event_feed_is_draining(const struct event_feed *feed) { return feed->draining; }
bool event_feed_is_idle(const struct event_feed *feed) { return feed->calls == 0; }

void event_feed_free(struct event_feed *feed) {
  if (feed == NULL) return;
  while (feed->ring_count > 0) ring_drop_first(feed);
  free(feed);
}
