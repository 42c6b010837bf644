/* Replies of the scripts, as Redis or something in its place may send them: no decoder crashes, and what one accepts lies within
 * the reply. The first byte picks the decoder. */
#include <stdlib.h>

#include "redis/cluster.h"
#include "redis/reply.h"
#include "redis/sentinel.h"
#include "store.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ITEMS = 2, ENTRIES = 8 };

static void check(bool holds) {
  if (!holds) abort();
}

/* Reads every byte, so that the address sanitizer sees what is not there. */
static void touch(struct str text) {
  volatile char sum = 0;
  for (size_t i = 0; i < text.len; i++) sum = (char)(sum ^ text.data[i]);
}

static void fuzz_record(const redisReply *reply) {
  struct record_reply head;
  struct record_outcome outcomes[ITEMS];
  for (size_t section = 0; section < ITEMS; section++) {
    if (store_record_decode(reply, section, ITEMS, &head, outcomes)) continue;
    for (size_t i = 0; i < ITEMS; i++) {
      check(outcomes[i].code <= RECORD_STALE);
      touch(outcomes[i].meta);
    }
  }
}

static void fuzz_disconnect(const redisReply *reply) {
  enum disconnect_code code;
  struct session_id open;
  if (!store_disconnect_decode(reply, &code, &open)) check(code <= DISCONNECT_STALE);
}

static void fuzz_read(const redisReply *reply) {
  int64_t now_ms;
  struct store_device devices[ITEMS];
  if (store_read_decode(reply, ITEMS, &now_ms, devices)) return;
  for (size_t i = 0; i < ITEMS; i++) {
    check(devices[i].state <= STORE_CLOSED);
    touch(devices[i].meta);
  }
}

static void fuzz_expire(const redisReply *reply) {
  struct expire_result result;
  if (!store_expire_decode(reply, &result)) check(result.lags->elements == (size_t)result.closed);
}

static void fuzz_next(const redisReply *reply) {
  struct next_result result;
  if (!store_next_decode(reply, &result)) check(result.members->elements % 2 == 0);
}

static void fuzz_stream(const redisReply *reply) {
  struct stream_head head;
  struct stream_entry entries[ENTRIES];
  size_t count = ENTRIES;
  if (store_stream_decode(reply, &head, entries, &count)) return;
  check(count <= ENTRIES);
  for (size_t i = 0; i < count; i++) {
    check(entries[i].fields != NULL);
    if (entries[i].kind != STREAM_TRANSITION) continue;
    check(tenant_id_valid(entries[i].transition.tenant) && device_id_valid(entries[i].transition.device));
    touch(entries[i].transition.meta);
  }
}

static void fuzz_lease(const redisReply *reply) {
  struct lease_result result;
  enum status status = store_lease_decode(reply, &result);
  check(status == STATUS_OK || status == STATUS_PROTOCOL);
}

static void fuzz_adopt(const redisReply *reply) {
  enum adopt_outcome outcome;
  if (!store_adopt_decode(reply, &outcome)) check(outcome <= ADOPT_BUSY);
}

static void fuzz_count(const redisReply *reply) {
  struct store_count count;
  enum status status = store_count_decode(reply, &count);
  check(status == STATUS_OK || status == STATUS_PROTOCOL);
}

static void fuzz_recount(const redisReply *reply) {
  struct recount_result result;
  enum status status = store_recount_decode(reply, &result);
  check(status == STATUS_OK || status == STATUS_PROTOCOL || status == STATUS_STALE);
}

static void fuzz_empty(const redisReply *reply) {
  struct empty_result result;
  enum status status = store_empty_decode(reply, &result);
  check(status == STATUS_OK || status == STATUS_PROTOCOL || status == STATUS_STALE);
}

static void fuzz_scan(const redisReply *reply) {
  uint64_t cursor;
  const redisReply *keys;
  if (store_scan_decode(reply, &cursor, &keys)) return;
  for (size_t i = 0; i < keys->elements; i++) {
    struct str key = reply_str(keys->element[i]), tenant;
    uint32_t partition, bucket;
    if (!keys_parse_bucket(STR_LIT("prod"), key, &partition, &tenant, &bucket)) touch(tenant);
  }
}

static void fuzz_measure(const redisReply *reply) {
  struct measured_bucket buckets[ITEMS];
  enum status status = store_measure_decode(reply, buckets, ITEMS);
  check(status == STATUS_OK || status == STATUS_PROTOCOL);
}

static void fuzz_counts(const redisReply *reply) {
  const redisReply *pairs;
  if (!store_counts_decode(reply, &pairs)) check(pairs->elements % 2 == 0);
}

static void fuzz_rebuild(const redisReply *reply) {
  int64_t restored;
  enum status status = store_rebuild_decode(reply, &restored);
  check(status == STATUS_OK || status == STATUS_PROTOCOL);
}

static void fuzz_mark(const redisReply *reply) {
  enum disagreement kinds[ITEMS];
  if (!store_mark_decode(reply, ITEMS, kinds)) check(kinds[0] <= AUDIT_UNDECIDED && kinds[1] <= AUDIT_UNDECIDED);
  if (!store_repair_decode(reply, ITEMS, kinds)) check(kinds[0] <= AUDIT_UNDECIDED && kinds[1] <= AUDIT_UNDECIDED);
}

static void fuzz_buckets(const redisReply *reply) {
  struct store_buckets buckets;
  if (!store_buckets_decode(reply, &buckets)) check(buckets.members->elements % 2 == 0);
  uint64_t cursor;
  const redisReply *devices;
  if (!store_bucket_devices_decode(reply, &cursor, &devices)) check(devices->type == REDIS_REPLY_ARRAY);
}

static void check_map(struct redis_map *map, enum status status) {
  check((map != NULL) == (status == STATUS_OK));
  for (uint32_t p = 0; map && p < map->partitions; p++) {
    check(map->server_of[p] == MAP_NOBODY || (size_t)map->server_of[p] < map->count);
  }
  map_free(map);
}

static void fuzz_map(const redisReply *reply) {
  static const uint16_t slots[] = {0, 8191, 16383};
  struct redis_map *map;
  enum status status = cluster_read(reply, STR_LIT("asked"), slots, 3, &map);
  check_map(map, status);
  status = sentinel_read(reply, 3, &map);
  check_map(map, status);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static void (*const decoders[])(const redisReply *reply) = {
      fuzz_record, fuzz_disconnect, fuzz_read,  fuzz_expire, fuzz_next,    fuzz_stream,  fuzz_lease, fuzz_adopt,   fuzz_count,
      fuzz_counts, fuzz_recount,    fuzz_empty, fuzz_scan,   fuzz_measure, fuzz_rebuild, fuzz_mark,  fuzz_buckets, fuzz_map};
  enum { DECODERS = sizeof decoders / sizeof decoders[0] };
  if (size == 0) return 0;
  redisReader *reader = redisReaderCreate();
  if (!reader) return 0;
  reader->maxelements = 4096; /* else hiredis takes memory for what is only announced */
  void *reply = NULL;
  if (redisReaderFeed(reader, (const char *)data + 1, size - 1) == REDIS_OK && redisReaderGetReply(reader, &reply) == REDIS_OK &&
      reply) {
    (void)reply_verdict_status(reply_judge(reply));
    decoders[(data[0] + DECODERS - '0' % DECODERS) % DECODERS](reply);
  }
  if (reply) freeReplyObject(reply);
  redisReaderFree(reader);
  return 0;
}
