#include "directory.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "load.h"
#include "log.h"
#include "metrics.h"

enum {
  POLL_US = 1000000,
  KNOWN_EVERY_US = 2000000,
  FIRST_LOAD_RETRY_US = 100000,
  ON_DEMAND_GAP_US = 100000, /* between refreshes that requests ask for: a flood of unknown tokens costs 10 queries a second */
  WAITERS_MAX = 1024,
};

struct directory {
  const struct clock *clock;
  struct pg_client *client;
  struct metric_series *postgres_up;
  pthread_t thread;
  bool started;

  pthread_mutex_t mutex; /* of all below */
  pthread_cond_t wake;   /* the thread's: a waiter, or stop; and the starter's: the first load */
  bool stopping;
  struct directory_waiter *waiters;
  size_t waiter_count;

  struct directory_snapshot *_Atomic current; /* written under the mutex; read without it only for comparison */
  atomic_bool loaded, up;
  int64_t known_due_us; /* the thread's own */
};

enum status directory_new(const char *postgres_url, const struct clock *clock, struct directory **out) {
  struct directory *directory = calloc(1, sizeof *directory);
  *out = NULL;
  if (directory == NULL) return STATUS_NO_MEMORY;
  struct directory_snapshot *empty = NULL;
  directory->clock = clock;
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&directory->wake, &attributes);
  pthread_condattr_destroy(&attributes);
  pthread_mutex_init(&directory->mutex, NULL);
  directory->postgres_up = metrics_series(METRIC_POSTGRES_UP);

  enum status status = snapshot_new(0, &empty);
  if (status == STATUS_OK) status = snapshot_finish(empty);
  atomic_init(&directory->current, empty);
  if (status == STATUS_OK) status = pg_client_new(postgres_url, "presence directory", clock, &directory->client);
  if (status != STATUS_OK) {
    directory_free(directory);
    return status;
  }
  *out = directory;
  return STATUS_OK;
}

void directory_free(struct directory *directory) {
  if (directory == NULL) return;
  directory_stop(directory);
  pg_client_free(directory->client);
  directory_release(atomic_load(&directory->current));
  pthread_cond_destroy(&directory->wake);
  pthread_mutex_destroy(&directory->mutex);
  free(directory);
}

struct directory_snapshot *directory_hold(struct directory *directory) {
  pthread_mutex_lock(&directory->mutex);
  struct directory_snapshot *snapshot = atomic_load_explicit(&directory->current, memory_order_relaxed);
  snapshot_hold(snapshot);
  pthread_mutex_unlock(&directory->mutex);
  return snapshot;
}

bool directory_is_newest(const struct directory *directory, const struct directory_snapshot *snapshot) {
  return atomic_load_explicit(&directory->current, memory_order_relaxed) == snapshot;
}

bool directory_is_up(const struct directory *directory) { return atomic_load_explicit(&directory->up, memory_order_relaxed); }

void directory_publish(struct directory *directory, struct directory_snapshot *snapshot) {
  pthread_mutex_lock(&directory->mutex);
  struct directory_snapshot *old = atomic_exchange_explicit(&directory->current, snapshot, memory_order_relaxed);
  pthread_mutex_unlock(&directory->mutex);
  directory_release(old);
}

/* One look at PostgreSQL: its clock, a new version, and from time to time the numbers of devices. */
static enum status poll_once(struct directory *directory) {
  int64_t version = 0;
  int64_t now_ms = 0;
  struct directory_snapshot *current =
      atomic_load_explicit(&directory->current, memory_order_relaxed); /* ours alone to replace */
  struct directory_snapshot *newer = NULL;
  bool first = !atomic_load_explicit(&directory->loaded, memory_order_relaxed);
  enum status status = load_state(directory->client, &version, &now_ms);
  if (status != STATUS_OK) return status;
  int64_t now_us = clock_monotonic_us(directory->clock);
  int64_t offset_ms = now_ms - now_us / 1000;
  snapshot_set_clock_offset(current, offset_ms);

  if (first || version != snapshot_version(current)) {
    status = load_snapshot(directory->client, version, &newer);
    directory->known_due_us = now_us + KNOWN_EVERY_US;
  } else if (now_us >= directory->known_due_us) {
    status = load_known(directory->client, current, &newer);
    directory->known_due_us = now_us + KNOWN_EVERY_US;
  }
  if (newer != NULL) {
    snapshot_set_clock_offset(newer, offset_ms);
    directory_publish(directory, newer);
  }
  return status;
}

