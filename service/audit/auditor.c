/* auditor.c: a walk over each partition held, at a pace that leaves the servers to others; at once where something calls for it.
 */
#include <stdio.h>
#include <stdlib.h>

#include "audit.h"
#include "log.h"

#define CALL_TIMEOUT_MS 2000
#define LOOK_US 1000000  /* how often it asks whether a server is a new one, or PostgreSQL an older one */
#define RETRY_US 500000  /* after a server did not answer, or while the stream is full */
#define LEAVE_US 2000000 /* until the next try with a server that was away */
#define PAUSE_FACTOR 3   /* of the time a step took */
#define PAUSE_MAX_US 50000
#define STAMP_MAX 24
#define IDENTITY_MAX 64

struct lane {
  bool held;
  int64_t due_us;          /* monotonic: of the next walk; meaningful while held */
  char adopted[STAMP_MAX]; /* as of the last look */
};

struct auditor {
  struct auditor_options options;
  struct redis_conn *conn;
  struct redis_call *call;
  struct pg_client *postgres;
  struct audit_walk *walk;
  struct lane *lanes; /* by partition */
  bool walking;
  uint32_t partition;          /* of the walk */
  int64_t look_us;             /* monotonic: the next look */
  char identity[IDENTITY_MAX]; /* of PostgreSQL's server and database; empty: not known yet */
  int64_t recorded_ms;         /* newest time in the outbox, as of the last look */
};

enum status auditor_new(const struct auditor_options *options, struct auditor **auditor) {
  *auditor = NULL;
  struct auditor *self = calloc(1, sizeof *self);
  if (self == NULL) return STATUS_NO_MEMORY;
  self->options = *options;
  self->lanes = calloc(options->held->partitions, sizeof *self->lanes);
  enum status status =
      self->lanes == NULL ? STATUS_NO_MEMORY : redis_conn_new(options->target, options->clock, CALL_TIMEOUT_MS, &self->conn);
  if (status == STATUS_OK) status = redis_call_new(&self->call);
  if (status == STATUS_OK) status = pg_client_new(options->postgres_url, "presence auditor", options->clock, &self->postgres);
  if (status == STATUS_OK) {
    status = audit_walk_new(&(struct audit_walk_options){.target = options->target,
                                                         .conn = self->conn,
                                                         .postgres = self->postgres,
                                                         .outage_ms = options->outage_ms,
                                                         .mark = true},
                            &self->walk);
  }
  if (status != STATUS_OK) {
    auditor_free(self);
    return status;
  }
  *auditor = self;
  return STATUS_OK;
}

void auditor_free(struct auditor *auditor) {
  if (auditor == NULL) return;
  audit_walk_free(auditor->walk);
  pg_client_free(auditor->postgres);
  redis_call_free(auditor->call);
  redis_conn_free(auditor->conn);
  free(auditor->lanes);
  free(auditor);
}

void auditor_interrupt(struct auditor *auditor) { pg_client_interrupt(auditor->postgres); }

static void call_for(struct auditor *auditor, uint32_t partition, int64_t now_us) {
  auditor->lanes[partition].due_us = now_us;
  if (auditor->walking && auditor->partition == partition) auditor->walking = false; /* from the beginning */
}

static void call_for_all(struct auditor *auditor, int64_t now_us) {
  for (uint32_t p = 0; p < auditor->options.held->partitions; p++) call_for(auditor, p, now_us);
}

/* A partition that is newly held is walked at once: nobody knows what its last worker had done. */
static void follow_held(struct auditor *auditor, int64_t now_us) {
  for (uint32_t p = 0; p < auditor->options.held->partitions; p++) {
    bool held = partition_set_has(auditor->options.held, p);
    if (held && !auditor->lanes[p].held) call_for(auditor, p, now_us);
    if (!held && auditor->walking && auditor->partition == p) auditor->walking = false;
    auditor->lanes[p].held = held;
  }
}

/* Is it another server or another database than before, or did this server restart? Then it may be an older state, from a backup
 * or by a fail-over. Where the newest time in the outbox went back it surely is. Connections say nothing: a pooler may stand
 * between. */
