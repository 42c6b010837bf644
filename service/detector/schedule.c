#include "detector/schedule.h"

#include "detector.h"

/* Marks come every 25 ms and the cutoff moves with them: looking much more often finds nothing new. */
#define WAIT_MIN_MS 5
#define WAIT_DEAF_MS 50

int64_t schedule_wait_ms(int64_t earliest_ms, int64_t cutoff_ms, bool cutoff_moved) {
  int64_t shortest = cutoff_moved ? WAIT_MIN_MS : WAIT_DEAF_MS;
  if (earliest_ms <= cutoff_ms) { /* due when the cutoff has passed it */
    return shortest;
  }
  if (earliest_ms > cutoff_ms + DETECTOR_SLEEP_MAX_MS) {
    return DETECTOR_SLEEP_MAX_MS;
  }
  int64_t wait = earliest_ms - cutoff_ms + 1;
  return wait < shortest ? shortest : wait > DETECTOR_SLEEP_MAX_MS ? DETECTOR_SLEEP_MAX_MS : wait;
}
