#include "worker/share.h"

uint32_t share_fair(uint32_t partitions, int64_t workers) {
  if (workers <= 1) {
    return partitions;
  }
  if (workers >= partitions) {
    return 1;
  }
  uint32_t count = (uint32_t)workers;
  return (partitions + count - 1) / count;
}

void share_plan(const bool *mine, uint32_t partitions, uint32_t share, uint32_t first, enum lease_wish *wishes) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < partitions; i++) {
    uint32_t partition = (first + i) % partitions;
    bool keep = mine[partition] && kept < share;
    kept += keep;
    wishes[partition] = keep ? LEASE_TAKE_OR_KEEP : mine[partition] ? LEASE_GIVE_UP : LEASE_ONLY_MARK;
  }
  for (uint32_t partition = 0; partition < partitions && kept < share; partition++) {
    if (wishes[partition] == LEASE_ONLY_MARK) {
      wishes[partition] = LEASE_TAKE_OR_KEEP;
    }
  }
}
