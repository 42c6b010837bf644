#include "waiting.h"

static bool is_plain(const struct batcher_entry *entry) { return !entry->left && store_record_is_plain(&entry->item); }

void waiting_add(struct waiting *waiting, struct batcher_entry *entry) {
  entry->next = NULL;
  if (waiting->last == NULL)
    waiting->first = entry;
  else
    waiting->last->next = entry;
  waiting->last = entry;
  waiting->count++;
  if (!is_plain(entry)) waiting->not_plain++;
}

struct batcher_entry *waiting_pop(struct waiting *waiting) {
  struct batcher_entry *entry = waiting->first;
  if (!is_plain(entry)) waiting->not_plain--;
  waiting->first = entry->next;
  if (waiting->first == NULL) waiting->last = NULL;
  waiting->count--;
  return entry;
}

struct batcher_entry *waiting_take_all(struct waiting *waiting) {
  struct batcher_entry *entries = waiting->first;
  *waiting = (struct waiting){0};
  return entries;
}

void waiting_put_back(struct waiting *waiting, const struct waiting *older) {
  if (older->count == 0) return;
  older->last->next = waiting->first;
  if (waiting->first == NULL) waiting->last = older->last;
  waiting->first = older->first;
  waiting->count += older->count;
  waiting->not_plain += older->not_plain;
}
