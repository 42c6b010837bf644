/* clock.h: time as an argument. Logic never reads a clock by itself, so a test can hand it any time. */
#ifndef PRESENCE_CLOCK_H
#define PRESENCE_CLOCK_H

#include <stdint.h>

struct clock {
  int64_t (*monotonic_us)(void *context); /* never steps; origin unspecified */
  int64_t (*realtime_ms)(void *context);  /* since 1970, this host's clock: for logs only, never for promises */
  void *context;
};

/* The system's clocks. Static storage, any thread. */
const struct clock *clock_system(void);

static inline int64_t clock_monotonic_us(const struct clock *clock) { return clock->monotonic_us(clock->context); }
static inline int64_t clock_monotonic_ms(const struct clock *clock) { return clock->monotonic_us(clock->context) / 1000; }
static inline int64_t clock_realtime_ms(const struct clock *clock) { return clock->realtime_ms(clock->context); }

#endif
