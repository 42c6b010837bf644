#include "redis_round.h"

#include <assert.h>
#include <stdlib.h>

enum status redis_round_init(struct redis_round *round, size_t capacity) {
  *round = (struct redis_round){0};
  round->partitions = calloc(capacity, sizeof *round->partitions);
  round->calls = calloc(capacity, sizeof *round->calls);
  round->statuses = calloc(capacity, sizeof *round->statuses);
  round->replies = calloc(capacity, sizeof *round->replies);
  if (round->partitions == NULL || round->calls == NULL || round->statuses == NULL || round->replies == NULL) {
    return STATUS_NO_MEMORY;
  }
  for (; round->capacity < capacity; round->capacity++) {
    enum status status = redis_call_new(&round->calls[round->capacity]);
    if (status != STATUS_OK) {
      return status;
    }
  }
  return STATUS_OK;
}

void redis_round_free(struct redis_round *round) {
  redis_round_begin(round);
  for (size_t i = 0; i < round->capacity; i++) {
    redis_call_free(round->calls[i]);
  }
  free(round->partitions);
  free(round->calls);
  free(round->statuses);
  free(round->replies);
  *round = (struct redis_round){0};
}

void redis_round_begin(struct redis_round *round) {
  for (size_t i = 0; i < round->count; i++) {
    freeReplyObject(round->replies[i]);
    round->replies[i] = NULL;
  }
  round->count = 0;
}

struct redis_call *redis_round_call(const struct redis_round *round) {
  assert(round->count < round->capacity);
  return round->calls[round->count];
}

void redis_round_add(struct redis_round *round, uint32_t partition) {
  round->partitions[round->count] = partition;
  round->statuses[round->count] = STATUS_UNAVAILABLE;
  round->replies[round->count] = NULL;
  round->count++;
}

enum status redis_round_send(struct redis_round *round, struct redis_conn *conn) {
  if (round->count == 0) {
    return STATUS_OK;
  }
  enum status status = STATUS_OK;
  redis_conn_pipeline(conn, round->partitions, round->calls, round->count, round->statuses, round->replies);
  for (size_t i = 0; i < round->count && status == STATUS_OK; i++) {
    status = round->statuses[i];
  }
  return status;
}
