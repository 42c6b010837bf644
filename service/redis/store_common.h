/* store_common.h: what the encoders and decoders of store_*.c share. Private to service/redis. */
#ifndef PRESENCE_REDIS_STORE_COMMON_H
#define PRESENCE_REDIS_STORE_COMMON_H

#include "call.h"
#include "reply.h"

/* KEYS[1..6] of the scripts that open or close sessions: clock, next, transitions, closed, count, tenant. */
enum { SESSION_KEYS = 6 };
void store_session_keys(struct redis_call *call, const struct redis_target *target, uint32_t partition);
/* The keys of all places of call->buckets, in order. */
void store_bucket_keys(struct redis_call *call, const struct redis_target *target, uint32_t partition);
/* "generation:buckets" */
void store_settings(struct redis_call *call, const struct store_tenant *tenant);
/* Where the keys of the nth place begin in Lua's KEYS, with `before` keys in front. */
static inline int64_t store_key_index(size_t before, size_t n) { return (int64_t)(before + n * BUCKET_KEY_COUNT + 1); }

/* The cursor of a SCAN, a decimal of 64 bits: as an argument, and as element i. */
void store_cursor(struct redis_call *call, uint64_t cursor);
enum status store_cursor_at(const redisReply *array, size_t i, uint64_t *cursor) MUST_CHECK;

/* The script refuses the caller's settings of the tenant: {'stale'}. */
bool store_is_stale(const redisReply *reply);

/* Element i as a session id, an int64, a run of bytes. STATUS_PROTOCOL. */
enum status store_id_at(const redisReply *array, size_t i, struct session_id *id) MUST_CHECK;
enum status store_int_at(const redisReply *array, size_t i, int64_t *value) MUST_CHECK;
enum status store_str_at(const redisReply *array, size_t i, struct str *text) MUST_CHECK;
/* As store_int_at, but an empty text gives `none`. */
enum status store_int_or_at(const redisReply *array, size_t i, int64_t none, int64_t *value) MUST_CHECK;
/* "timeout", "disconnect", "state_lost", "" */
enum status store_reason(struct str text, enum transition_reason *reason) MUST_CHECK;

#endif
