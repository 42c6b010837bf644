#include "batcher.h"

#include <stdlib.h>

#include "batcher_road.h"
#include "hearing.h"
#include "merge.h"
#include "metrics.h"
#include "results.h"
#include "waiting.h"
#include "wave.h"

/* A partition has one call under way, so that its next batch grows while Redis works; for the same reason calls go to a server in
 * waves (wave.h). WORTH_SENDING heartbeats have nothing more to gain and do not wait for one. */
enum { CALLS_PER_PARTITION = 1, WORTH_SENDING = 32, SECTIONS_MAX = 64, LATE_CHECK_US = 100000 };

enum call_kind { CALL_FREE, CALL_RECORD, CALL_PROBE, CALL_UNLISTEN };

struct batcher_call {
  struct partition *partition;
  enum call_kind kind;
  uint32_t server; /* it went to */
  size_t items;
  struct batcher_entry *entries; /* those it answers */
  struct batcher_call *next;     /* the next section of the same script call */
};

struct partition {
  struct batcher *batcher;
  uint32_t number;
  unsigned outstanding;
  struct batcher_call calls[CALLS_PER_PARTITION];
  struct waiting waiting;
  bool opening; /* most of the last call's heartbeats were no renewals: renew_heartbeats would leave them */
  struct hearing hearing;
  bool touched; /* in the batcher's list of partitions with something waiting */
  struct partition *next_touched;
  struct partition *next_due; /* while a pass sends */
  bool unlistened;            /* its mark is gone or can't be taken away; after batcher_unlisten */
};

struct batcher {
  struct batcher_road road;
  size_t queue_max;
  int64_t wait_max_us;
  struct hearing_rules rules;
  int64_t now_us;       /* of the pass */
  int64_t heartbeat_us; /* the last real heartbeat recorded; 0: none yet */
  int64_t marks_us;     /* when to look for marks again */
  size_t waiting;
  size_t outstanding;
  struct wave *waves; /* by server */
  int64_t added_us;   /* the last heartbeat */
  bool nobody_else;   /* every client waits for an answer */
  bool answered;      /* a wave was, since the last pass */
  int64_t gather_us;  /* until when a wave that could be sent gathers more; 0: none does */
  struct partition *touched;
  bool closed; /* batcher_free was called, calls are still outstanding */
  bool stopping;
  void (*unlistened)(void *context);
  void *unlistened_context;
  struct metric_series *results[RESULT_COUNT];
  struct metric_series *batch_size, *deaf_seconds, *field_replies[FIELD_REPLY_COUNT];
  struct merge merge;
  struct record_section sections[SECTIONS_MAX]; /* of the script call that is being put together; their items are in merge */
  size_t section_count;
  bool renew;                                  /* it goes by renew_heartbeats */
  struct batcher_call *first_call, *last_call; /* theirs */
  struct partition partitions[];
};

static void find_series(struct batcher *batcher) {
  static const char *const labels[] = {
#define RESULT(id, label) [RESULT_##id] = (label),
#include "results.def"
#undef RESULT
  };
  for (size_t i = 0; i < RESULT_COUNT; i++) batcher->results[i] = metrics_series(METRIC_HEARTBEATS, labels[i]);
  batcher->batch_size = metrics_series(METRIC_BATCH_SIZE);
  batcher->deaf_seconds = metrics_series(METRIC_DEAF_SECONDS);
  for (enum field_reply reply = 0; reply < FIELD_REPLY_COUNT; reply++)
    batcher->field_replies[reply] = metrics_series(METRIC_FIELD_TTL_REPLIES, field_reply_name(reply));
}

