#include "webhook/health.h"

struct health health_begin(int64_t attempts, int64_t failing_ms, int64_t now_us) {
  return (struct health){.concurrency = 1, .attempts = attempts, .failing_since_us = now_us - failing_ms * 1000};
}

void health_success(struct health *health) {
  if (health->concurrency < HEALTH_CONCURRENCY_MAX) health->concurrency++;
  health->attempts = 0;
  health->blocked_until_us = 0;
}

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

int64_t health_backoff_ms(const struct health_limits *limits, const struct jitter *jitter, int64_t n) {
  int64_t most_ms = limits->retry_min_ms;
  for (int64_t i = 1; i < n && most_ms < limits->retry_max_ms; i++) most_ms *= 2;
  most_ms = least(most_ms, limits->retry_max_ms);
  return (int64_t)((uint64_t)jitter->next(jitter->context) * (uint64_t)(most_ms + 1) >> 32);
}

void health_failure(struct health *health, const struct health_limits *limits, const struct jitter *jitter,
                    int64_t retry_after_ms, int64_t now_us) {
  if (health->attempts == 0) health->failing_since_us = now_us;
  health->attempts++;
  int64_t wait_ms = least(retry_after_ms, HEALTH_RETRY_AFTER_MAX_MS);
  if (health->concurrency == 1) {
    int64_t backoff_ms = health_backoff_ms(limits, jitter, health->attempts);
    if (backoff_ms > wait_ms) wait_ms = backoff_ms;
  }
  if (health->concurrency > 1) health->concurrency /= 2;
  if (now_us + wait_ms * 1000 > health->blocked_until_us) health->blocked_until_us = now_us + wait_ms * 1000;
}

bool health_may_send(const struct health *health, unsigned sending, int64_t now_us) {
  return sending < health->concurrency && now_us >= health->blocked_until_us;
}

bool health_is_lost(const struct health *health, const struct health_limits *limits, int64_t now_us) {
  return health->attempts > 0 && now_us - health->failing_since_us >= limits->pause_after_ms * 1000;
}
