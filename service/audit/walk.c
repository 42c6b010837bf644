/* walk.c: the audit's walk over one partition: rows that are online first, then everything that is open in Redis. */
#include <stdlib.h>

#include "audit.h"
#include "audit/rows.h"
#include "keys.h"

enum {
  PAGE = STORE_ROWS_MAX,
  COMPARE_MAX = 50, /* rows a script call: heartbeats wait behind it, and a walk after a fail-over is long */
  MARKS_MAX = 5000, /* entries in the stream from which no marker is put: what happens for real comes first */
};

enum phase { PHASE_ROWS, PHASE_BUCKETS, PHASE_END };

struct audit_walk {
  struct audit_walk_options options;
  struct redis_call *call;
  uint32_t partition;
  enum phase phase;
  struct audit_place place; /* PHASE_ROWS */
  /* PHASE_BUCKETS: a page of buckets, and the bucket under way in it */
  redisReply *buckets; /* NULL: the next page is to be read */
  struct store_buckets page;
  uint64_t next_page; /* cursor */
  size_t member;      /* in page.members */
  uint64_t scan;      /* in the bucket's facts */
  struct audit_rows rows;
  bool *wanted; /* by partition */
  struct audit_name names[PAGE];
  bool has_tenant[PAGE];
  struct store_row row[PAGE];
  enum disagreement kinds[PAGE];
};

enum status audit_walk_new(const struct audit_walk_options *options, struct audit_walk **walk) {
  struct audit_walk *self = calloc(1, sizeof *self);
  *walk = self;
  if (self == NULL) return STATUS_NO_MEMORY;
  self->options = *options;
  self->phase = PHASE_END;
  self->wanted = calloc(redis_target_partitions(options->target), sizeof *self->wanted);
  enum status status = self->wanted != NULL ? redis_call_new(&self->call) : STATUS_NO_MEMORY;
  if (status == STATUS_OK) return STATUS_OK;
  audit_walk_free(self);
  *walk = NULL;
  return status;
}

static void drop_buckets(struct audit_walk *walk) {
  freeReplyObject(walk->buckets);
  walk->buckets = NULL;
}

void audit_walk_free(struct audit_walk *walk) {
  if (walk == NULL) return;
  drop_buckets(walk);
  audit_rows_free(&walk->rows);
  redis_call_free(walk->call);
  free(walk->wanted);
  free(walk);
}

void audit_walk_begin(struct audit_walk *walk, uint32_t partition) {
  walk->wanted[walk->partition] = false;
  walk->partition = partition;
  walk->wanted[partition] = true;
  walk->phase = PHASE_ROWS;
  walk->place = (struct audit_place){0};
  walk->next_page = 0;
  drop_buckets(walk);
}

bool audit_walk_ended(const struct audit_walk *walk) { return walk->phase == PHASE_END; }

static enum status ask(struct audit_walk *walk, enum status encoded, redisReply **reply) {
  return encoded == STATUS_OK ? redis_conn_call(walk->options.conn, walk->partition, walk->call, reply) : encoded;
}

static enum status compare_some(struct audit_walk *walk, size_t first, size_t count) {
  const struct audit_walk_options *options = &walk->options;
  redisReply *reply = NULL;
  enum status status = ask(walk,
                           store_mark_encode(walk->call, options->target, walk->partition, options->outage_ms, walk->row + first,
                                             count, MARKS_MAX, options->mark),
                           &reply);
  if (status == STATUS_OK) status = store_mark_decode(reply, count, walk->kinds + first);
  freeReplyObject(reply);
  return status;
}

static enum status compare(struct audit_walk *walk, size_t count) {
  const struct audit_walk_options *options = &walk->options;
  enum status status = STATUS_OK;
  for (size_t first = 0; first < count && status == STATUS_OK; first += COMPARE_MAX)
    status = compare_some(walk, first, count - first < COMPARE_MAX ? count - first : COMPARE_MAX);
  for (size_t i = 0; status == STATUS_OK && options->differs != NULL && i < count; i++) {
    if (walk->kinds[i] == AGREE || walk->kinds[i] == AUDIT_UNDECIDED) continue;
    if (walk->phase == PHASE_ROWS && walk->kinds[i] != AUDIT_NOT_IN_REDIS) continue; /* comes again among what is open */
    options->differs(options->context, walk->partition, &walk->row[i], walk->kinds[i]);
  }
  return status;
}