enum status batcher_new_on(const struct batcher_road *road, const struct batcher_options *options, struct batcher **out) {
  struct batcher *batcher = calloc(1, sizeof *batcher + road->partitions * sizeof batcher->partitions[0]);
  struct wave *waves = calloc(road->partitions, sizeof *waves);
  *out = batcher;
  if (batcher == NULL || waves == NULL) {
    free(batcher);
    free(waves);
    *out = NULL;
    road->free(road->context);
    return STATUS_NO_MEMORY;
  }
  batcher->waves = waves;
  batcher->road = *road;
  batcher->queue_max = options->queue_max;
  batcher->wait_max_us = options->wait_max_ms * 1000;
  batcher->rules = (struct hearing_rules){.outage_us = options->outage_ms * 1000, .settle_us = options->settle_ms * 1000};
  batcher->now_us = road->now_us(road->context);
  for (uint32_t i = 0; i < road->partitions; i++) {
    struct partition *partition = &batcher->partitions[i];
    partition->batcher = batcher;
    partition->number = i;
    hearing_failed(&partition->hearing, batcher->now_us);
    for (size_t call = 0; call < CALLS_PER_PARTITION; call++) partition->calls[call].partition = partition;
  }
  find_series(batcher);
  return STATUS_OK;
}

void batcher_count(struct batcher *batcher, enum heartbeat_result result, int64_t count) {
  if (count > 0) metric_add(batcher->results[result], count);
}

static bool is_ready(struct partition *partition) {
  struct batcher_road *road = &partition->batcher->road;
  return road->ready(road->context, partition->number);
}

/* ---- Entries */

static struct batcher_entry *pop(struct partition *partition) {
  partition->batcher->waiting--;
  return waiting_pop(&partition->waiting);
}

/* done() may add again, or free the entry. */
static void answer_all(struct batcher_entry *entries, enum status status) {
  while (entries != NULL) {
    struct batcher_entry *entry = entries;
    entries = entry->next;
    entry->done(entry, status, NULL, 0);
  }
}

static void answer_waiting(struct partition *partition, enum status status) {
  partition->batcher->waiting -= partition->waiting.count;
  answer_all(waiting_take_all(&partition->waiting), status);
}

static void touch(struct partition *partition) {
  struct batcher *batcher = partition->batcher;
  if (partition->touched) return;
  partition->touched = true;
  partition->next_touched = batcher->touched;
  batcher->touched = partition;
}

enum status batcher_add(struct batcher *batcher, uint32_t number, struct batcher_entry *entry) {
  struct partition *partition = &batcher->partitions[number];
  if (batcher->closed || batcher->stopping || !is_ready(partition)) return STATUS_UNAVAILABLE;
  if (batcher->waiting >= batcher->queue_max) return STATUS_FULL;
  entry->added_us = batcher->added_us = batcher->road.now_us(batcher->road.context);
  entry->left = false;
  waiting_add(&partition->waiting, entry);
  batcher->waiting++;
  touch(partition);
  return STATUS_OK;
}

/* Those that renew_heartbeats has left wait again, for record_heartbeats. */
static void answer_recorded(struct partition *partition, struct batcher_entry *entries, const struct record_outcome *outcomes,
                            int64_t now_ms) {
  struct waiting left = {0};
  while (entries != NULL) {
    struct batcher_entry *entry = entries;
    entries = entry->next;
    entry->left = outcomes[entry->slot].code == RECORD_LEFT;
    if (entry->left)
      waiting_add(&left, entry);
    else
      entry->done(entry, STATUS_OK, &outcomes[entry->slot], now_ms);
  }
  if (left.count == 0) return;
  waiting_put_back(&partition->waiting, &left);
  partition->batcher->waiting += left.count;
  touch(partition);
}

/* ---- Calls */

static struct batcher_call *take_call(struct partition *partition, enum call_kind kind) {
  for (size_t i = 0; i < CALLS_PER_PARTITION; i++) {
    struct batcher_call *call = &partition->calls[i];
    if (call->kind == CALL_FREE) {
      call->kind = kind;
      call->items = 0;
      call->entries = NULL;
      call->next = NULL;
      call->server = partition->batcher->road.server(partition->batcher->road.context, partition->number);
      return call;
    }
  }
  return NULL;
}

static void begin_call(struct batcher_call *call) {
  struct batcher *batcher = call->partition->batcher;
  call->partition->outstanding++;
  batcher->outstanding++;
  if (call->items > 0) {
    wave_sent(&batcher->waves[call->server], call->items, batcher->now_us);
  }
  hearing_sent(&call->partition->hearing, batcher->now_us);
}

