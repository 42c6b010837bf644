/* presencectl tenant delete: takes a tenant out of both stores, in steps that are small for everybody else.
 *
 *   1. PostgreSQL marks the tenant and gives it a new generation         API processes refuse it within a second
 *   2. each partition learns the generation                              Redis refuses whoever does not know yet
 *   3. bucket after bucket: open sessions end as by a disconnect, the keys are unlinked
 *   4. a scan over the keys for what no bucket of today's settings names
 *   5. wait until those ends are published: their rows come after all
 *   6. device rows go, in batches; then tokens and the tenant
 *
 * Every step may be repeated, and all state is in the stores: when it is interrupted, the same command goes on. The tenant's
 * outbox rows stay for the retention, since consumers may not have read them; so do the guards of its devices (migration 0008).
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "failpoint.h"
#include "keys.h"
#include "redis_side.h"

#define ROWS_A_STEP "1000"
#define SCAN_KEYS 500
#define BACKLOG_PAUSE 20000    /* transitions of a partition above which no more sessions are ended for now */
#define WAIT_LOOK_US 50000     /* between two looks at what others have to do first */
#define WAIT_LIMIT_US 30000000 /* without any progress */
#define TELL_INTERVAL_US 1000000

struct deletion {
  struct cli *cli;
  struct redis_side side;
  struct redis_call *call;
  struct store_tenant tenant;
  struct session_id *newest; /* by partition: when this is published, all ends are */
  int64_t sessions, buckets, devices;
  int64_t told_us;
};

static void pause_for(int64_t us) {
  struct timespec time = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};
  (void)nanosleep(&time, NULL);
}

static int64_t now_us(void) { return clock_monotonic_us(clock_system()); }

/* Once a second, on stderr. */
static void tell_progress(struct deletion *deletion, const char *doing) {
  if (now_us() < deletion->told_us + TELL_INTERVAL_US) return;
  deletion->told_us = now_us();
  fprintf(stderr, "%s: %lld sessions ended, %lld buckets emptied, %lld devices removed\n", doing, (long long)deletion->sessions,
          (long long)deletion->buckets, (long long)deletion->devices);
}

/* ---- Redis */

/* One call, and twice the time it took for others. */
static enum status empty_step(struct deletion *deletion, uint32_t partition, const uint32_t *buckets, size_t count, bool last,
                              struct empty_result *result) {
  redisReply *reply = NULL;
  int64_t began_us = now_us();
  enum status status = store_empty_encode(deletion->call, deletion->side.target, partition, deletion->cli->config.outage_ms,
                                          &deletion->tenant, buckets, count, last);
  if (status == STATUS_OK) status = redis_conn_call(deletion->side.conn, partition, deletion->call, &reply);
  if (status == STATUS_OK) status = store_empty_decode(reply, result);
  freeReplyObject(reply);
  if (status == STATUS_OK) deletion->sessions += result->closed;
  pause_for(2 * (now_us() - began_us));
  return status;
}

/* Ends go through PostgreSQL: no more of them than it can take. */
static enum status wait_for_room(struct deletion *deletion, uint32_t partition, struct empty_result *result) {
  enum status status = STATUS_OK;
  int64_t least = result->backlog, until_us = now_us() + WAIT_LIMIT_US;
  while (status == STATUS_OK && result->backlog > BACKLOG_PAUSE) {
    if (now_us() > until_us) return STATUS_TIMEOUT;
    tell_progress(deletion, "waiting for the publisher");
    pause_for(WAIT_LOOK_US);
    status = empty_step(deletion, partition, NULL, 0, false, result);
    if (result->backlog >= least) continue;
    least = result->backlog;
    until_us = now_us() + WAIT_LIMIT_US;
  }
  return status;
}

static enum status empty_all(struct deletion *deletion, uint32_t partition, const uint32_t *buckets, size_t count) {
  enum status status = STATUS_OK;
  for (size_t done = 0; done < count && status == STATUS_OK;) {
    struct empty_result result = {0};
    size_t some = count - done < STORE_EMPTY_BUCKETS_MAX ? count - done : STORE_EMPTY_BUCKETS_MAX;
    status = empty_step(deletion, partition, buckets + done, some, false, &result);
    FAILPOINT(tenant_delete_step);
    if (status == STATUS_OK) {
      done += (size_t)result.emptied;
      deletion->buckets += result.emptied;
      status = wait_for_room(deletion, partition, &result);
    }
    tell_progress(deletion, "emptying");
  }
  return status;
}

