/* lag.h: what is on its way: transitions not yet in PostgreSQL. */
#ifndef PRESENCE_CLI_LAG_H
#define PRESENCE_CLI_LAG_H

#include "redis_side.h"

struct partition_lag {
  int64_t backlog; /* entries of the stream */
  int64_t age_ms;  /* since the oldest of them was written; 0 where there is none */
};

/* lags[partition] for all partitions. */
enum status lag_read(struct redis_side *side, struct partition_lag *lags) MUST_CHECK;

#endif
