#include "call.h"

#include <stdlib.h>

#include "redis.h"

enum {
  HEAD_ROOM = 24,  /* "*<arguments>\r\n" */
  LENGTH_ROOM = 5, /* "$12\r\n": a key has two digits of length, seldom three */
  NUMBER_MAX = 20, /* an int64 in decimal */
};

enum status redis_call_new(struct redis_call **call) {
  *call = calloc(1, sizeof **call);
  return *call ? STATUS_OK : STATUS_NO_MEMORY;
}

void redis_call_free(struct redis_call *call) {
  if (!call) return;
  buf_free(&call->bytes);
  free(call);
}

static char *put_digits(char *at, uint64_t value) {
  char digits[NUMBER_MAX];
  size_t count = 0;
  do {
    digits[count++] = (char)('0' + value % 10);
    value /= 10;
  } while (value > 0);
  while (count > 0) *at++ = digits[--count];
  return at;
}

static char *put_crlf(char *at) {
  at[0] = '\r';
  at[1] = '\n';
  return at + 2;
}

/* Room for `more` bytes, or NULL when memory ran out now or before. */
static char *room(struct redis_call *call, size_t more) {
  if (call->status) return NULL;
  call->status = buf_reserve(&call->bytes, more);
  return call->status ? NULL : call->bytes.data + call->bytes.len;
}

static void advance(struct redis_call *call, const char *end) { call->bytes.len = (size_t)(end - call->bytes.data); }

void call_str(struct redis_call *call, struct str text) {
  char *at = room(call, text.len + NUMBER_MAX + 5);
  if (!at) return;
  *at++ = '$';
  at = put_crlf(put_digits(at, text.len));
  if (text.len > 0) memcpy(at, text.data, text.len);
  advance(call, put_crlf(at + text.len));
  call->arguments++;
}

void call_int(struct redis_call *call, int64_t value) {
  char text[NUMBER_MAX + 1], *at = text;
  if (value < 0) *at++ = '-';
  at = put_digits(at, value < 0 ? 0 - (uint64_t)value : (uint64_t)value);
  call_str(call, (struct str){text, (size_t)(at - text)});
}

void call_id(struct redis_call *call, struct session_id id) {
  char text[SESSION_ID_TEXT_MAX];
  session_id_format(id, text);
  call_str(call, str_from(text));
}

static void begin(struct redis_call *call, enum script script) {
  buf_clear(&call->bytes);
  call->start = HEAD_ROOM;
  call->arguments = 0;
  call->script = script;
  call->status = STATUS_OK;
  call->sha_at = 0;
  call->run_id_at = 0;
  char *head = room(call, HEAD_ROOM);
  if (!head) return;
  memset(head, ' ', HEAD_ROOM);
  advance(call, head + HEAD_ROOM);
}

void call_begin_plain(struct redis_call *call, enum script goes_with, struct str command) {
  begin(call, goes_with);
  call_str(call, command);
}

void call_begin(struct redis_call *call, enum script script, size_t keys) {
  static const char blank_sha[] = "0000000000000000000000000000000000000000";
  begin(call, script);
  call_str(call, STR_LIT("EVALSHA"));
  call_str(call, STR_LIT(blank_sha));
  call->sha_at = call->bytes.len - SCRIPT_SHA_LEN - 2;
  call_int(call, (int64_t)keys);
}

void call_run_id(struct redis_call *call, const char *fixed) {
  static const char blank[REDIS_RUN_ID_LEN + 1] = "0000000000000000000000000000000000000000";
  call_str(call, (struct str){fixed ? fixed : blank, REDIS_RUN_ID_LEN});
  call->run_id_at = fixed ? 0 : call->bytes.len - REDIS_RUN_ID_LEN - 2;
}

/* A key is written in place; its length is known after it. */
static size_t open_key(struct redis_call *call) {
  char *at = room(call, LENGTH_ROOM);
  if (at) advance(call, at + LENGTH_ROOM);
  return call->bytes.len;
}

static void close_key(struct redis_call *call, size_t key_at, enum status appended) {
  if (!call->status) call->status = appended;
  size_t len = call->bytes.len - key_at;
  char *end = room(call, NUMBER_MAX);
  if (!end) return;
  char *key = call->bytes.data + key_at;
  if (len < 10 || len > 99) { /* the length has not the two digits that room was left for */
    char digits[NUMBER_MAX];
    ptrdiff_t shift = put_digits(digits, len) - digits - 2;
    memmove(key + shift, key, len);
    end += shift;
  }
  char *at = call->bytes.data + key_at - LENGTH_ROOM;
  *at++ = '$';
  put_crlf(put_digits(at, len));
  advance(call, put_crlf(end));
  call->arguments++;
}

void call_partition_key(struct redis_call *call, const struct redis_target *target, enum partition_key key, uint32_t partition) {
  size_t at = open_key(call);
  if (call->status) return;
  close_key(call, at, keys_append_partition(&call->bytes, redis_target_env(target), key, partition));
}

void call_bucket_key(struct redis_call *call, const struct redis_target *target, enum bucket_key key, uint32_t partition,
                     struct str tenant, uint32_t bucket) {
  size_t at = open_key(call);
  if (call->status) return;
  close_key(call, at, keys_append_bucket(&call->bytes, redis_target_env(target), key, partition, tenant, bucket));
}

void call_bucket_keys(struct redis_call *call, const struct redis_target *target, uint32_t partition, struct str tenant,
                      uint32_t bucket) {
  for (enum bucket_key key = 0; key < BUCKET_KEY_COUNT; key++) call_bucket_key(call, target, key, partition, tenant, bucket);
}

enum status call_end(struct redis_call *call) {
  if (call->status) return call->status;
  char head[HEAD_ROOM], *at = head;
  *at++ = '*';
  at = put_crlf(put_digits(at, call->arguments));
  size_t len = (size_t)(at - head);
  call->start = HEAD_ROOM - len;
  memcpy(call->bytes.data + call->start, head, len);
  return STATUS_OK;
}