/* The tenant's own buckets, by name. */
static enum status empty_partition(struct deletion *deletion, uint32_t partition) {
  uint32_t buckets[STORE_EMPTY_BUCKETS_MAX], bucket, step = deletion->side.partitions;
  enum status status = STATUS_OK;
  bool any = store_first_bucket(deletion->side.target, &deletion->tenant, partition, &bucket);
  while (any && bucket < deletion->tenant.buckets && status == STATUS_OK) {
    size_t count = 0;
    for (; count < STORE_EMPTY_BUCKETS_MAX && bucket < deletion->tenant.buckets; bucket += step) buckets[count++] = bucket;
    status = empty_all(deletion, partition, buckets, count);
  }
  return status;
}

/* A key that should not be there any more: its bucket is emptied by its own name. */
static enum status empty_key(struct deletion *deletion, struct str key) {
  struct str tenant;
  uint32_t partition, bucket;
  if (keys_parse_bucket(redis_target_env(deletion->side.target), key, &partition, &tenant, &bucket) != STATUS_OK ||
      !str_equal(tenant, deletion->tenant.id) || partition >= deletion->side.partitions)
    return STATUS_OK;
  return empty_all(deletion, partition, &bucket, 1);
}

/* Looks at all keys of the server that this partition lies on. */
static enum status sweep_server(struct deletion *deletion, uint32_t partition) {
  uint64_t cursor = 0;
  enum status status;
  do {
    redisReply *reply = NULL;
    const redisReply *keys = NULL;
    int64_t began_us = now_us();
    status = store_scan_encode(deletion->call, deletion->side.target, partition, cursor, BUCKET_KEY_COUNT, deletion->tenant.id,
                               SCAN_KEYS);
    if (status == STATUS_OK) status = redis_conn_call(deletion->side.conn, partition, deletion->call, &reply);
    if (status == STATUS_OK) status = store_scan_decode(reply, &cursor, &keys);
    for (size_t i = 0; status == STATUS_OK && i < keys->elements; i++) {
      status = empty_key(deletion, (struct str){keys->element[i]->str, keys->element[i]->len});
    }
    freeReplyObject(reply);
    tell_progress(deletion, "looking for keys left behind");
    pause_for(2 * (now_us() - began_us));
  } while (status == STATUS_OK && cursor != 0);
  return status;
}

static enum status sweep(struct deletion *deletion) {
  enum status status = STATUS_OK;
  for (uint32_t p = 0; p < deletion->side.partitions && status == STATUS_OK; p++) {
    if (redis_conn_leads(deletion->side.conn, p)) status = sweep_server(deletion, p);
  }
  return status;
}

/* What may still be on the stream is known only after the last session has ended. */
static enum status empty_redis(struct deletion *deletion) {
  struct empty_result result;
  enum status status = STATUS_OK;
  for (uint32_t p = 0; p < deletion->side.partitions && status == STATUS_OK; p++)
    status = empty_step(deletion, p, NULL, 0, false, &result); /* the generation, before anything else */
  for (uint32_t p = 0; p < deletion->side.partitions && status == STATUS_OK; p++) status = empty_partition(deletion, p);
  if (status == STATUS_OK) status = sweep(deletion);
  for (uint32_t p = 0; p < deletion->side.partitions && status == STATUS_OK; p++) {
    status = empty_step(deletion, p, NULL, 0, true, &result);
    deletion->newest[p] = result.newest;
  }
  return status;
}

/* Is something up to `newest` still on the stream? */
static enum status look_at_stream(struct deletion *deletion, uint32_t partition, bool *unpublished, int64_t *backlog) {
  struct stream_head head;
  struct stream_entry oldest;
  size_t count = 1;
  redisReply *reply = NULL;
  enum status status = store_stream_encode(deletion->call, deletion->side.target, partition, 1);
  if (status == STATUS_OK) status = redis_conn_call(deletion->side.conn, partition, deletion->call, &reply);
  if (status == STATUS_OK) status = store_stream_decode(reply, &head, &oldest, &count);
  if (status == STATUS_OK) {
    *unpublished = count > 0 && session_id_compare(oldest.id, deletion->newest[partition]) <= 0;
    *backlog = head.backlog;
  }
  freeReplyObject(reply);
  return status;
}

static enum status wait_until_published(struct deletion *deletion, uint32_t partition) {
  bool unpublished = true;
  int64_t backlog = 0, least = INT64_MAX, until_us = 0;
  for (;;) {
    enum status status = look_at_stream(deletion, partition, &unpublished, &backlog);
    if (status != STATUS_OK || !unpublished) return status;
    if (backlog < least) until_us = now_us() + WAIT_LIMIT_US;
    if (backlog < least) least = backlog;
    if (now_us() > until_us) return STATUS_TIMEOUT;
    tell_progress(deletion, "waiting for the publisher");
    pause_for(WAIT_LOOK_US);
  }
}

/* ---- PostgreSQL */

