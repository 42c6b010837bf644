/* backoff.h: how long to wait before connecting again: doubling, with a random part so that many processes do not come back in
 * step. Private to service/redis. */
#ifndef PRESENCE_REDIS_BACKOFF_H
#define PRESENCE_REDIS_BACKOFF_H

#include <stdint.h>

struct backoff {
  int64_t delay_ms; /* 0: nothing failed since the last success */
};

/* After a failure: the wait in ms, at least half of 50, 100, 200 … 2000. */
int64_t backoff_next_ms(struct backoff *backoff);
static inline void backoff_reset(struct backoff *backoff) { backoff->delay_ms = 0; }

#endif
