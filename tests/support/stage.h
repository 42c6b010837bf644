/* stage.h: a private Redis with a clock that stands still, and the store's calls as one-line steps: for tests of the scripts. All
 * times are milliseconds after stage_start_ms; all devices are of tenant "t42" in partition 0 where nothing else is said. */
#ifndef PRESENCE_TEST_STAGE_H
#define PRESENCE_TEST_STAGE_H

#include "store.h"
#include "support/redis_server.h"

#define STAGE_START_MS INT64_C(1790000000000)

struct stage {
  uint32_t partitions; /* a test program may set it; 0: one */
  struct redis_server redis;
  struct redis_target *target;
  struct redis_conn *conn;
  struct redis_call *call;
  char run_id[REDIS_RUN_ID_LEN + 1];
  /* What the next calls are made with; stage_clear sets them back. */
  struct store_tenant tenant;
  uint32_t bucket;
  int64_t now; /* after STAGE_START_MS */
  int64_t outage_ms;
  int64_t backlog_cap;
  const char *listener;
  enum status status; /* of the last call: stage_try_* */
};

void stage_open(struct stage *stage, enum dialect dialect);
void stage_close(struct stage *stage); /* also when it was never opened */
/* An empty, adopted server at time 0 that heard a mark there. */
void stage_clear(struct stage *stage);
/* The same without adoption. */
void stage_wipe(struct stage *stage);

void stage_at(struct stage *stage, int64_t ms); /* the clock stands there */

/* The same, and marks on the way there: everyone was listening until ms. */
void stage_listen_until(struct stage *stage, int64_t ms);

/* Any item; stage->status when it fails, with the outcome then unspecified. */
struct record_outcome stage_try_record(struct stage *stage, const struct record_item *item);
/* As many items as there are; one call. */
void stage_record_all(struct stage *stage, const struct record_item *items, size_t count, struct record_outcome *outcomes);
struct record_item stage_item(const struct stage *stage, const char *device, int64_t ttl_ms);
struct record_outcome stage_beat(struct stage *stage, const char *device, int64_t ttl_ms); /* with detail */
/* By renew_heartbeats; RECORD_LEFT where that leaves it. */
void stage_renew_all(struct stage *stage, const struct record_item *items, size_t count, struct record_outcome *outcomes);
enum record_code stage_renew(struct stage *stage, const char *device, int64_t ttl_ms);
int64_t stage_mark(struct stage *stage); /* an empty batch; what it added to P */
int64_t stage_mark_as(struct stage *stage, const char *listener);

struct expire_result stage_expire(struct stage *stage); /* this bucket, at most 100 members */
struct expire_result stage_expire_some(struct stage *stage, int64_t per_bucket_max);
enum disconnect_code stage_disconnect(struct stage *stage, const char *device, const struct session_id *only);
/* The strings live until the next stage_look. */
struct store_device stage_look(struct stage *stage, const char *device);
/* Where the server is empty, rebuilding it from nothing is part of it. */
struct stage_adoption {
  bool adopted, was_empty;
};
struct stage_adoption stage_adopt(struct stage *stage, struct session_id floor);
struct lease_result stage_lease(struct stage *stage, const char *worker, enum lease_wish wish);
int64_t stage_count(struct stage *stage, const char *tenant);

/* The stream as lines, oldest first, times after STAGE_START_MS; sessions by number in the order of their online entries:
 *   "+d1 s1 at 0 ttl 1000"  "-d1 s1 timeout seen 0 ended 1000 found 1001"  a metadata is added as " meta {...}" */
const char *stage_history(struct stage *stage);
/* Publishes: reads at most max entries, trims them. */
size_t stage_publish(struct stage *stage, size_t max);

/* main of a test program: the same tests on every dialect that is here, each on a stage set back by stage_clear. */
#define STAGE_MAIN(stage, tests)                                                                                                 \
  static int clear_stage(void **state) {                                                                                         \
    (void)state;                                                                                                                 \
    stage_clear(&(stage));                                                                                                       \
    return 0;                                                                                                                    \
  }                                                                                                                              \
  int main(void) {                                                                                                               \
    int failed = 0, ran = 0;                                                                                                     \
    struct CMUnitTest each[LENGTH(tests)];                                                                                       \
    for (size_t i = 0; i < LENGTH(tests); i++) {                                                                                 \
      each[i] = (tests)[i];                                                                                                      \
      each[i].setup_func = clear_stage;                                                                                          \
    }                                                                                                                            \
    for (int dialect = 0; dialect < DIALECT_COUNT; dialect++) {                                                                  \
      if (!dialect_is_here((enum dialect)dialect)) continue;                                                                     \
      stage_open(&(stage), (enum dialect)dialect);                                                                               \
      ran++;                                                                                                                     \
      failed += cmocka_run_group_tests_name(dialect_name((enum dialect)dialect), each, NULL, NULL);                              \
      stage_close(&(stage));                                                                                                     \
    }                                                                                                                            \
    if (ran == 0) print_error("[  FAILED  ] no Redis is here: run the set-up\n");                                                \
    return ran > 0 ? failed : 1;                                                                                                 \
  }

#endif
