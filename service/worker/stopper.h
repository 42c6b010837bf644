/* stopper.h: a wait that a stop ends at once. */
#ifndef PRESENCE_WORKER_STOPPER_H
#define PRESENCE_WORKER_STOPPER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "status.h"

struct stopper {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  bool stopping; /* under the mutex */
};

enum status stopper_init(struct stopper *stopper) MUST_CHECK;
void stopper_destroy(struct stopper *stopper);

/* Any thread. */
void stopper_stop(struct stopper *stopper);
/* Waits, at most so long; 0 only asks. True once stopper_stop was called. */
bool stopper_wait(struct stopper *stopper, int64_t wait_us);

/* So far from now on CLOCK_MONOTONIC: the kernel's clock, not a struct clock, since the kernel waits by it. */
struct timespec stopper_deadline(int64_t wait_us);

#endif
