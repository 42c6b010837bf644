/* tailer.c: one thread that follows the outbox for all clients of the process.
 *
 * It is woken by NOTIFY and looks by itself every POLL_MS, so that a notification lost, or a connection that cannot LISTEN (a
 * pooler), costs no more than that. While nobody waits it does not read; who then comes back finds a gap and catches up by pages.
 *
 *   RESTING (position unknown) --somebody waits--> reads the newest seq --> FOLLOWING --nobody for REST_AFTER_US--> RESTING
 *
 * A gap (an empty batch with another `after`) is also what it publishes where rows between its position and the next read may
 * have gone, or PostgreSQL came back with an older state. */
#include "tailer.h"

#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "event_read.h"
#include "log.h"

enum {
  POLL_MS = 500,
  GAP_MS = 10, /* between two reads, so that many small commits become one batch */
  READ_ROWS = 500,
  ENDS_MAX = 256,
  UNDER_WAY_MAX = 64,
  REST_AFTER_US = 60000000,
};

struct event_tailer {
  struct pg_client *client;
  const struct clock *clock;
  pthread_t thread;
  bool started;
  int wake_fd;
  atomic_int interested;
  pthread_mutex_t lock; /* of the next two */
  bool stopping;
  struct tail_waiter *waiters;
  struct tail_end *ends[ENDS_MAX];
  unsigned end_count;
  /* the thread's */
  int64_t position;     /* all rows up to it have been published; -1: resting */
  uint64_t listened_on; /* which connection of the client */
  int64_t last_interest_us;
  struct log_limit trouble;
};

struct delivery {
  struct loop_task task;
  struct tail_end *end;
  struct event_batch *batch;
};

enum status event_tailer_new(const char *postgres_url, const struct clock *clock, struct event_tailer **out) {
  struct event_tailer *tailer = calloc(1, sizeof *tailer);
  if (tailer == NULL) return STATUS_NO_MEMORY;
  tailer->clock = clock;
  tailer->position = -1;
  pthread_mutex_init(&tailer->lock, NULL);
  tailer->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  enum status status = tailer->wake_fd < 0 ? STATUS_IO : STATUS_OK;
  if (status == STATUS_OK) status = pg_client_new(postgres_url, "presenced events", clock, &tailer->client);
  if (status == STATUS_OK)
    *out = tailer;
  else
    event_tailer_free(tailer);
  return status;
}

void event_tailer_free(struct event_tailer *tailer) {
  if (tailer == NULL) return;
  event_tailer_stop(tailer);
  pg_client_free(tailer->client);
  if (tailer->wake_fd >= 0) close(tailer->wake_fd);
  pthread_mutex_destroy(&tailer->lock);
  free(tailer);
}

enum status tailer_attach(struct event_tailer *tailer, struct tail_end *end) {
  if (tailer->end_count == ENDS_MAX) return STATUS_FULL;
  tailer->ends[tailer->end_count++] = end;
  return STATUS_OK;
}

static void wake(struct event_tailer *tailer) {
  uint64_t one = 1;
  ssize_t written = write(tailer->wake_fd, &one, sizeof one); /* fails only where it is readable already */
  (void)written;
}

void tailer_interest(struct event_tailer *tailer, int change) {
  if (atomic_fetch_add_explicit(&tailer->interested, change, memory_order_relaxed) == 0) wake(tailer);
}

static void run_waiter(struct loop_task *task) {
  struct tail_waiter *waiter = task->context;
  waiter->done(waiter, waiter->ok);
}

static void answer(struct tail_waiter *waiters, bool ok) {
  while (waiters != NULL) {
    struct tail_waiter *next = waiters->next;
    waiters->ok = ok;
    waiters->task = (struct loop_task){.run = run_waiter, .context = waiters};
    loop_post(waiters->loop, &waiters->task);
    waiters = next;
  }
}

void tailer_sync(struct event_tailer *tailer, struct tail_waiter *waiter) {
  waiter->next = NULL;
  pthread_mutex_lock(&tailer->lock);
  bool runs = tailer->started && !tailer->stopping;
  if (runs) {
    waiter->next = tailer->waiters;
    tailer->waiters = waiter;
  }
  pthread_mutex_unlock(&tailer->lock);
  if (runs)
    wake(tailer);
  else
    answer(waiter, false);
}

/* ---- Batches to the loops */

static void run_delivery(struct loop_task *task) {
  struct delivery *delivery = task->context;
  atomic_fetch_sub_explicit(&delivery->end->under_way, 1, memory_order_relaxed);
  delivery->end->batch(delivery->end, delivery->batch);
  event_batch_release(delivery->batch);
  free(delivery);
}

static void publish(struct event_tailer *tailer, struct event_batch *batch) {
  for (unsigned i = 0; i < tailer->end_count; i++) {
    struct tail_end *end = tailer->ends[i];
    if (atomic_load_explicit(&end->under_way, memory_order_relaxed) >= UNDER_WAY_MAX) continue;
    struct delivery *delivery = malloc(sizeof *delivery);
    if (delivery == NULL) continue;
    *delivery = (struct delivery){.end = end, .batch = event_batch_hold(batch)};
    delivery->task = (struct loop_task){.run = run_delivery, .context = delivery};
    atomic_fetch_add_explicit(&end->under_way, 1, memory_order_relaxed);
    loop_post(end->loop, &delivery->task);
  }
  tailer->position = batch->last;
}

