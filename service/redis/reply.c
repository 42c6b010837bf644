#include "reply.h"

#include <strings.h>

/* First words of error replies. https://redis.io/docs/latest/develop/reference/protocol-spec/, "Simple errors" */
static const struct {
  const char *word;
  enum reply_verdict verdict;
} error_words[] = {
    {"NOSCRIPT", REPLY_NOSCRIPT},
    {"READONLY", REPLY_NOT_PRIMARY},
    {"LOADING", REPLY_NOT_PRIMARY},
    {"MASTERDOWN", REPLY_NOT_PRIMARY},
    {"NOAUTH", REPLY_NOT_PRIMARY},
    {"UNBLOCKED", REPLY_NOT_PRIMARY},
    {"OOM", REPLY_BUSY},
    {"MISCONF", REPLY_BUSY},
    {"BUSY", REPLY_BUSY},
    {"TRYAGAIN", REPLY_BUSY},
    {"ASK", REPLY_BUSY}, /* not followed: half a partition, on the node it moves to, must not be heard */
    {"MOVED", REPLY_ELSEWHERE},
    {"CLUSTERDOWN", REPLY_ELSEWHERE},
    {"NOREPLICAS", REPLY_ELSEWHERE}, /* min-replicas-to-write: its replicas may have another primary by now */
};

static bool begins_with_word(const redisReply *reply, const char *word) {
  size_t len = strlen(word);
  return reply->len >= len && memcmp(reply->str, word, len) == 0 && (reply->len == len || reply->str[len] == ' ');
}

bool reply_is_word(const redisReply *reply, const char *word) {
  return reply && (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS) &&
         str_equal(reply_str(reply), str_from(word));
}

enum reply_verdict reply_judge(const redisReply *reply) {
  if (reply->type == REDIS_REPLY_ARRAY) {
    return reply->elements > 0 && reply_is_word(reply->element[0], "initialising") ? REPLY_INITIALISING : REPLY_FINE;
  }
  if (reply->type != REDIS_REPLY_ERROR) return REPLY_FINE;
  for (size_t i = 0; i < sizeof error_words / sizeof error_words[0]; i++) {
    if (begins_with_word(reply, error_words[i].word)) return error_words[i].verdict;
  }
  return REPLY_ERROR;
}

enum status reply_verdict_status(enum reply_verdict verdict) {
  switch (verdict) {
  case REPLY_FINE: return STATUS_OK;
  case REPLY_INITIALISING: return STATUS_INITIALISING;
  case REPLY_BUSY:
  case REPLY_ELSEWHERE: return STATUS_UNAVAILABLE;
  case REPLY_NOT_PRIMARY: return STATUS_CLOSED;
  case REPLY_NOSCRIPT:
  case REPLY_ERROR: break;
  }
  return STATUS_PROTOCOL;
}

const redisReply *reply_at(const redisReply *array, size_t i, int type) {
  if (!array || array->type != REDIS_REPLY_ARRAY || i >= array->elements) return NULL;
  const redisReply *element = array->element[i];
  return element->type == type ? element : NULL;
}

bool reply_is_ok(const redisReply *reply, size_t count) {
  return reply && reply->type == REDIS_REPLY_ARRAY && reply->elements >= count && count > 0 &&
         reply_is_word(reply->element[0], "ok");
}

enum status reply_int64(const redisReply *reply, int64_t *value) {
  if (!reply) return STATUS_PROTOCOL;
  if (reply->type == REDIS_REPLY_INTEGER) {
    *value = reply->integer;
    return STATUS_OK;
  }
  if (reply->type != REDIS_REPLY_STRING) return STATUS_PROTOCOL;
  return str_to_int64(reply_str(reply), value) ? STATUS_PROTOCOL : STATUS_OK;
}
