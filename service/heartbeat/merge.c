#include "merge.h"

#include "hash.h"

_Static_assert(MERGE_SLOTS >= 2 * STORE_ITEMS_MAX && (MERGE_SLOTS & (MERGE_SLOTS - 1)) == 0, "MERGE_SLOTS");

void merge_begin(struct merge *merge, size_t expected) {
  size_t slots = 16;
  while (slots < 2 * expected && slots < MERGE_SLOTS) slots *= 2;
  merge->count = merge->first = 0;
  merge->mask = slots - 1;
  memset(merge->slots, 0, slots * sizeof merge->slots[0]);
}

static bool same_device(const struct record_item *a, const struct record_item *b) {
  return str_equal(a->device, b->device) && str_equal(a->tenant.id, b->tenant.id);
}

static void replace(struct record_item *item, const struct record_item *later) {
  struct record_item merged = *later;
  if (later->meta_action == META_KEEP) {
    merged.meta_action = item->meta_action;
    merged.meta = item->meta;
  }
  merged.may_open = item->may_open || later->may_open;
  merged.want_detail = item->want_detail || later->want_detail;
  *item = merged;
}

bool merge_add(struct merge *merge, struct batcher_entry *entry) {
  size_t at = (size_t)hash_device(entry->item.device) & merge->mask;
  while (merge->slots[at] != 0) {
    size_t index = merge->slots[at] - 1U;
    /* After a tenant's buckets have changed a device may stand in another section too. */
    if (index >= merge->first && same_device(&merge->items[index], &entry->item)) {
      replace(&merge->items[index], &entry->item);
      entry->slot = (uint32_t)(index - merge->first);
      return true;
    }
    at = (at + 1) & merge->mask;
  }
  if (merge->count == STORE_ITEMS_MAX || merge->count == merge->mask) return false;
  entry->slot = (uint32_t)(merge->count - merge->first);
  merge->items[merge->count++] = entry->item;
  merge->slots[at] = (uint16_t)merge->count;
  return true;
}
