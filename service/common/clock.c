#include "clock.h"

#include <time.h>

static int64_t system_monotonic_us(void *context) {
  (void)context;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail with this clock and a valid pointer */
  return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

static int64_t system_realtime_ms(void *context) {
  (void)context;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

const struct clock *clock_system(void) {
  static const struct clock clock = {.monotonic_us = system_monotonic_us, .realtime_ms = system_realtime_ms};
  return &clock;
}
