/* results.h: presence_heartbeats_total. The series belong to a loop's batcher, so that counting takes no lock and no look-up. */
#ifndef PRESENCE_HEARTBEAT_RESULTS_H
#define PRESENCE_HEARTBEAT_RESULTS_H

#include "batcher.h"

enum heartbeat_result {
#define RESULT(id, label) RESULT_##id,
#include "results.def"
#undef RESULT
  RESULT_COUNT
};

void batcher_count(struct batcher *batcher, enum heartbeat_result result, int64_t count);

#endif