/* A probe or an unlisten. */
static void send_call(struct batcher_call *call) {
  struct partition *partition = call->partition;
  struct batcher_road *road = &partition->batcher->road;
  enum status status;
  begin_call(call);
  if (call->kind == CALL_PROBE)
    status = road->probe(road->context, partition->number, call);
  else
    status = road->unlisten(road->context, partition->number, call);
  if (status != STATUS_OK) batcher_answer(call, status, NULL, NULL);
}

static void send_sections(struct batcher *batcher) {
  struct batcher_road *road = &batcher->road;
  struct batcher_call *call = batcher->first_call;
  size_t count = batcher->section_count;
  batcher->first_call = batcher->last_call = NULL;
  batcher->section_count = 0;
  if (count == 0) return;
  if (batcher->merge.count > 0) metric_observe(batcher->batch_size, (double)batcher->merge.count);
  enum status status = road->record(road->context, batcher->renew, batcher->sections, count, call);
  while (status != STATUS_OK && call != NULL) {
    struct batcher_call *next = call->next;
    batcher_answer(call, status, NULL, NULL);
    call = next;
  }
}

static size_t call_max(bool renew) { return renew ? BATCHER_CALL_MAX : BATCHER_OPENING_MAX; }

static size_t at_most(size_t waiting, size_t most) { return waiting < most ? waiting : most; }

/* Takes waiting entries into the call, as many as fit; the merged items are in batcher->merge until it is sent. */
static void collect(struct batcher_call *call) {
  struct partition *partition = call->partition;
  struct merge *merge = &partition->batcher->merge;
  struct batcher_entry **link = &call->entries;
  size_t most = call_max(partition->batcher->renew);
  while (partition->waiting.first != NULL && merge->count < most && merge_add(merge, partition->waiting.first)) {
    *link = pop(partition);
    link = &(*link)->next;
  }
  *link = NULL;
  call->items = merge->count - merge->first;
  for (struct batcher_entry *entry = call->entries; entry != NULL; entry = entry->next)
    entry->item.ttl_ms = merge->items[merge->first + entry->slot].ttl_ms;
}

static bool goes_by_renew(const struct partition *partition) {
  return partition->waiting.first == NULL || (partition->waiting.not_plain == 0 && !partition->opening);
}

/* What waits in the partition, or nothing: a mark. Sent with send_sections. */
static void add_section(struct partition *partition) {
  struct batcher *batcher = partition->batcher;
  struct merge *merge = &batcher->merge;
  bool renew = goes_by_renew(partition);
  size_t most = call_max(renew);
  bool fits = renew == batcher->renew && batcher->section_count < SECTIONS_MAX &&
              merge->count + at_most(partition->waiting.count, most) <= most;
  if (batcher->section_count > 0 && !(batcher->road.joins && fits)) send_sections(batcher);
  if (batcher->section_count == 0) merge_begin(merge, at_most(batcher->waiting, most));
  batcher->renew = renew;
  merge_section(merge);
  struct batcher_call *call = take_call(partition, CALL_RECORD);
  collect(call);
  if (batcher->last_call == NULL)
    batcher->first_call = call;
  else
    batcher->last_call->next = call;
  batcher->last_call = call;
  batcher->sections[batcher->section_count++] =
      (struct record_section){partition->number, merge->items + merge->first, call->items};
  begin_call(call);
}

static void drop_late(struct partition *partition) {
  struct batcher *batcher = partition->batcher;
  while (partition->waiting.first != NULL && batcher->now_us - partition->waiting.first->added_us > batcher->wait_max_us) {
    struct batcher_entry *entry = pop(partition);
    entry->done(entry, STATUS_TIMEOUT, NULL, 0);
  }
}

