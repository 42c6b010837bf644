#include "batcher_road.h"

#include <stdlib.h>

#include "log.h"

enum { ERROR_LOG_US = 5000000 };

struct redis_road {
  const struct redis_target *target;
  struct redis_link *link;
  struct loop *loop;
  struct redis_call *call; /* encoded into, sent, used again */
  struct record_options options;
  char *listener; /* options.listener's bytes */
  struct log_limit error_log;
  struct record_outcome outcomes[STORE_ITEMS_MAX];
};

static int64_t road_now_us(void *context) { return loop_now_us(((struct redis_road *)context)->loop); }

static bool road_ready(void *context, uint32_t partition) {
  return redis_link_ready(((struct redis_road *)context)->link, partition);
}

static uint32_t road_server(void *context, uint32_t partition) {
  return redis_link_server_number(((struct redis_road *)context)->link, partition);
}

static void road_flush(void *context) { redis_link_flush(((struct redis_road *)context)->link); }

/* One section could not be done: the link, which logs errors of calls, has not seen it. */
static void log_section(struct redis_road *road, const redisReply *reply, size_t section) {
  int64_t suppressed;
  const redisReply *error = reply->type == REDIS_REPLY_ARRAY && section < reply->elements ? reply->element[section] : NULL;
  if (error == NULL || error->type != REDIS_REPLY_ERROR) return;
  if (log_limit_pass(&road->error_log, loop_now_us(road->loop), ERROR_LOG_US, &suppressed))
    log_error("redis_call_failed", LOG_STR("script", "record_heartbeats"), LOG_STR("error", error->str),
              LOG_INT("suppressed", suppressed));
}

static void recorded(void *context, enum status status, const redisReply *reply) {
  struct batcher_call *call = context;
  struct redis_road *road = batcher_call_context(call);
  for (size_t section = 0; call != NULL; section++) {
    struct batcher_call *next = batcher_call_next(call);
    struct record_reply head = {0};
    enum status of_section = status;
    if (status == STATUS_OK) of_section = store_record_decode(reply, section, batcher_call_items(call), &head, road->outcomes);
    if (of_section == STATUS_OK) {
      batcher_answer(call, STATUS_OK, &head, road->outcomes);
    } else {
      if (status == STATUS_OK) log_section(road, reply, section);
      batcher_answer(call, of_section, NULL, NULL);
    }
    call = next;
  }
}

static void answered(void *context, enum status status, const redisReply *reply) {
  (void)reply;
  batcher_answer(context, status, NULL, NULL);
}

static enum status road_record(void *context, bool renew, const struct record_section *sections, size_t count,
                               struct batcher_call *first) {
  struct redis_road *road = context;
  store_record_encoder *encode = renew ? store_renew_encode : store_record_encode;
  enum status status = encode(road->call, road->target, &road->options, sections, count);
  return status != STATUS_OK ? status : redis_link_send(road->link, sections[0].partition, road->call, recorded, first);
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
                                   .server = road_server,
                                   .joins = store_record_joins(target),
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
