#include "partition_set.h"

#include <stdlib.h>

enum status partition_set_init(struct partition_set *set, uint32_t partitions) {
  set->partitions = partitions;
  set->member = calloc(partitions, sizeof *set->member);
  return set->member == NULL ? STATUS_NO_MEMORY : STATUS_OK;
}

void partition_set_free(struct partition_set *set) {
  free(set->member);
  *set = (struct partition_set){0};
}

bool partition_set_has(const struct partition_set *set, uint32_t partition) {
  return partition < set->partitions && atomic_load_explicit(&set->member[partition], memory_order_relaxed);
}

void partition_set_put(struct partition_set *set, uint32_t partition, bool member) {
  if (partition < set->partitions) {
    atomic_store_explicit(&set->member[partition], member, memory_order_relaxed);
  }
}

uint32_t partition_set_size(const struct partition_set *set) {
  uint32_t size = 0;
  for (uint32_t partition = 0; partition < set->partitions; partition++) {
    size += partition_set_has(set, partition);
  }
  return size;
}
