/* merge.h: waiting heartbeats into the items of one script call, each device once (a doubled field in one HSETEX has crashed
 * Redis, and a device's state is one anyway). */
#ifndef PRESENCE_HEARTBEAT_MERGE_H
#define PRESENCE_HEARTBEAT_MERGE_H

#include "batcher.h"

enum { MERGE_SLOTS = 1024 }; /* a power of two, at least twice STORE_ITEMS_MAX */

/* Of several heartbeats for a device the last one's values count; metadata that an earlier one sets stays in force unless a later
 * one says something about it; what one of them may or wants, all get. */
struct merge {
  struct record_item items[STORE_ITEMS_MAX];
  size_t count;
  size_t first; /* of the section that is being filled */
  size_t mask;
  uint16_t slots[MERGE_SLOTS]; /* index + 1 of an item by its device's hash; 0: free */
};

/* expected: about how many entries will come, in all sections. */
void merge_begin(struct merge *merge, size_t expected);
/* From here on items of another partition come. */
static inline void merge_section(struct merge *merge) { merge->first = merge->count; }
/* Sets entry->slot, counted from the section's first item. False: the items are full, and the entry's device is not among them.
 */
bool merge_add(struct merge *merge, struct batcher_entry *entry);

#endif
