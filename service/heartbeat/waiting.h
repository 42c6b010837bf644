/* waiting.h: the heartbeats that wait in a partition, the oldest first. */
#ifndef PRESENCE_HEARTBEAT_WAITING_H
#define PRESENCE_HEARTBEAT_WAITING_H

#include "batcher.h"

/* Begins as zero: nothing waits. */
struct waiting {
  struct batcher_entry *first, *last;
  size_t count;
  size_t not_plain; /* of count: renew_heartbeats can't do them, or has left them */
};

void waiting_add(struct waiting *waiting, struct batcher_entry *entry);
struct batcher_entry *waiting_pop(struct waiting *waiting);      /* the oldest; there must be one */
struct batcher_entry *waiting_take_all(struct waiting *waiting); /* linked by next */
/* Those in `older` came before all that wait. */
void waiting_put_back(struct waiting *waiting, const struct waiting *older);

#endif
