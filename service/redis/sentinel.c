#include "sentinel.h"

#include "dial.h"
#include "reply.h"

enum status sentinel_read(const redisReply *reply, uint32_t partitions, struct redis_map **map) {
  *map = NULL;
  if (reply->type == REDIS_REPLY_NIL) return STATUS_UNAVAILABLE;
  const redisReply *host = reply_at(reply, 0, REDIS_REPLY_STRING), *port = reply_at(reply, 1, REDIS_REPLY_STRING);
  int64_t number;
  if (!host || !port || reply->elements != 2 || str_to_int64(reply_str(port), &number)) return STATUS_PROTOCOL;
  enum status status = map_new(partitions, map);
  for (uint32_t p = 0; !status && p < partitions; p++) status = map_put(*map, p, reply_str(host), number);
  if (status) {
    map_free(*map);
    *map = NULL;
  }
  return status == STATUS_INVALID ? STATUS_PROTOCOL : status;
}

static bool asks_for_password(const struct buf *error) {
  return error->len > 0 && memmem(error->data, error->len, "NOAUTH", 6) != NULL;
}

enum status sentinel_ask(const struct redis_target *target, redisContext *context, struct redis_map **map, struct buf *error) {
  const char *argv[] = {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", target->master_name};
  redisReply *reply;
  enum status status = dial_ask(context, 3, argv, NULL, &reply, error);
  if (status && target->password && asks_for_password(error)) {
    status = dial_authenticate(context, target, error);
    if (!status) status = dial_ask(context, 3, argv, NULL, &reply, error);
  }
  if (status) return status;
  status = sentinel_read(reply, target->partitions, map);
  freeReplyObject(reply);
  if (status == STATUS_UNAVAILABLE) dial_say(error, "this Sentinel knows no primary of the name", target->master_name);
  if (status == STATUS_PROTOCOL) dial_say(error, "SENTINEL", "no such answer is known");
  return status;
}
