#include "pg_pool.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

struct pool_thread {
  struct pg_pool *pool;
  struct pg_client *client;
  pthread_t thread;
};

struct pg_pool {
  pthread_mutex_t lock; /* of the queue and `stopping` */
  pthread_cond_t wake;
  struct pg_job *first, *last;
  size_t queued, queue_limit;
  bool stopping;
  atomic_bool up;
  unsigned started; /* threads to join */
  unsigned count;
  struct pool_thread threads[];
};

static void run_done(struct loop_task *task) {
  struct pg_job *job = task->context;
  job->done(job);
}

static void post_done(struct pg_job *job) {
  job->task = (struct loop_task){.run = run_done, .context = job};
  loop_post(job->loop, &job->task); /* the job may be gone after this */
}

/* The next job, or NULL when the pool stops. */
static struct pg_job *take_job(struct pg_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  while (pool->first == NULL && !pool->stopping) pthread_cond_wait(&pool->wake, &pool->lock);
  struct pg_job *job = pool->stopping ? NULL : pool->first;
  if (job != NULL) {
    pool->first = job->next;
    if (pool->first == NULL) pool->last = NULL;
    pool->queued--;
  }
  pthread_mutex_unlock(&pool->lock);
  return job;
}

static void *run_thread(void *argument) {
  struct pool_thread *thread = argument;
  for (struct pg_job *job; (job = take_job(thread->pool)) != NULL;) {
    /* Where a neighbour was just served, a wait after an outage is over: else whom a question meets would decide its answer. */
    if (pg_pool_is_up(thread->pool)) pg_client_end_backoff(thread->client);
    job->work(job, thread->client);
    atomic_store_explicit(&thread->pool->up, pg_client_is_up(thread->client), memory_order_relaxed);
    post_done(job);
  }
  return NULL;
}

enum status pg_pool_new(const char *url, unsigned threads, size_t queue_limit, const struct clock *clock, struct pg_pool **pool) {
  struct pg_pool *new = calloc(1, sizeof *new + threads * sizeof new->threads[0]);
  if (new == NULL) return STATUS_NO_MEMORY;
  pthread_mutex_init(&new->lock, NULL); /* neither fails on Linux with default attributes */
  pthread_cond_init(&new->wake, NULL);
  new->queue_limit = queue_limit;
  enum status status = STATUS_OK;
  for (; new->count < threads &&status == STATUS_OK; new->count += status == STATUS_OK) {
    new->threads[new->count].pool = new;
    status = pg_client_new(url, "presenced pool", clock, &new->threads[new->count].client);
  }
  for (; new->started < new->count &&status == STATUS_OK; new->started += status == STATUS_OK) {
    struct pool_thread *thread = &new->threads[new->started];
    if (pthread_create(&thread->thread, NULL, run_thread, thread) != 0) status = STATUS_IO;
  }
  if (status != STATUS_OK) {
    pg_pool_stop(new);
    pg_pool_free(new);
    return status;
  }
  *pool = new;
  return STATUS_OK;
}

enum status pg_pool_submit(struct pg_pool *pool, struct pg_job *job) {
  enum status status = STATUS_OK;
  job->next = NULL;
  pthread_mutex_lock(&pool->lock);
  if (pool->stopping || pool->queued >= pool->queue_limit) {
    status = STATUS_FULL;
  } else {
    if (pool->last != NULL)
      pool->last->next = job;
    else
      pool->first = job;
    pool->last = job;
    pool->queued++;
    pthread_cond_signal(&pool->wake);
  }
  pthread_mutex_unlock(&pool->lock);
  return status;
}

void pg_pool_stop(struct pg_pool *pool) {
  pthread_mutex_lock(&pool->lock);
  pool->stopping = true;
  pthread_cond_broadcast(&pool->wake);
  pthread_mutex_unlock(&pool->lock);
  for (unsigned i = 0; i < pool->count; i++) pg_client_interrupt(pool->threads[i].client);
  for (; pool->started > 0; pool->started--) pthread_join(pool->threads[pool->started - 1].thread, NULL);
  while (pool->first != NULL) { /* no thread is left, and nothing is taken in any more */
    struct pg_job *job = pool->first;
    pool->first = job->next;
    post_done(job);
  }
  pool->last = NULL;
  pool->queued = 0;
}

void pg_pool_free(struct pg_pool *pool) {
  if (pool == NULL) return;
  for (unsigned i = 0; i < pool->count; i++) pg_client_free(pool->threads[i].client);
  pthread_cond_destroy(&pool->wake);
  pthread_mutex_destroy(&pool->lock);
  free(pool);
}

bool pg_pool_is_up(const struct pg_pool *pool) { return atomic_load_explicit(&pool->up, memory_order_relaxed); }