/* ---- Reading */

/* Follows from here on; who is behind sees it by the batch's `after`. */
static enum status jump(struct event_tailer *tailer, int64_t position) {
  struct event_batch *batch = NULL;
  enum status status = event_batch_new(0, position, position, &batch);
  if (status == STATUS_OK) status = event_batch_finish(batch);
  if (status == STATUS_OK) publish(tailer, batch);
  event_batch_release(batch);
  return status;
}

/* Before the read, so that no commit falls between the two. */
static enum status listen(struct event_tailer *tailer) {
  PGresult *result = NULL;
  PGconn *connection;
  enum status status = pg_client_connection(tailer->client, &connection);
  if (status != STATUS_OK || pg_client_connects(tailer->client) == tailer->listened_on) return status;
  status = pg_client_exec(tailer->client, "LISTEN presence_outbox", 0, NULL, &result);
  PQclear(result);
  /* A server that has no LISTEN for us: the poll has to do. */
  if (status == STATUS_REFUSED) status = STATUS_OK;
  int64_t newest = 0;
  int64_t dropped = 0;
  if (status == STATUS_OK) status = event_read_bounds(tailer->client, &newest, &dropped);
  if (status == STATUS_OK && (tailer->position < dropped || tailer->position > newest)) status = jump(tailer, newest);
  if (status == STATUS_OK) tailer->listened_on = pg_client_connects(tailer->client);
  return status;
}

static bool is_stopping(struct event_tailer *tailer) {
  pthread_mutex_lock(&tailer->lock);
  bool stopping = tailer->stopping;
  pthread_mutex_unlock(&tailer->lock);
  return stopping;
}

static enum status start_following(struct event_tailer *tailer) {
  int64_t newest = 0;
  int64_t dropped = 0;
  enum status status = listen(tailer);
  if (status != STATUS_OK || tailer->position >= 0) return status;
  status = event_read_bounds(tailer->client, &newest, &dropped);
  return status == STATUS_OK ? jump(tailer, newest) : status;
}

static enum status read_new(struct event_tailer *tailer) {
  bool full = true;
  enum status status = start_following(tailer);
  while (status == STATUS_OK && full && !is_stopping(tailer)) {
    struct event_batch *batch = NULL;
    status = event_read_new(tailer->client, tailer->position, READ_ROWS, &batch, &full);
    if (status == STATUS_OK && batch->count > 0) publish(tailer, batch);
    event_batch_release(batch);
  }
  return status;
}

/* ---- The thread */

static struct tail_waiter *take_waiters(struct event_tailer *tailer) {
  uint64_t times = 0;
  ssize_t got = read(tailer->wake_fd, &times, sizeof times); /* nothing there: it was another reason */
  (void)got;
  pthread_mutex_lock(&tailer->lock);
  struct tail_waiter *waiters = tailer->waiters;
  tailer->waiters = NULL;
  pthread_mutex_unlock(&tailer->lock);
  return waiters;
}

/* Is there anybody to read for? */
static bool is_wanted(struct event_tailer *tailer, const struct tail_waiter *waiters) {
  int64_t now_us = clock_monotonic_us(tailer->clock);
  if (waiters != NULL || atomic_load_explicit(&tailer->interested, memory_order_relaxed) > 0) tailer->last_interest_us = now_us;
  if (now_us - tailer->last_interest_us < REST_AFTER_US) return true;
  tailer->position = -1;
  return false;
}

static void note_result(struct event_tailer *tailer, enum status status) {
  int64_t suppressed = 0;
  if (status == STATUS_OK || is_stopping(tailer)) return;
  if (!log_limit_pass(&tailer->trouble, clock_monotonic_us(tailer->clock), REST_AFTER_US, &suppressed)) return;
  log_warn("events_not_read", LOG_STR("status", status_name(status)), LOG_STR("reason", pg_client_error(tailer->client)),
           LOG_INT("suppressed", suppressed));
}

static void *run(void *context) {
  struct event_tailer *tailer = context;
  while (!is_stopping(tailer)) {
    bool rests = tailer->position < 0 && atomic_load_explicit(&tailer->interested, memory_order_relaxed) == 0;
    pg_client_wait(tailer->client, tailer->wake_fd, rests ? -1 : POLL_MS);
    struct tail_waiter *waiters = take_waiters(tailer);
    if (is_wanted(tailer, waiters)) {
      enum status status = read_new(tailer);
      answer(waiters, status == STATUS_OK);
      note_result(tailer, status);
      struct pollfd fd = {.fd = tailer->wake_fd, .events = POLLIN};
      (void)poll(&fd, 1, GAP_MS);
    }
  }
  return NULL;
}

enum status event_tailer_start(struct event_tailer *tailer) {
  tailer->last_interest_us = clock_monotonic_us(tailer->clock) - REST_AFTER_US; /* nobody yet */
  if (pthread_create(&tailer->thread, NULL, run, tailer) != 0) return STATUS_NO_MEMORY;
  tailer->started = true;
  return STATUS_OK;
}

void event_tailer_stop(struct event_tailer *tailer) {
  if (!tailer->started) return;
  pthread_mutex_lock(&tailer->lock);
  tailer->stopping = true;
  pthread_mutex_unlock(&tailer->lock);
  pg_client_interrupt(tailer->client);
  wake(tailer);
  pthread_join(tailer->thread, NULL);
  tailer->started = false;
  answer(take_waiters(tailer), false);
}
