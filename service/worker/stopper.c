#include "worker/stopper.h"

#include <errno.h>
#include <time.h>

enum status stopper_init(struct stopper *stopper) {
  pthread_condattr_t attributes;
  stopper->stopping = false;
  stopper->inside = 0;
  if (pthread_condattr_init(&attributes) != 0) {
    return STATUS_NO_MEMORY;
  }
  int failed = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  failed = failed != 0 ? failed : pthread_cond_init(&stopper->changed, &attributes);
  pthread_condattr_destroy(&attributes);
  if (failed != 0) {
    return STATUS_NO_MEMORY;
  }
  if (pthread_mutex_init(&stopper->mutex, NULL) != 0) {
    pthread_cond_destroy(&stopper->changed);
    return STATUS_NO_MEMORY;
  }
  return STATUS_OK;
}

void stopper_destroy(struct stopper *stopper) {
  pthread_mutex_destroy(&stopper->mutex);
  pthread_cond_destroy(&stopper->changed);
}

void stopper_stop(struct stopper *stopper) {
  pthread_mutex_lock(&stopper->mutex);
  stopper->stopping = true;
  pthread_cond_broadcast(&stopper->changed);
  pthread_mutex_unlock(&stopper->mutex);
}

void stopper_enter(struct stopper *stopper) {
  pthread_mutex_lock(&stopper->mutex);
  stopper->inside++;
  pthread_mutex_unlock(&stopper->mutex);
}

void stopper_leave(struct stopper *stopper) {
  pthread_mutex_lock(&stopper->mutex);
  stopper->inside--;
  pthread_cond_broadcast(&stopper->changed);
  pthread_mutex_unlock(&stopper->mutex);
}

static bool is_stopping(const struct stopper *stopper) { return stopper->stopping; }
static bool all_left(const struct stopper *stopper) { return stopper->inside == 0; }

/* By the kernel's clock, not a struct clock: it is the one the condition variable waits by. */
static bool wait_for(struct stopper *stopper, bool (*holds)(const struct stopper *stopper), int64_t wait_us) {
  struct timespec due;
  clock_gettime(CLOCK_MONOTONIC, &due);
  due.tv_sec += (time_t)(wait_us / 1000000);
  due.tv_nsec += (long)(wait_us % 1000000) * 1000;
  if (due.tv_nsec >= 1000000000L) {
    due.tv_sec++;
    due.tv_nsec -= 1000000000L;
  }
  pthread_mutex_lock(&stopper->mutex);
  int result = wait_us > 0 ? 0 : ETIMEDOUT;
  while (!holds(stopper) && result == 0) {
    result = pthread_cond_timedwait(&stopper->changed, &stopper->mutex, &due);
  }
  bool held = holds(stopper);
  pthread_mutex_unlock(&stopper->mutex);
  return held;
}

bool stopper_wait(struct stopper *stopper, int64_t wait_us) { return wait_for(stopper, is_stopping, wait_us); }
bool stopper_wait_left(struct stopper *stopper, int64_t wait_us) { return wait_for(stopper, all_left, wait_us); }
