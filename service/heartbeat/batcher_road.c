#include "batcher_road.h"

#include <stdlib.h>

struct redis_road {
  const struct redis_target *target;
  struct redis_link *link;
  struct loop *loop;
  struct redis_call *call; /* encoded into, sent, used again */
  struct record_options options;
  char *listener; /* options.listener's bytes */
  struct record_outcome outcomes[STORE_ITEMS_MAX];
};

static int64_t road_now_us(void *context) { return loop_now_us(((struct redis_road *)context)->loop); }

static bool road_ready(void *context, uint32_t partition) {
  return redis_link_ready(((struct redis_road *)context)->link, partition);
}

static void road_flush(void *context) { redis_link_flush(((struct redis_road *)context)->link); }

static void recorded(void *context, enum status status, const redisReply *reply) {
  struct batcher_call *call = context;
  struct redis_road *road = batcher_call_context(call);
  struct record_reply head = {0};
  if (status == STATUS_OK) status = store_record_decode(reply, batcher_call_items(call), &head, road->outcomes);
  if (status == STATUS_OK)
    batcher_answer(call, status, &head, road->outcomes);
  else
    batcher_answer(call, status, NULL, NULL);
}

static void answered(void *context, enum status status, const redisReply *reply) {
  (void)reply;
  batcher_answer(context, status, NULL, NULL);
}

static enum status road_record(void *context, uint32_t partition, const struct record_item *items, size_t count,
                               struct batcher_call *call) {
  struct redis_road *road = context;
  enum status status = store_record_encode(road->call, road->target, partition, &road->options, items, count);
  return status != STATUS_OK ? status : redis_link_send(road->link, partition, road->call, recorded, call);
}

static enum status road_probe(void *context, uint32_t partition, struct batcher_call *call) {
  struct redis_road *road = context;
  enum status status = store_adopted_encode(road->call, road->target, partition);
  return status != STATUS_OK ? status : redis_link_send(road->link, partition, road->call, answered, call);
}

static enum status road_unlisten(void *context, uint32_t partition, struct batcher_call *call) {
  struct redis_road *road = context;
  enum status status = store_unlisten_encode(road->call, road->target, partition, road->options.listener);
  return status != STATUS_OK ? status : redis_link_send(road->link, partition, road->call, answered, call);
}

static void road_free(void *context) {
  struct redis_road *road = context;
  redis_call_free(road->call);
  free(road->listener);
  free(road);
}

enum status batcher_new(const struct redis_target *target, struct redis_link *link, struct loop *loop,
                        const struct batcher_options *options, struct batcher **batcher) {
  *batcher = NULL;
  struct redis_road *road = calloc(1, sizeof *road);
  if (road == NULL) return STATUS_NO_MEMORY;
  enum status status = STATUS_NO_MEMORY;
  road->target = target;
  road->link = link;
  road->loop = loop;
  road->listener = malloc(options->listener.len + 1); /* + 1: never of size 0 */
  if (road->listener == NULL) goto out;
  memcpy(road->listener, options->listener.data, options->listener.len);
  road->options = (struct record_options){
      .outage_ms = options->outage_ms, .listener = {road->listener, options->listener.len}, .backlog_cap = options->backlog_cap};
  status = redis_call_new(&road->call);
  if (status != STATUS_OK) goto out;
  struct batcher_road functions = {.context = road,
                                   .partitions = redis_target_partitions(target),
                                   .now_us = road_now_us,
                                   .ready = road_ready,
                                   .record = road_record,
                                   .probe = road_probe,
                                   .unlisten = road_unlisten,
                                   .flush = road_flush,
                                   .free = road_free};
  return batcher_new_on(&functions, options, batcher); /* takes the road */
out:
  road_free(road);
  return status;
}