static void note_result(struct directory *directory, enum status status) {
  bool up = status == STATUS_OK;
  bool was_up = atomic_exchange_explicit(&directory->up, up, memory_order_relaxed);
  metric_set(directory->postgres_up, up ? 1 : 0);
  bool loaded = atomic_load_explicit(&directory->loaded, memory_order_relaxed);
  if (!up && was_up)
    log_warn("directory_stale", LOG_STR("status", status_name(status)), LOG_STR("reason", pg_client_error(directory->client)));
  if (up && !was_up && loaded) log_info("directory_fresh", LOG_STR("status", "ok"));
}

static void run_waiter(struct loop_task *task) {
  struct directory_waiter *waiter = task->context;
  waiter->done(waiter, waiter->refreshed);
}

static void answer(struct directory_waiter *waiters, bool refreshed) {
  while (waiters != NULL) {
    struct directory_waiter *next = waiters->next;
    waiters->refreshed = refreshed;
    waiters->task = (struct loop_task){.run = run_waiter, .context = waiters};
    loop_post(waiters->loop, &waiters->task);
    waiters = next;
  }
}

/* Until the next poll is due. With the mutex held. */
static void wait_for_work(struct directory *directory, int64_t polled_us) {
  while (!directory->stopping) {
    bool loaded = atomic_load_explicit(&directory->loaded, memory_order_relaxed);
    int64_t gap_us = directory->waiters != NULL ? ON_DEMAND_GAP_US : loaded ? POLL_US : FIRST_LOAD_RETRY_US;
    int64_t left_us = polled_us + gap_us - clock_monotonic_us(directory->clock);
    if (left_us <= 0) return;
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += (long)(left_us % 1000000 * 1000);
    until.tv_sec += (time_t)(left_us / 1000000) + until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(&directory->wake, &directory->mutex, &until);
  }
}

static void *run(void *context) {
  struct directory *directory = context;
  pthread_mutex_lock(&directory->mutex);
  while (!directory->stopping) {
    struct directory_waiter *waiters = directory->waiters;
    directory->waiters = NULL;
    directory->waiter_count = 0;
    pthread_mutex_unlock(&directory->mutex);

    int64_t started_us = clock_monotonic_us(directory->clock);
    enum status status = poll_once(directory);
    note_result(directory, status);
    answer(waiters, status == STATUS_OK);

    pthread_mutex_lock(&directory->mutex);
    if (status == STATUS_OK && !atomic_exchange(&directory->loaded, true)) pthread_cond_broadcast(&directory->wake);
    wait_for_work(directory, started_us);
  }
  struct directory_waiter *left = directory->waiters;
  directory->waiters = NULL;
  directory->waiter_count = 0;
  pthread_mutex_unlock(&directory->mutex);
  answer(left, false);
  return NULL;
}

enum status directory_start(struct directory *directory, int64_t wait_ms) {
  if (pthread_create(&directory->thread, NULL, run, directory) != 0) return STATUS_NO_MEMORY;
  directory->started = true;
  struct timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  until.tv_sec += (time_t)(wait_ms / 1000);
  until.tv_nsec += (long)(wait_ms % 1000 * 1000000);
  if (until.tv_nsec >= 1000000000) {
    until.tv_nsec -= 1000000000;
    until.tv_sec++;
  }
  int error = 0;
  pthread_mutex_lock(&directory->mutex);
  while (!atomic_load(&directory->loaded) && error != ETIMEDOUT)
    error = pthread_cond_timedwait(&directory->wake, &directory->mutex, &until);
  pthread_mutex_unlock(&directory->mutex);
  if (atomic_load(&directory->loaded)) return STATUS_OK;
  directory_stop(directory);
  return STATUS_UNAVAILABLE;
}

void directory_stop(struct directory *directory) {
  if (!directory->started) return;
  pthread_mutex_lock(&directory->mutex);
  directory->stopping = true;
  pthread_cond_broadcast(&directory->wake);
  pthread_mutex_unlock(&directory->mutex);
  pg_client_interrupt(directory->client);
  pthread_join(directory->thread, NULL);
  directory->started = false;
}

enum status directory_refresh(struct directory *directory, struct directory_waiter *waiter) {
  enum status status = STATUS_OK;
  pthread_mutex_lock(&directory->mutex);
  if (!directory->started || directory->stopping)
    status = STATUS_UNAVAILABLE;
  else if (directory->waiter_count >= WAITERS_MAX)
    status = STATUS_FULL;
  if (status == STATUS_OK) {
    waiter->next = directory->waiters;
    directory->waiters = waiter;
    if (directory->waiter_count++ == 0) pthread_cond_broadcast(&directory->wake);
  }
  pthread_mutex_unlock(&directory->mutex);
  return status;
}
