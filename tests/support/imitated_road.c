#include "support/test.h"

#include "support/imitated_road.h"

#include "metrics.h"

struct imitated_road road;
struct batcher *batcher;

static int64_t road_now_us(void *context) {
  (void)context;
  return road.now_us;
}

static bool road_ready(void *context, uint32_t partition) {
  (void)context;
  return !road.away[partition];
}

static enum status take(enum kind kind, uint32_t partition, struct batcher_call *call) {
  if (road.refuse != STATUS_OK) return road.refuse;
  assert_true(road.count < SENT_MAX);
  road.sent[road.count++] = (struct sent){.kind = kind, .partition = partition, .call = call};
  return STATUS_OK;
}

static uint32_t road_server(void *context, uint32_t partition) {
  (void)context;
  return road.server[partition];
}

static enum status road_record(void *context, bool renew, const struct record_section *sections, size_t count,
                               struct batcher_call *first) {
  (void)context;
  struct batcher_call *call = first;
  for (size_t i = 0; i < count; i++, call = batcher_call_next(call)) {
    enum status status = take(RECORD, sections[i].partition, call);
    if (status != STATUS_OK) return status;
    struct sent *sent = &road.sent[road.count - 1];
    sent->count = sections[i].count;
    sent->renew = renew;
    if (sent->count > 0) memcpy(sent->items, sections[i].items, sent->count * sizeof sent->items[0]);
  }
  assert_null(call);
  road.records++;
  return STATUS_OK;
}

static enum status road_probe(void *context, uint32_t partition, struct batcher_call *call) {
  (void)context;
  return take(PROBE, partition, call);
}

static enum status road_unlisten(void *context, uint32_t partition, struct batcher_call *call) {
  (void)context;
  return take(UNLISTEN, partition, call);
}

static void road_flush(void *context) {
  (void)context;
  road.flushes++;
}

static void road_free(void *context) {
  (void)context;
  road.freed = true;
}

struct sent *next_sent(void) {
  if (road.answered == road.count) return NULL;
  return &road.sent[road.answered];
}

void answer(enum status status, enum record_code code) {
  enum record_code codes[STORE_ITEMS_MAX];
  for (size_t i = 0; i < STORE_ITEMS_MAX; i++) codes[i] = code;
  answer_each(status, codes);
}

void answer_each(enum status status, const enum record_code *codes) {
  struct sent *sent = next_sent();
  assert_non_null(sent);
  road.answered++;
  struct record_reply head = {.now_ms = 1790000000000};
  struct record_outcome outcomes[STORE_ITEMS_MAX];
  assert_int_equal(batcher_call_items(sent->call), sent->count);
  for (size_t i = 0; i < sent->count; i++)
    outcomes[i] = (struct record_outcome){.code = codes[i], .session = {.ms = 1, .seq = (int64_t)i}};
  if (status == STATUS_OK && sent->kind == RECORD)
    batcher_answer(sent->call, status, &head, outcomes);
  else
    batcher_answer(sent->call, status, NULL, NULL);
}

struct batcher_road road_functions(void) {
  return (struct batcher_road){.context = &road,
                               .partitions = PARTITIONS,
                               .now_us = road_now_us,
                               .ready = road_ready,
                               .server = road_server,
                               .joins = true,
                               .record = road_record,
                               .probe = road_probe,
                               .unlisten = road_unlisten,
                               .flush = road_flush,
                               .free = road_free};
}

static int set_up(bool joins, bool at_once) {
  memset(&road, 0, sizeof road);
  road.now_us = 1000000;
  struct batcher_road functions = road_functions();
  functions.joins = joins;
  functions.at_once = at_once;
  struct batcher_options options = {
      .outage_ms = 200, .settle_ms = 5000, .listener = STR_LIT("loop"), .queue_max = QUEUE_MAX, .wait_max_ms = 1000};
  return batcher_new_on(&functions, &options, &batcher) == STATUS_OK ? 0 : -1;
}

int road_set_up(void **state) {
  (void)state;
  return set_up(true, false);
}

int road_set_up_without_joins(void **state) {
  (void)state;
  return set_up(false, false);
}

int road_set_up_at_once(void **state) {
  (void)state;
  return set_up(true, true);
}

int road_tear_down(void **state) {
  (void)state;
  batcher_free(batcher);
  while (next_sent() != NULL) answer(STATUS_CLOSED, RECORD_RENEWED);
  return road.freed ? 0 : -1;
}

void connect_up(void) {
  (void)batcher_after_pass(batcher);
  while (next_sent() != NULL) {
    assert_int_equal(next_sent()->kind, PROBE);
    answer(STATUS_OK, RECORD_RENEWED);
  }
  road.now_us += 1000;
}

/* ---- Heartbeats */

void beat_done(struct batcher_entry *entry, enum status status, const struct record_outcome *outcome, int64_t now_ms) {
  struct beat *beat = (struct beat *)entry;
  beat->answers++;
  beat->status = status;
  assert_true((outcome != NULL) == (status == STATUS_OK));
  if (outcome == NULL) return;
  beat->code = outcome->code;
  beat->session = outcome->session;
  beat->now_ms = now_ms;
}

struct beat beat_of(const char *tenant, const char *device, int64_t ttl_ms) {
  return (struct beat){.entry = {.done = beat_done,
                                 .item = {.tenant = {.id = str_from(tenant), .generation = 1, .buckets = 4},
                                          .device = str_from(device),
                                          .ttl_ms = ttl_ms,
                                          .may_open = true}}};
}

void add_to(uint32_t partition, struct beat *beat) { assert_int_equal(batcher_add(batcher, partition, &beat->entry), STATUS_OK); }

int road_metrics_up(void **state) {
  (void)state;
  return metrics_init() == STATUS_OK ? 0 : -1;
}

int road_metrics_down(void **state) {
  (void)state;
  metrics_free();
  return 0;
}
