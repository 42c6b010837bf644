#include "rate_limit.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "hash.h"

enum { BUCKETS = 16384, PROBES = 16, BURST_LEAST = 1000 };
static const int64_t SECOND_NS = 1000000000;

struct bucket {
  _Atomic uint64_t tenant; /* hash of its id; 0: never used */
  _Atomic int64_t full_ns; /* when it will be full again if nothing more is taken */
};

struct rate_limiter {
  struct bucket buckets[BUCKETS];
};

enum status rate_limiter_new(struct rate_limiter **limiter) {
  *limiter = calloc(1, sizeof **limiter);
  return *limiter == NULL ? STATUS_NO_MEMORY : STATUS_OK;
}

void rate_limiter_free(struct rate_limiter *limiter) { free(limiter); }

/* The tenant's bucket; where it has none, one that is full (its last tenant loses nothing); at worst the last one probed. */
static struct bucket *find(struct rate_limiter *limiter, uint64_t tenant, int64_t now_ns) {
  struct bucket *bucket = NULL;
  for (uint64_t i = 0; i < PROBES; i++) {
    bucket = &limiter->buckets[(tenant + i) % BUCKETS];
    if (atomic_load_explicit(&bucket->tenant, memory_order_relaxed) == tenant) return bucket;
  }
  for (uint64_t i = 0; i < PROBES; i++) {
    bucket = &limiter->buckets[(tenant + i) % BUCKETS];
    uint64_t owner = atomic_load_explicit(&bucket->tenant, memory_order_relaxed);
    if (atomic_load_explicit(&bucket->full_ns, memory_order_relaxed) <= now_ns &&
        atomic_compare_exchange_strong_explicit(&bucket->tenant, &owner, tenant, memory_order_relaxed, memory_order_relaxed))
      return bucket;
  }
  return bucket;
}

unsigned rate_limiter_take(struct rate_limiter *limiter, struct str tenant, int64_t per_second, int64_t count, int64_t now_us) {
  if (per_second <= 0 || per_second > SECOND_NS || count <= 0) return 0;
  int64_t now_ns = now_us * 1000;
  int64_t token_ns = SECOND_NS / per_second;
  int64_t burst_ns = token_ns * (per_second > BURST_LEAST ? per_second : BURST_LEAST);
  struct bucket *bucket = find(limiter, hash_device(tenant) | 1, now_ns);
  int64_t full_ns = atomic_load_explicit(&bucket->full_ns, memory_order_relaxed);
  int64_t after_ns = 0;
  do {
    after_ns = (full_ns > now_ns ? full_ns : now_ns) + token_ns * count;
    if (after_ns - now_ns > burst_ns) return (unsigned)((after_ns - now_ns - burst_ns + SECOND_NS - 1) / SECOND_NS);
  } while (
      !atomic_compare_exchange_weak_explicit(&bucket->full_ns, &full_ns, after_ns, memory_order_relaxed, memory_order_relaxed));
  return 0;
}