static bool is_due(const struct partition *partition) {
  struct batcher *batcher = partition->batcher;
  if (partition->waiting.first == NULL || partition->outstanding == CALLS_PER_PARTITION) return false;
  if (partition->waiting.count >= WORTH_SENDING || batcher->road.at_once) return true;
  const struct wave *wave = &batcher->waves[batcher->road.server(batcher->road.context, partition->number)];
  int64_t next_us = wave_next_us(wave, batcher->added_us, !batcher->nobody_else);
  if (next_us <= batcher->now_us) return true;
  if (batcher->gather_us == 0 || next_us < batcher->gather_us) batcher->gather_us = next_us;
  return false;
}

static void send_waiting(struct batcher *batcher) {
  struct partition *touched = batcher->touched, *due[2] = {NULL, NULL}; /* by goes_by_renew: so each script has one call */
  batcher->touched = NULL;
  batcher->gather_us = 0;
  while (touched != NULL) { /* all are judged before the first is sent */
    struct partition *partition = touched;
    touched = partition->next_touched;
    partition->touched = false;
    drop_late(partition);
    if (is_due(partition)) {
      bool renew = goes_by_renew(partition);
      partition->next_due = due[renew];
      due[renew] = partition;
    } else if (partition->waiting.first != NULL) {
      touch(partition);
    }
  }
  for (int renew = 0; renew < 2; renew++) {
    for (struct partition *partition = due[renew]; partition != NULL; partition = partition->next_due) {
      add_section(partition);
      if (partition->waiting.first != NULL) touch(partition);
    }
  }
  send_sections(batcher);
}

size_t batcher_call_items(const struct batcher_call *call) { return call->items; }
struct batcher_call *batcher_call_next(const struct batcher_call *call) {
  return call->next;
}
void *batcher_call_context(const struct batcher_call *call) { return call->partition->batcher->road.context; }

static void note_success(struct partition *partition, const struct batcher_call *call, const struct record_reply *head) {
  struct batcher *batcher = partition->batcher;
  bool heartbeats = call->items > 0;
  int64_t now_us = batcher->road.now_us(batcher->road.context);
  hearing_succeeded(&partition->hearing, &batcher->rules, heartbeats, now_us);
  if (heartbeats) batcher->heartbeat_us = now_us;
  if (head != NULL && head->deaf_ms > 0) /* each partition reports a deaf interval once */
    metric_add_seconds(batcher->deaf_seconds, (double)head->deaf_ms / 1000 / batcher->road.partitions);
  for (size_t i = 0; head != NULL && i < FIELD_REPLY_COUNT; i++)
    if (head->field_replies[i] > 0) metric_add(batcher->field_replies[i], head->field_replies[i]);
}

static void note_openings(struct partition *partition, const struct record_outcome *outcomes, size_t count) {
  size_t renewed = 0;
  for (size_t i = 0; i < count; i++) renewed += outcomes[i].code == RECORD_RENEWED;
  if (count > 0) partition->opening = 2 * renewed < count;
}

static void release(struct batcher *batcher) {
  batcher->road.free(batcher->road.context);
  free(batcher->waves);
  free(batcher);
}

void batcher_answer(struct batcher_call *call, enum status status, const struct record_reply *head,
                    const struct record_outcome *outcomes) {
  struct partition *partition = call->partition;
  struct batcher *batcher = partition->batcher;
  struct batcher_entry *entries = call->entries;
  if (call->kind == CALL_UNLISTEN)
    partition->unlistened = true;
  else if (status == STATUS_OK)
    note_success(partition, call, head);
  else
    hearing_failed(&partition->hearing, batcher->road.now_us(batcher->road.context));
  call->kind = CALL_FREE;
  call->entries = NULL;
  partition->outstanding--;
  batcher->outstanding--;
  if (call->items > 0 && wave_answered(&batcher->waves[call->server])) batcher->answered = true;
  batcher->marks_us = 0;
  if (outcomes != NULL) {
    note_openings(partition, outcomes, call->items);
    answer_recorded(partition, entries, outcomes, head->now_ms);
  } else {
    answer_all(entries, status);
  }
  if (batcher->closed && batcher->outstanding == 0) release(batcher);
}

