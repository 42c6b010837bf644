/* stopper.h: a wait that a stop ends at once, and a wait, with a limit, for the threads that it stops. */
#ifndef PRESENCE_WORKER_STOPPER_H
#define PRESENCE_WORKER_STOPPER_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "status.h"

struct stopper {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  bool stopping;   /* under the mutex */
  unsigned inside; /* likewise: threads that entered and have not left */
};

enum status stopper_init(struct stopper *stopper) MUST_CHECK;
void stopper_destroy(struct stopper *stopper);

/* Any thread. */
void stopper_stop(struct stopper *stopper);
/* Waits, at most so long; 0 only asks. True once stopper_stop was called. */
bool stopper_wait(struct stopper *stopper, int64_t wait_us);

/* A thread is counted from stopper_enter, by whoever makes it, to stopper_leave, its own last act. */
void stopper_enter(struct stopper *stopper);
void stopper_leave(struct stopper *stopper);
/* Waits, at most so long, until all have left; true once they have. */
bool stopper_wait_left(struct stopper *stopper, int64_t wait_us);

#endif
