/* rate_limit.h: a tenant's heartbeats per second in this process, all loops together, without a lock.
 *
 * Algorithm: a token bucket kept as one time, the "theoretical arrival time" of the generic cell rate algorithm (ITU-T I.371,
 * annex A): a bucket whose time has passed is full and needs no memory, so a table of fixed size serves any number of tenants. */
#ifndef PRESENCE_RATE_LIMIT_H
#define PRESENCE_RATE_LIMIT_H

#include "str.h"

struct rate_limiter;
enum status rate_limiter_new(struct rate_limiter **limiter) MUST_CHECK;
void rate_limiter_free(struct rate_limiter *limiter);

/* Takes count tokens of the tenant's bucket, which gets per_second tokens a second and holds one second's worth, at least 1000.
 * 0: taken. Else the seconds (1 or more) after which they would be there; nothing was taken. per_second 0: no limit.
 * now_us: monotonic. Any thread. Where the table is full of busy buckets tenants share one: limits are then too strict. */
unsigned rate_limiter_take(struct rate_limiter *limiter, struct str tenant, int64_t per_second, int64_t count, int64_t now_us);

#endif
