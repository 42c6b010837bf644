/* call.h: encoding of a script call, or of a plain command, in RESP
 * (https://redis.io/docs/latest/develop/reference/protocol-spec/, "Arrays", "Bulk strings"). Private to service/redis.
 *
 * The bytes are complete but for two places of 40 characters each, which only the road that sends them knows: the sha of the
 * script in the server's dialect, and the server's run_id. The road copies the bytes and fills them in.
 *
 *   call_begin, then the keys, call_run_id, the other arguments, call_end. An allocation that fails is kept and said by call_end.
 */
#ifndef PRESENCE_REDIS_CALL_H
#define PRESENCE_REDIS_CALL_H

#include "keys.h"
#include "places.h"
#include "script.h"
#include "store.h"
#include "target.h"

struct redis_call {
  struct buf bytes;
  size_t start;       /* of the command in bytes: before it is room for its head */
  size_t arguments;   /* so far */
  size_t sha_at;      /* in bytes; 0: a plain command */
  size_t run_id_at;   /* in bytes; 0: the call fixes one itself */
  enum script script; /* with a plain command: the one that it goes with, for the log */
  enum status status; /* STATUS_OK, or the first failure */

  /* Scratch of the store's encoders. */
  struct places buckets, tenants;
  uint16_t bucket_of[STORE_ITEMS_MAX]; /* item -> number in buckets */
};

void call_begin(struct redis_call *call, enum script script, size_t keys);
/* A command that is no script: its arguments follow, then call_end. */
void call_begin_plain(struct redis_call *call, enum script goes_with, struct str command);
void call_partition_key(struct redis_call *call, const struct redis_target *target, enum partition_key key, uint32_t partition);
void call_bucket_key(struct redis_call *call, const struct redis_target *target, enum bucket_key key, uint32_t partition,
                     struct str tenant, uint32_t bucket);
/* live, session, due, meta: in the order of enum bucket_key. */
void call_bucket_keys(struct redis_call *call, const struct redis_target *target, uint32_t partition, struct str tenant,
                      uint32_t bucket);
/* ARGV[1]. fixed: a run_id of REDIS_RUN_ID_LEN characters that goes out as it is; NULL: the road's. */
void call_run_id(struct redis_call *call, const char *fixed);
void call_str(struct redis_call *call, struct str text);
void call_int(struct redis_call *call, int64_t value);
void call_id(struct redis_call *call, struct session_id id);
enum status call_end(struct redis_call *call) MUST_CHECK;

/* The finished command. */
static inline struct str call_bytes(const struct redis_call *call) {
  return (struct str){call->bytes.data + call->start, call->bytes.len - call->start};
}

#endif
