/* bench_http: presenced with its call to Redis left out, for the lane "http".
 *
 * It is linked from presenced's own main.c and library and takes the same options. Only batcher_new() is this one, instead of the
 * one in service/heartbeat/batcher_road.c: heartbeats go through the batcher as ever, to a road that renews each of them by
 * itself in the loop's next pass. Redis is there all the same, for what else the service does with it. */
#include <stdlib.h>

#include "heartbeat/batcher_road.h"
#include "loop.h"

struct short_road {
  uint32_t partitions;
  struct loop *loop;
  struct loop_timer answers;     /* armed while calls wait for theirs */
  struct batcher_call **waiting; /* the batcher has one under way for each partition */
  size_t waiting_count;
  struct record_outcome *outcomes; /* STORE_ITEMS_MAX, all zero: renewed */
};

static int64_t road_now_us(void *context) { return loop_now_us(((struct short_road *)context)->loop); }

static bool road_ready(void *context, uint32_t partition) {
  (void)context, (void)partition;
  return true;
}

static uint32_t road_server(void *context, uint32_t partition) {
  (void)context, (void)partition;
  return 0;
}

static enum status wait_for_answer(struct short_road *road, struct batcher_call *call) {
  if (road->waiting_count == road->partitions) return STATUS_FULL;
  road->waiting[road->waiting_count++] = call;
  return STATUS_OK;
}

/* Of one section, as nothing joins. */
static enum status road_record(void *context, bool renew, const struct record_section *sections, size_t count,
                               struct batcher_call *first) {
  (void)renew, (void)sections, (void)count;
  return wait_for_answer(context, first);
}

static enum status road_probe_or_unlisten(void *context, uint32_t partition, struct batcher_call *call) {
  (void)partition;
  return wait_for_answer(context, call);
}

static void answer(struct loop_timer *timer) {
  struct short_road *road = timer->context;
  struct record_reply head = {.now_ms = clock_realtime_ms(loop_clock(road->loop))};
  while (road->waiting_count > 0) {
    struct batcher_call *call = road->waiting[--road->waiting_count];
    bool records = batcher_call_items(call) > 0; /* no mark, no probe */
    batcher_answer(call, STATUS_OK, records ? &head : NULL, records ? road->outcomes : NULL);
  }
}

static void road_flush(void *context) {
  struct short_road *road = context;
  if (road->waiting_count > 0 && !road->answers.armed) loop_timer_set(road->loop, &road->answers, 0);
}

static void road_free(void *context) {
  struct short_road *road = context;
  loop_timer_cancel(road->loop, &road->answers);
  free(road->waiting);
  free(road->outcomes);
  free(road);
}

enum status batcher_new(const struct redis_target *target, struct redis_link *link, struct loop *loop,
                        const struct batcher_options *options, struct batcher **batcher) {
  (void)link;
  *batcher = NULL;
  struct short_road *road = calloc(1, sizeof *road);
  if (road == NULL) return STATUS_NO_MEMORY;
  road->loop = loop;
  road->answers = (struct loop_timer){.fire = answer, .context = road};
  road->partitions = redis_target_partitions(target);
  road->waiting = calloc(road->partitions, sizeof *road->waiting);
  road->outcomes = calloc(STORE_ITEMS_MAX, sizeof *road->outcomes);
  if (road->waiting == NULL || road->outcomes == NULL) {
    road_free(road);
    return STATUS_NO_MEMORY;
  }
  struct batcher_road functions = {.context = road,
                                   .partitions = road->partitions,
                                   .now_us = road_now_us,
                                   .ready = road_ready,
                                   .server = road_server,
                                   .at_once = true,
                                   .record = road_record,
                                   .probe = road_probe_or_unlisten,
                                   .unlisten = road_probe_or_unlisten,
                                   .flush = road_flush,
                                   .free = road_free};
  return batcher_new_on(&functions, options, batcher); /* takes the road */
}
