/* Rows of the outbox as a batch: what lies where, what a tenant finds behind a seq, and that memory may be short. */
#include "support/unit.h"

#include <stdio.h>
#include <string.h>

#include "events/event_batch.h"
#include "support/alloc_fail.h"

static const struct {
  const char *tenant;
  int64_t seq;
} rows[] = {{"a", 3}, {"a", 7}, {"a-b", 2}, {"ab", 5}, {"ab", 6}, {"ab", 9}, {"b", 4}};
enum { ROWS = sizeof rows / sizeof rows[0] };

static enum status add(struct event_batch *batch, const char *tenant, int64_t seq) {
  const struct cloud_event event = {.seq = seq,
                                    .id = STR_LIT("06d54c45-fd64-5719-a718-57162bfa2647"),
                                    .type = STR_LIT("presence.device.online"),
                                    .tenant = str_from(tenant),
                                    .device = STR_LIT("d"),
                                    .occurred_ms = 1000,
                                    .data = STR_LIT("{}")};
  return event_batch_add(batch, &event);
}

static enum status make(struct event_batch **out) {
  struct event_batch *batch = NULL;
  enum status status = event_batch_new(ROWS, 1, 9, &batch);
  for (size_t i = 0; i < ROWS && status == STATUS_OK; i++) status = add(batch, rows[i].tenant, rows[i].seq);
  if (status == STATUS_OK) status = event_batch_finish(batch);
  if (status == STATUS_OK)
    *out = batch;
  else
    event_batch_release(batch);
  return status;
}

/* Against a plain look at all rows. */
static void a_tenant_finds_what_is_its_own_behind_a_seq(void **state) {
  (void)state;
  static const char *const tenants[] = {"", "a", "a-", "a-b", "ab", "abc", "b", "c"};
  struct event_batch *batch = NULL;
  assert_status(STATUS_OK, make(&batch));
  for (size_t t = 0; t < sizeof tenants / sizeof tenants[0]; t++) {
    for (int64_t after = -1; after <= 10; after++) {
      size_t first = 0;
      size_t wanted = 0;
      size_t wanted_first = 0;
      for (size_t i = 0; i < ROWS; i++) {
        if (strcmp(rows[i].tenant, tenants[t]) != 0 || rows[i].seq <= after) continue;
        if (wanted++ == 0) wanted_first = i;
      }
      assert_int_equal(event_batch_find(batch, str_from(tenants[t]), after, &first), wanted);
      if (wanted > 0) assert_int_equal(first, wanted_first);
    }
    size_t first = 0;
    assert_int_equal(event_batch_find(batch, str_from(tenants[t]), INT64_MAX, &first), 0);
  }
  event_batch_release(batch);
}

static void frames_lie_side_by_side(void **state) {
  (void)state;
  struct event_batch *batch = NULL;
  assert_status(STATUS_OK, make(&batch));
  size_t at = 0;
  for (size_t i = 0; i < batch->count; i++) {
    const struct event_entry *event = &batch->events[i];
    char begin[64];
    int len = snprintf(begin, sizeof begin, "id: %d\ndata: {", (int)rows[i].seq);
    assert_int_equal(event->frame, at);
    assert_memory_equal(batch->frames->data + event->frame, begin, (size_t)len);
    assert_int_equal(batch->frames->data[event->data], '{');
    assert_int_equal(batch->frames->data[event->data + event->data_len - 1], '}');
    assert_memory_equal(batch->frames->data + event->data + event->data_len, "\n\n", 2);
    assert_int_equal(event->end, event->data + event->data_len + 2);
    at = event->end;
  }
  assert_int_equal(at, batch->frames->len);
  event_batch_release(batch);
}

static void who_holds_the_frames_keeps_them(void **state) {
  (void)state;
  struct event_batch *batch = NULL;
  assert_status(STATUS_OK, make(&batch));
  event_batch_release(event_batch_hold(batch));
  struct shared_bytes *frames = shared_bytes_hold(batch->frames);
  event_batch_release(batch);
  assert_memory_equal(frames->data, "id: 3\n", 6);
  shared_bytes_release(frames);
  event_batch_release(NULL);
  shared_bytes_release(NULL);
}

static void no_more_than_its_room(void **state) {
  (void)state;
  struct event_batch *batch = NULL;
  assert_status(STATUS_OK, event_batch_new(1, 0, 0, &batch));
  assert_status(STATUS_OK, add(batch, "a", 1));
  assert_status(STATUS_FULL, add(batch, "a", 2));
  assert_status(STATUS_OK, event_batch_finish(batch));
  event_batch_release(batch);
  assert_status(STATUS_OK, event_batch_new(0, 5, 5, &batch)); /* an empty one */
  assert_status(STATUS_OK, event_batch_finish(batch));
  size_t first = 0;
  assert_int_equal(event_batch_find(batch, STR_LIT("a"), 0, &first), 0);
  event_batch_release(batch);
}

static bool make_once(void *context) {
  (void)context;
  struct event_batch *batch = NULL;
  if (make(&batch) != STATUS_OK) return false;
  event_batch_release(batch);
  return true;
}

static void short_memory_is_said(void **state) {
  (void)state;
  assert_true(alloc_fail_sweep(make_once, NULL) > 3);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_tenant_finds_what_is_its_own_behind_a_seq),
      cmocka_unit_test(frames_lie_side_by_side),
      cmocka_unit_test(who_holds_the_frames_keeps_them),
      cmocka_unit_test(no_more_than_its_room),
      cmocka_unit_test(short_memory_is_said),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