/* A function of migration 0009 whose first parameter is the tenant; *answer is its one value. */
static enum cli_exit ask(struct deletion *deletion, const char *sql, int64_t *answer) {
  const char *parameters[] = {deletion->cli->words[0]};
  PGresult *result;
  enum cli_exit code = cli_query(deletion->cli, sql, 1, parameters, &result);
  if (code == CLI_OK && (PQntuples(result) != 1 || str_to_int64(str_from(PQgetvalue(result, 0, 0)), answer) != STATUS_OK))
    code = cli_fail("PostgreSQL: an answer that should not be");
  PQclear(result);
  return code;
}

static enum cli_exit mark(struct deletion *deletion) {
  const char *parameters[] = {deletion->cli->words[0]};
  PGresult *result;
  int64_t buckets = 0;
  enum cli_exit code =
      cli_query(deletion->cli, "SELECT generation, buckets FROM presence.begin_tenant_deletion($1)", 1, parameters, &result);
  if (code == CLI_OK && PQntuples(result) == 0) code = cli_fail("no such tenant");
  if (code == CLI_OK && (str_to_int64(str_from(PQgetvalue(result, 0, 0)), &deletion->tenant.generation) != STATUS_OK ||
                         str_to_int64(str_from(PQgetvalue(result, 0, 1)), &buckets) != STATUS_OK))
    code = cli_fail("presence.tenant holds no numbers");
  deletion->tenant.id = str_from(deletion->cli->words[0]);
  deletion->tenant.buckets = (uint32_t)buckets;
  PQclear(result);
  if (code == CLI_OK) FAILPOINT(tenant_delete_marked);
  return code;
}

static enum cli_exit delete_rows(struct deletion *deletion) {
  int64_t some = 1, done = 0;
  enum cli_exit code = CLI_OK;
  while (code == CLI_OK && some > 0) {
    code = ask(deletion, "SELECT presence.end_lost_sessions($1, " ROWS_A_STEP ")", &some);
    if (code == CLI_OK) deletion->sessions += some;
    tell_progress(deletion, "ending sessions that Redis lost");
  }
  some = 1;
  while (code == CLI_OK && some > 0) {
    code = ask(deletion, "SELECT presence.forget_tenant_devices($1, " ROWS_A_STEP ")", &some);
    if (code == CLI_OK) deletion->devices += some;
    FAILPOINT(tenant_delete_rows);
    tell_progress(deletion, "removing devices");
  }
  if (code == CLI_OK) code = ask(deletion, "SELECT presence.end_tenant_deletion($1)::integer", &done);
  if (code == CLI_OK && done == 0) code = cli_fail("devices were reported meanwhile: repeat");
  return code;
}

/* ---- all of it */

static enum cli_exit fail_redis(const struct deletion *deletion, enum status status) {
  if (status == STATUS_TIMEOUT)
    return cli_fail("ends of sessions have not reached PostgreSQL for 30 s; is a worker running? Repeat to go on");
  if (status == STATUS_STALE) return cli_fail("Redis knows a newer generation of the tenant than PostgreSQL: was it restored?");
  return redis_side_fail(&deletion->side, status);
}

static enum cli_exit print_result(struct deletion *deletion) {
  struct table table = {0};
  table_column(&table, "tenant", CELL_TEXT);
  table_add(&table, deletion->tenant.id);
  table_column(&table, "sessions_ended", CELL_NUMBER);
  table_add_number(&table, deletion->sessions);
  table_column(&table, "buckets_emptied", CELL_NUMBER);
  table_add_number(&table, deletion->buckets);
  table_column(&table, "devices_removed", CELL_NUMBER);
  table_add_number(&table, deletion->devices);
  return cli_print_table(deletion->cli, &table, TABLE_OBJECT);
}

static enum cli_exit delete_tenant(struct deletion *deletion) {
  enum cli_exit code = mark(deletion);
  if (code != CLI_OK) return code;
  enum status status = empty_redis(deletion);
  for (uint32_t p = 0; p < deletion->side.partitions && status == STATUS_OK; p++) status = wait_until_published(deletion, p);
  if (status != STATUS_OK) return fail_redis(deletion, status);
  FAILPOINT(tenant_delete_published);
  code = delete_rows(deletion);
  return code == CLI_OK ? print_result(deletion) : code;
}

enum cli_exit tenant_delete(struct cli *cli) {
  struct deletion deletion = {.cli = cli, .told_us = now_us()};
  enum cli_exit code = cli_check_tenant_id(cli->words[0]);
  if (code != CLI_OK) return code;
  code = redis_side_open(cli, &deletion.side);
  if (code == CLI_OK) {
    deletion.newest = calloc(deletion.side.partitions, sizeof *deletion.newest);
    if (deletion.newest == NULL || redis_call_new(&deletion.call) != STATUS_OK) code = cli_fail("out of memory");
  }
  if (code == CLI_OK) code = delete_tenant(&deletion);
  redis_call_free(deletion.call);
  free(deletion.newest);
  redis_side_close(&deletion.side);
  return code;
}
