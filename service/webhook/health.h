/* health.h: how often one endpoint is asked, by how it has answered. Pure logic, one thread.
 *
 * An endpoint begins with one request at a time; each success allows one more, up to HEALTH_CONCURRENCY_MAX, each failure halves
 * that. Where even one at a time fails, nothing at all is sent for a back-off that grows with the failures: a dead endpoint costs
 * one request now and then, and no other endpoint waits for it. */
#ifndef PRESENCE_WEBHOOK_HEALTH_H
#define PRESENCE_WEBHOOK_HEALTH_H

#include <stdbool.h>
#include <stdint.h>

enum { HEALTH_CONCURRENCY_MAX = 8 };
#define HEALTH_RETRY_AFTER_MAX_MS INT64_C(3600000) /* of what a receiver may ask for */

struct health_limits {
  int64_t retry_min_ms, retry_max_ms; /* of the back-off */
  int64_t pause_after_ms;             /* of failing all the time */
};

/* Where jitter comes from: uniform over all 32 bits. */
struct jitter {
  uint32_t (*next)(void *context);
  void *context;
};

struct health {
  unsigned concurrency;     /* how many requests at once */
  int64_t attempts;         /* that failed since the last success */
  int64_t failing_since_us; /* monotonic: the first of them; meaningful while attempts > 0 */
  int64_t blocked_until_us; /* monotonic */
};

/* attempts, failing_ms: as saved; 0 where it does not fail. */
struct health health_begin(int64_t attempts, int64_t failing_ms, int64_t now_us);

void health_success(struct health *health);
/* retry_after_ms: what the receiver asked for; 0: nothing. */
void health_failure(struct health *health, const struct health_limits *limits, const struct jitter *jitter,
                    int64_t retry_after_ms, int64_t now_us);
bool health_may_send(const struct health *health, unsigned sending, int64_t now_us);
/* It has failed for so long that it is to be paused. */
bool health_is_lost(const struct health *health, const struct health_limits *limits, int64_t now_us);

/* How long to wait after the n-th failure (n >= 1): full jitter, which is uniform from 0 to retry_min_ms * 2^(n-1), retry_max_ms
 * at most (https://aws.amazon.com/blogs/architecture/exponential-backoff-and-jitter/). */
int64_t health_backoff_ms(const struct health_limits *limits, const struct jitter *jitter, int64_t n);

#endif