static enum status look_at_postgres(struct auditor *auditor, int64_t now_us) {
  PGresult *result = NULL;
  enum status status = pg_client_exec(auditor->postgres,
                                      "SELECT presence.newest_recorded_ms(), pg_postmaster_start_time()::text || ' ' || oid"
                                      " FROM pg_database WHERE datname = current_database()",
                                      0, NULL, &result);
  int64_t recorded_ms = 0;
  if (status == STATUS_OK && PQntuples(result) != 1) status = STATUS_PROTOCOL;
  if (status == STATUS_OK && str_to_int64(str_from(PQgetvalue(result, 0, 0)), &recorded_ms) != STATUS_OK)
    status = STATUS_PROTOCOL;
  if (status == STATUS_OK) {
    const char *identity = PQgetvalue(result, 0, 1);
    bool is_older = recorded_ms < auditor->recorded_ms;
    bool is_another = auditor->identity[0] != '\0' && strncmp(identity, auditor->identity, sizeof auditor->identity - 1) != 0;
    if (is_older) {
      log_warn(
          "postgres_went_back", LOG_INT("by_ms", auditor->recorded_ms - recorded_ms),
          LOG_STR("effect", "what it lost of open sessions is published again; ends of sessions that it lost are not known"));
    }
    if (is_older || is_another) call_for_all(auditor, now_us);
    (void)snprintf(auditor->identity, sizeof auditor->identity, "%s", identity);
    auditor->recorded_ms = recorded_ms;
  }
  PQclear(result);
  return status;
}

/* Has the partition's server been adopted anew, by whichever worker? */
static enum status look_at_redis(struct auditor *auditor, uint32_t partition, int64_t now_us) {
  struct lane *lane = &auditor->lanes[partition];
  struct store_buckets buckets;
  redisReply *reply = NULL;
  enum status status = store_buckets_encode(auditor->call, auditor->options.target, partition, 0);
  if (status == STATUS_OK) status = redis_conn_call(auditor->conn, partition, auditor->call, &reply);
  if (status == STATUS_OK) status = store_buckets_decode(reply, &buckets);
  if (status == STATUS_OK && buckets.adopted.len < sizeof lane->adopted && !str_equal(buckets.adopted, str_from(lane->adopted))) {
    memcpy(lane->adopted, buckets.adopted.data, buckets.adopted.len);
    lane->adopted[buckets.adopted.len] = '\0';
    call_for(auditor, partition, now_us);
  }
  freeReplyObject(reply);
  return status;
}

static enum status look(struct auditor *auditor, int64_t now_us) {
  auditor->look_us = now_us + LOOK_US;
  enum status status = look_at_postgres(auditor, now_us);
  if (status != STATUS_OK) return status;
  for (uint32_t p = 0; p < auditor->options.held->partitions; p++) {
    if (!auditor->lanes[p].held) continue;
    enum status looked = look_at_redis(auditor, p, now_us);
    if (looked != STATUS_OK && redis_conn_is_open(auditor->conn, p)) status = looked; /* else it is away, the others are not */
  }
  return status;
}

static bool begin_walk(struct auditor *auditor, int64_t now_us) {
  for (uint32_t p = 0; p < auditor->options.held->partitions; p++) {
    struct lane *lane = &auditor->lanes[p];
    if (!lane->held || lane->due_us > now_us) continue;
    lane->due_us = now_us + auditor->options.interval_ms * 1000;
    audit_walk_begin(auditor->walk, p);
    auditor->partition = p;
    auditor->walking = true;
    return true;
  }
  return false;
}

/* The partition's server is away: from the beginning when it is back; the others go on meanwhile. */
static void leave_walk(struct auditor *auditor) {
  auditor->walking = false;
  auditor->lanes[auditor->partition].due_us = clock_monotonic_us(auditor->options.clock) + LEAVE_US;
}

enum status auditor_tick(struct auditor *auditor, int64_t *sleep_us) {
  const struct clock *clock = auditor->options.clock;
  int64_t began_us = clock_monotonic_us(clock);
  enum status status = STATUS_OK;
  follow_held(auditor, began_us);
  if (began_us >= auditor->look_us) status = look(auditor, began_us);
  *sleep_us = PAUSE_MAX_US * 2;
  if (status == STATUS_OK && (auditor->walking || begin_walk(auditor, began_us))) {
    status = audit_walk_step(auditor->walk);
    if (audit_walk_ended(auditor->walk)) auditor->walking = false;
    if (status != STATUS_OK && !redis_conn_is_open(auditor->conn, auditor->partition)) leave_walk(auditor);
    int64_t pause_us = PAUSE_FACTOR * (clock_monotonic_us(clock) - began_us);
    *sleep_us = pause_us < PAUSE_MAX_US ? pause_us : PAUSE_MAX_US;
  }
  if (status != STATUS_OK) *sleep_us = RETRY_US;
  return status == STATUS_FULL ? STATUS_OK : status;
}
