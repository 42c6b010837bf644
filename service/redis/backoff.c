#include "backoff.h"

#include "hash.h"

enum { FIRST_MS = 50, MAX_MS = 2000 };

int64_t backoff_next_ms(struct backoff *backoff) {
  int64_t delay = backoff->delay_ms > 0 ? backoff->delay_ms * 2 : FIRST_MS;
  backoff->delay_ms = delay < MAX_MS ? delay : MAX_MS;
  uint32_t random = UINT32_MAX;
  if (random_bytes(&random, sizeof random)) random = UINT32_MAX; /* without it all wait for the whole time */
  int64_t half = backoff->delay_ms / 2;
  return half + (int64_t)((uint64_t)half * random / UINT32_MAX);
}
