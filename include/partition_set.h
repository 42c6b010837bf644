/* partition_set.h: which partitions this process serves. The coordinator writes it, detector, publisher and maintenance read it
 * on their own threads; a partition that is served a moment too long does no harm. */
#ifndef PRESENCE_PARTITION_SET_H
#define PRESENCE_PARTITION_SET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "status.h"

struct partition_set {
  uint32_t partitions; /* numbers below this can be in it */
  _Atomic bool *member;
};

/* Empty. Zero-initialised, the struct may be given to partition_set_free. */
enum status partition_set_init(struct partition_set *set, uint32_t partitions) MUST_CHECK;
void partition_set_free(struct partition_set *set);

/* Any thread. */
bool partition_set_has(const struct partition_set *set, uint32_t partition);
void partition_set_put(struct partition_set *set, uint32_t partition, bool member);
uint32_t partition_set_size(const struct partition_set *set);

#endif