void batcher_free(struct batcher *batcher) {
  if (batcher == NULL) return;
  batcher->closed = true;
  batcher->outstanding++; /* so that nothing below releases it */
  for (uint32_t i = 0; i < batcher->road.partitions; i++) {
    struct partition *partition = &batcher->partitions[i];
    answer_waiting(partition, STATUS_CLOSED);
    for (size_t call = 0; call < CALLS_PER_PARTITION; call++) {
      struct batcher_entry *entries = partition->calls[call].entries;
      partition->calls[call].entries = NULL;
      answer_all(entries, STATUS_CLOSED);
    }
  }
  if (--batcher->outstanding == 0) release(batcher);
}

/* ---- Marks */

static void mark_or_probe(struct partition *partition, int64_t *wait_us) {
  struct batcher *batcher = partition->batcher;
  enum hearing_wish wish = hearing_next(&partition->hearing, &batcher->rules, batcher->heartbeat_us, batcher->now_us, wait_us);
  if (wish == HEARING_MARK) add_section(partition);
  if (wish == HEARING_PROBE) send_call(take_call(partition, CALL_PROBE));
}

static void unlisten(struct partition *partition) {
  if (is_ready(partition))
    send_call(take_call(partition, CALL_UNLISTEN));
  else
    partition->unlistened = true;
}

/* Returns when to look again, in us. */
static int64_t keep_marks(struct batcher *batcher) {
  if (batcher->now_us < batcher->marks_us) return batcher->marks_us - batcher->now_us;
  int64_t least_us = LATE_CHECK_US;
  for (uint32_t i = 0; i < batcher->road.partitions; i++) {
    struct partition *partition = &batcher->partitions[i];
    int64_t wait_us = LATE_CHECK_US;
    if (partition->outstanding > 0 || partition->waiting.first != NULL) continue;
    if (batcher->stopping && !partition->unlistened)
      unlisten(partition);
    else if (!is_ready(partition))
      hearing_failed(&partition->hearing, batcher->now_us);
    else if (!batcher->stopping)
      mark_or_probe(partition, &wait_us);
    if (wait_us > 0 && wait_us < least_us) least_us = wait_us;
  }
  send_sections(batcher);
  batcher->marks_us = batcher->now_us + least_us;
  return least_us;
}

static void finish_unlisten(struct batcher *batcher) {
  if (!batcher->stopping || batcher->unlistened == NULL) return;
  for (uint32_t i = 0; i < batcher->road.partitions; i++)
    if (!batcher->partitions[i].unlistened) return;
  void (*done)(void *context) = batcher->unlistened;
  batcher->unlistened = NULL;
  done(batcher->unlistened_context);
}

void batcher_unlisten(struct batcher *batcher, void (*done)(void *context), void *context) {
  batcher->stopping = true;
  batcher->unlistened = done;
  batcher->unlistened_context = context;
  batcher->marks_us = 0;
  (void)keep_marks(batcher);
}

static void note_answered(struct batcher *batcher) {
  for (uint32_t i = 0; batcher->answered && i < batcher->road.partitions; i++)
    wave_answers_out(&batcher->waves[i], batcher->now_us);
  batcher->answered = false;
}

int64_t batcher_after_pass(struct batcher *batcher) {
  batcher->now_us = batcher->road.now_us(batcher->road.context);
  note_answered(batcher);
  send_waiting(batcher);
  int64_t wait_us = keep_marks(batcher);
  if (batcher->gather_us > 0 && batcher->gather_us - batcher->now_us < wait_us) wait_us = batcher->gather_us - batcher->now_us;
  batcher->road.flush(batcher->road.context);
  finish_unlisten(batcher);
  return wait_us;
}

void batcher_expect(struct batcher *batcher, bool more_may_come) { batcher->nobody_else = !more_may_come; }

int64_t batcher_rest_us(const struct batcher *batcher) {
  const struct wave *wave = &batcher->waves[batcher->road.server(batcher->road.context, 0)];
  return batcher->road.joins ? wave_rest_us(wave) : 0;
}

bool batcher_hears(const struct batcher *batcher, uint32_t partition) { return batcher->partitions[partition].hearing.answering; }