static enum status step_rows(struct audit_walk *walk) {
  struct audit_place place = walk->place;
  uint32_t partitions = redis_target_partitions(walk->options.target);
  enum status status = audit_rows_online(&walk->rows, walk->options.postgres, walk->wanted, partitions, &place, PAGE);
  if (status != STATUS_OK) return status;
  size_t count = 0;
  for (size_t i = 0; i < walk->rows.count; i++) {
    uint32_t partition;
    audit_rows_online_at(&walk->rows, i, partitions, &walk->row[count], &partition);
    walk->row[count].meta = STR_NONE; /* not compared */
    count += partition == walk->partition;
  }
  status = compare(walk, count);
  if (status != STATUS_OK) return status;
  walk->place = place;
  if (walk->rows.count < PAGE) walk->phase = PHASE_BUCKETS;
  return STATUS_OK;
}

static enum status read_buckets(struct audit_walk *walk) {
  redisReply *reply = NULL;
  struct store_buckets page;
  enum status status =
      ask(walk, store_buckets_encode(walk->call, walk->options.target, walk->partition, walk->next_page), &reply);
  if (status == STATUS_OK) status = store_buckets_decode(reply, &page);
  if (status != STATUS_OK) {
    freeReplyObject(reply);
    return status;
  }
  walk->buckets = reply;
  walk->page = page;
  walk->next_page = page.cursor;
  walk->member = 0;
  walk->scan = 0;
  return STATUS_OK;
}

static void leave_bucket(struct audit_walk *walk) {
  walk->scan = 0;
  walk->member += 2; /* member, score */
}

/* Some devices of a bucket, in pages: HSCAN may give more than was asked for. */
static enum status compare_devices(struct audit_walk *walk, struct str tenant, const redisReply *devices) {
  for (size_t done = 0; done < devices->elements;) {
    size_t count = 0, known = 0;
    for (; done + count < devices->elements && count < PAGE; count++) {
      const redisReply *device = devices->element[done + count];
      walk->names[count] = (struct audit_name){tenant, {device->str, device->len}};
    }
    enum status status = audit_rows_of(&walk->rows, walk->options.postgres, walk->names, count, walk->row, walk->has_tenant);
    if (status != STATUS_OK) return status;
    for (size_t i = 0; i < count; i++) {
      uint32_t partitions = redis_target_partitions(walk->options.target);
      if (!walk->has_tenant[i]) continue;
      if (placement_partition(tenant, walk->row[i].bucket, partitions) != walk->partition) continue;
      walk->row[known] = walk->row[i];
      walk->row[known++].meta = STR_NONE;
    }
    status = compare(walk, known);
    if (status != STATUS_OK) return status;
    done += count;
  }
  return STATUS_OK;
}

static enum status step_bucket(struct audit_walk *walk) {
  const redisReply *member = walk->page.members->element[walk->member];
  struct str tenant;
  uint32_t bucket;
  if (member->type != REDIS_REPLY_STRING || keys_parse_bucket_member((struct str){member->str, member->len}, &tenant, &bucket)) {
    leave_bucket(walk); /* the detector reports it */
    return STATUS_OK;
  }
  redisReply *reply = NULL;
  const redisReply *devices;
  uint64_t next;
  enum status status = ask(
      walk, store_bucket_devices_encode(walk->call, walk->options.target, walk->partition, tenant, bucket, walk->scan), &reply);
  if (status == STATUS_OK) status = store_bucket_devices_decode(reply, &next, &devices);
  if (status == STATUS_OK) status = compare_devices(walk, tenant, devices);
  freeReplyObject(reply);
  if (status != STATUS_OK) return status;
  walk->scan = next;
  if (next == 0) leave_bucket(walk);
  return STATUS_OK;
}

enum status audit_walk_step(struct audit_walk *walk) {
  switch (walk->phase) {
  case PHASE_ROWS: return step_rows(walk);
  case PHASE_BUCKETS: break;
  case PHASE_END: return STATUS_OK;
  }
  if (walk->buckets == NULL) return read_buckets(walk);
  if (walk->member < walk->page.members->elements) return step_bucket(walk);
  drop_buckets(walk);
  if (walk->next_page == 0) walk->phase = PHASE_END;
  return STATUS_OK;
}
