/* imitated_road.h: a batcher over a road that the test plays: it answers calls when it likes, in the order it likes. */
#ifndef PRESENCE_TEST_IMITATED_ROAD_H
#define PRESENCE_TEST_IMITATED_ROAD_H

#include "batcher.h"
#include "heartbeat/batcher_road.h"
#include "support/test.h"

enum { PARTITIONS = 2, SENT_MAX = 64, QUEUE_MAX = 2000 };

enum kind { RECORD, PROBE, UNLISTEN };
/* A call; of a script call for several partitions each section is one, to be answered by itself. */
struct sent {
  enum kind kind;
  uint32_t partition;
  struct batcher_call *call;
  struct record_item items[STORE_ITEMS_MAX];
  size_t count;
  bool renew; /* by renew_heartbeats */
};
struct imitated_road {
  int64_t now_us;
  bool away[PARTITIONS];
  uint32_t server[PARTITIONS];
  enum status refuse; /* what sending returns instead */
  struct sent sent[SENT_MAX];
  size_t count;     /* of sent */
  size_t answered;  /* of these */
  unsigned records; /* script calls that the RECORDs were */
  unsigned flushes;
  bool freed;
};
extern struct imitated_road road;
extern struct batcher *batcher;

/* Set-up and tear-down of a test. */
int road_set_up(void **state);
int road_tear_down(void **state);
/* The same where a script call can have one section only. */
int road_set_up_without_joins(void **state);
/* The same where a call costs nothing. */
int road_set_up_at_once(void **state);
int road_metrics_up(void **state);
int road_metrics_down(void **state);
struct batcher_road road_functions(void);

struct sent *next_sent(void);                           /* the oldest call not yet answered, or NULL */
void answer(enum status status, enum record_code code); /* answers it */
void answer_each(enum status status, const enum record_code *codes);
/* Probes answered, nothing outstanding, marks not yet allowed. */
void connect_up(void);

struct beat {
  struct batcher_entry entry;
  unsigned answers;
  enum status status;
  enum record_code code;
  struct session_id session;
  int64_t now_ms;
};
struct beat beat_of(const char *tenant, const char *device, int64_t ttl_ms);
void beat_done(struct batcher_entry *entry, enum status status, const struct record_outcome *outcome, int64_t now_ms);
void add_to(uint32_t partition, struct beat *beat);

#endif
