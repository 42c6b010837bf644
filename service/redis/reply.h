/* reply.h: what a reply means for the road that carried the call. Private to service/redis. */
#ifndef PRESENCE_REDIS_REPLY_H
#define PRESENCE_REDIS_REPLY_H

#include <stdbool.h>

#include "redis.h"

enum reply_verdict {
  REPLY_FINE,         /* for the caller */
  REPLY_INITIALISING, /* the script says that the server is not adopted */
  REPLY_NOSCRIPT,     /* load the script and send the call again */
  REPLY_BUSY,         /* the server refuses at present, nothing was done: memory, persistence, a slot that moves, a long script */
  REPLY_NOT_PRIMARY,  /* this server cannot take writes: leave it */
  REPLY_ELSEWHERE,    /* another server may have it by now; nothing was done: look who has it */
  REPLY_ERROR,        /* an error that should not be */
};

enum reply_verdict reply_judge(const redisReply *reply);
/* What the caller of a call is told; STATUS_OK for REPLY_FINE. */
enum status reply_verdict_status(enum reply_verdict verdict);

bool reply_is_word(const redisReply *reply, const char *word);
/* Element i of an array that holds it and is of that type (REDIS_REPLY_…), else NULL. */
const redisReply *reply_at(const redisReply *array, size_t i, int type);
/* A script's reply that begins with "ok" and has at least count elements. */
bool reply_is_ok(const redisReply *reply, size_t count);
/* An integer reply, or a text of decimal digits (a score, a stored time). */
enum status reply_int64(const redisReply *reply, int64_t *value) MUST_CHECK;
static inline struct str reply_str(const redisReply *reply) { return (struct str){reply->str, reply->len}; }

#endif
