#include "event_batch.h"

#include <stdlib.h>

#include "session.h"

enum status event_batch_new(size_t capacity, int64_t after, int64_t last, struct event_batch **batch) {
  struct event_batch *new = calloc(1, sizeof *new);
  if (new == NULL) return STATUS_NO_MEMORY;
  atomic_init(&new->holders, 1);
  new->after = after;
  new->last = last;
  new->capacity = capacity;
  new->events = calloc(capacity > 0 ? capacity : 1, sizeof *new->events);
  /* Reserved whole, so that the entries' names never move. */
  if (new->events == NULL || buf_reserve(&new->names, capacity * TENANT_ID_MAX + 1) != STATUS_OK) {
    event_batch_release(new);
    return STATUS_NO_MEMORY;
  }
  *batch = new;
  return STATUS_OK;
}

struct event_batch *event_batch_hold(struct event_batch *batch) {
  atomic_fetch_add_explicit(&batch->holders, 1, memory_order_relaxed);
  return batch;
}

void event_batch_release(struct event_batch *batch) {
  if (batch == NULL || atomic_fetch_sub_explicit(&batch->holders, 1, memory_order_acq_rel) > 1) return;
  shared_bytes_release(batch->frames);
  buf_free(&batch->text);
  buf_free(&batch->names);
  free(batch->events);
  free(batch);
}

static enum status keep_tenant(struct event_batch *batch, struct str tenant, struct str *kept) {
  if (batch->count > 0 && str_equal(batch->events[batch->count - 1].tenant, tenant)) {
    *kept = batch->events[batch->count - 1].tenant;
    return STATUS_OK;
  }
  if (tenant.len > TENANT_ID_MAX) return STATUS_TOO_LARGE;
  *kept = (struct str){batch->names.data + batch->names.len, tenant.len};
  return buf_append_str(&batch->names, tenant);
}

enum status event_batch_add(struct event_batch *batch, const struct cloud_event *event) {
  if (batch->count == batch->capacity) return STATUS_FULL;
  struct event_entry entry = {.seq = event->seq, .frame = batch->text.len};
  enum status status = keep_tenant(batch, event->tenant, &entry.tenant);
  if (status == STATUS_OK) status = buf_append_str(&batch->text, STR_LIT("id: "));
  if (status == STATUS_OK) status = buf_append_int64(&batch->text, event->seq);
  if (status == STATUS_OK) status = buf_append_str(&batch->text, STR_LIT("\ndata: "));
  entry.data = batch->text.len;
  if (status == STATUS_OK) status = cloud_event_encode(&batch->text, event);
  entry.data_len = batch->text.len - entry.data;
  if (status == STATUS_OK) status = buf_append_str(&batch->text, STR_LIT("\n\n"));
  entry.end = batch->text.len;
  if (status == STATUS_OK) batch->events[batch->count++] = entry;
  return status;
}

enum status event_batch_finish(struct event_batch *batch) { return shared_bytes_new(&batch->text, &batch->frames); }

static int compare_str(struct str a, struct str b) {
  size_t len = a.len < b.len ? a.len : b.len;
  int order = len > 0 ? memcmp(a.data, b.data, len) : 0;
  return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* The first event that is not before (tenant, seq). */
static size_t lower_bound(const struct event_batch *batch, struct str tenant, int64_t seq) {
  size_t low = 0;
  size_t high = batch->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    const struct event_entry *event = &batch->events[middle];
    int order = compare_str(event->tenant, tenant);
    if (order < 0 || (order == 0 && event->seq < seq))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

size_t event_batch_find(const struct event_batch *batch, struct str tenant, int64_t after, size_t *first) {
  *first = 0;
  if (after == INT64_MAX) return 0;
  *first = lower_bound(batch, tenant, after + 1);
  return lower_bound(batch, tenant, INT64_MAX) - *first;
}
