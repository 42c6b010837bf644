/* publisher.c: one round = a cheap look at the stream of every partition of its lane, then one batch for each that is not empty.
 */
#include "publisher.h"

#include <stdlib.h>

#include "audit.h"
#include "failpoint.h"
#include "log.h"
#include "metrics.h"
#include "outbox.h"
#include "publisher/aside.h"
#include "redis_round.h"
#include "store.h"

#define CALL_TIMEOUT_MS 1000
#define IDLE_US 25000
#define RETRY_US 100000
#define WARN_INTERVAL_US 10000000

struct publisher {
  struct publisher_options options;
  struct redis_conn *conn;
  struct pg_client *postgres;
  struct redis_round looks;
  struct redis_call *call;
  struct audit_repairer *repairer;
  struct stream_entry *entries;    /* OUTBOX_APPEND_MAX */
  struct transition *transitions;  /* likewise */
  struct metric_series **backlogs; /* by partition */
  struct metric_series *online, *timeout, *disconnect, *state_lost, *repeats, *rejected, *lag;
  struct log_limit postgres_limit;
  bool publishing; /* the last use of PostgreSQL worked */
};

static enum status metrics_find(struct publisher *publisher, uint32_t partitions) {
  publisher->backlogs = calloc(partitions, sizeof(struct metric_series *));
  if (publisher->backlogs == NULL) return STATUS_NO_MEMORY;
  for (uint32_t partition = 0; partition < partitions; partition++) {
    char label[12];
    snprintf(label, sizeof label, "%u", (unsigned)partition);
    publisher->backlogs[partition] = metrics_series(METRIC_PUBLISH_BACKLOG, label);
  }
  publisher->online = metrics_series(METRIC_TRANSITIONS, "online", "");
  publisher->timeout = metrics_series(METRIC_TRANSITIONS, "offline", transition_reason_name(REASON_TIMEOUT));
  publisher->disconnect = metrics_series(METRIC_TRANSITIONS, "offline", transition_reason_name(REASON_DISCONNECT));
  publisher->state_lost = metrics_series(METRIC_TRANSITIONS, "offline", transition_reason_name(REASON_STATE_LOST));
  publisher->repeats = metrics_series(METRIC_OUTBOX_REPEATS);
  publisher->rejected = metrics_series(METRIC_REJECTED);
  publisher->lag = metrics_series(METRIC_PUBLISH_LAG);
  return STATUS_OK;
}

enum status publisher_new(const struct publisher_options *options, struct publisher **publisher) {
  uint32_t partitions = redis_target_partitions(options->target);
  enum status status = STATUS_NO_MEMORY;
  struct publisher *self = calloc(1, sizeof *self);
  if (self == NULL) return status;
  self->options = *options;
  self->entries = calloc(OUTBOX_APPEND_MAX, sizeof *self->entries);
  self->transitions = calloc(OUTBOX_APPEND_MAX, sizeof *self->transitions);
  if (self->entries == NULL || self->transitions == NULL) goto out;
  status = redis_conn_new(options->target, options->clock, CALL_TIMEOUT_MS, &self->conn);
  if (status != STATUS_OK) goto out;
  status = pg_client_new(options->postgres_url, "presence publisher", options->clock, &self->postgres);
  if (status != STATUS_OK) goto out;
  status = redis_round_init(&self->looks, partitions);
  if (status != STATUS_OK) goto out;
  status = redis_call_new(&self->call);
  if (status != STATUS_OK) goto out;
  status = audit_repairer_new(options->target, options->outage_ms, &self->repairer);
  if (status != STATUS_OK) goto out;
  status = metrics_find(self, partitions);
out:
  if (status != STATUS_OK) {
    publisher_free(self);
    self = NULL;
  }
  *publisher = self;
  return status;
}

void publisher_free(struct publisher *publisher) {
  if (publisher == NULL) return;
  redis_round_free(&publisher->looks);
  audit_repairer_free(publisher->repairer);
  redis_call_free(publisher->call);
  redis_conn_free(publisher->conn);
  pg_client_free(publisher->postgres);
  free(publisher->entries);
  free(publisher->transitions);
  free(publisher->backlogs);
  free(publisher);
}

void publisher_interrupt(struct publisher *publisher) { pg_client_interrupt(publisher->postgres); }

/* Says when publishing begins or is held up, not more. */
static void postgres_was(struct publisher *publisher, enum status status) {
  int64_t suppressed, now_us = clock_monotonic_us(publisher->options.clock);
  bool was_publishing = publisher->publishing;
  publisher->publishing = status == STATUS_OK;
  if (publisher->publishing && !was_publishing) {
    log_info("publishing", LOG_STR("to", "PostgreSQL"));
  } else if (!publisher->publishing && log_limit_pass(&publisher->postgres_limit, now_us, WARN_INTERVAL_US, &suppressed)) {
    log_warn("append_failed", LOG_STR("status", status_name(status)), LOG_STR("error", pg_client_error(publisher->postgres)),
             LOG_STR("effect", "transitions wait in Redis"), LOG_INT("suppressed", suppressed));
  }
}

static void observe(struct publisher *publisher, const struct outbox_counts *counts) {
  metric_add(publisher->online, counts->online);
  metric_add(publisher->timeout, counts->timeout);
  metric_add(publisher->disconnect, counts->disconnect);
  metric_add(publisher->state_lost, counts->state_lost);
  metric_add(publisher->repeats, counts->repeats);
  metric_add(publisher->rejected, counts->rejected);
}

static enum status trim(struct publisher *publisher, uint32_t partition, const char *run_id, size_t count) {
  redisReply *reply = NULL;
  enum status status =
      store_trim_encode(publisher->call, publisher->options.target, partition, run_id, publisher->entries, count);
  if (status == STATUS_OK) status = redis_conn_call(publisher->conn, partition, publisher->call, &reply);
  freeReplyObject(reply);
  if (status == STATUS_OK) FAILPOINT(publisher_trimmed);
  return status;
}

/* Appends the transitions at the head of entries[0..count), up to the first entry of another kind; *done = how many. */
static enum status append(struct publisher *publisher, uint32_t partition, size_t count, size_t *done) {
  size_t transitions = 0;
  while (transitions < count && publisher->entries[transitions].kind == STREAM_TRANSITION) {
    publisher->transitions[transitions] = publisher->entries[transitions].transition;
    transitions++;
  }
  *done = transitions;
  if (transitions == 0) return STATUS_OK;
  struct outbox_counts counts = {0};
  FAILPOINT(publisher_read);
  enum status status = outbox_append(publisher->postgres, partition, publisher->transitions, transitions, &counts);
  if (status == STATUS_OK) FAILPOINT(publisher_committed);
  observe(publisher, &counts);
  postgres_was(publisher, status);
  return status;
}

/* The head is a marker: all before it is in PostgreSQL, so that the audit can judge it, and those right behind it. */
static enum status meet_markers(struct publisher *publisher, uint32_t partition, const char *run_id, size_t count, size_t *done) {
  size_t markers = 0;
  while (markers < count && markers < STORE_ROWS_MAX && publisher->entries[markers].kind == STREAM_MARKER) markers++;
  *done = markers;
  return audit_repair(publisher->repairer, publisher->postgres, publisher->conn, partition, run_id, publisher->entries, markers);
}

/* The head is no transition: a broken entry is put aside, markers do their work. *done = how many. */
static enum status pass_by(struct publisher *publisher, uint32_t partition, const char *run_id, size_t count, size_t *done) {
  const struct stream_entry *entry = &publisher->entries[0];
  *done = 1;
  if (entry->kind == STREAM_MARKER) return meet_markers(publisher, partition, run_id, count, done);
  enum status status = aside_put(publisher->postgres, partition, entry);
  if (status == STATUS_OK) FAILPOINT(publisher_put_aside);
  postgres_was(publisher, status);
  if (status == STATUS_OK) metric_add(publisher->rejected, 1);
  return status;
}

/* One batch of a partition's stream. The run_id is as it was before reading: another server's entries are never trimmed. *more
 * becomes true where the stream surely has further entries. */
static enum status publish(struct publisher *publisher, uint32_t partition, bool *more) {
  char run_id[REDIS_RUN_ID_LEN + 1];
  redisReply *reply = NULL;
  size_t count = OUTBOX_APPEND_MAX, done = 0;
  PGconn *connection; /* without PostgreSQL there is no use in reading */
  enum status status = pg_client_connection(publisher->postgres, &connection);
  if (status != STATUS_OK) {
    postgres_was(publisher, status);
    return status;
  }
  status = redis_conn_run_id(publisher->conn, partition, run_id);
  if (status != STATUS_OK) return status;
  status = store_entries_encode(publisher->call, publisher->options.target, partition, OUTBOX_APPEND_MAX);
  if (status != STATUS_OK) return status;
  status = redis_conn_call(publisher->conn, partition, publisher->call, &reply);
  if (status != STATUS_OK) return status;
  status = store_entries_decode(reply, publisher->entries, &count);
  if (status != STATUS_OK || count == 0) goto out;
  status = append(publisher, partition, count, &done);
  if (status != STATUS_OK) goto out;
  if (done == 0) status = pass_by(publisher, partition, run_id, count, &done);
  if (status == STATUS_OK) status = trim(publisher, partition, run_id, done);
  *more = *more || count == OUTBOX_APPEND_MAX || done < count;
out:
  freeReplyObject(reply);
  return status;
}

/* The look of one partition. *waiting: its stream is not empty. */
static enum status observe_look(struct publisher *publisher, uint32_t partition, const redisReply *reply, int64_t *lag_ms,
                                bool *waiting) {
  struct stream_head head;
  struct stream_entry oldest;
  size_t count = 1;
  enum status status = store_stream_decode(reply, &head, &oldest, &count);
  if (status != STATUS_OK) return status;
  metric_set(publisher->backlogs[partition], (double)head.backlog);
  *waiting = count > 0;
  if (count > 0 && head.now_ms - oldest.id.ms > *lag_ms) *lag_ms = head.now_ms - oldest.id.ms;
  return STATUS_OK;
}

static enum status look(struct publisher *publisher) {
  const struct publisher_options *options = &publisher->options;
  redis_round_begin(&publisher->looks);
  for (uint32_t partition = options->lane; partition < options->held->partitions; partition += options->lanes) {
    if (!partition_set_has(options->held, partition)) {
      metric_set(publisher->backlogs[partition], 0);
      continue;
    }
    enum status status = store_stream_encode(redis_round_call(&publisher->looks), options->target, partition, 1);
    if (status != STATUS_OK) return status;
    redis_round_add(&publisher->looks, partition);
  }
  return redis_round_send(&publisher->looks, publisher->conn);
}

/* The gauge shows the lane that lags most. */
static void observe_lag(struct publisher *publisher, int64_t lag_ms) {
  struct publisher_lags *lags = publisher->options.lags;
  atomic_store(&lags->ms[publisher->options.lane], lag_ms);
  for (uint32_t lane = 0; lane < publisher->options.lanes; lane++) {
    int64_t other_ms = atomic_load(&lags->ms[lane]);
    if (other_ms > lag_ms) lag_ms = other_ms;
  }
  metric_set(publisher->lag, (double)lag_ms / 1000.0);
}

enum status publisher_tick(struct publisher *publisher, int64_t *sleep_us) {
  int64_t lag_ms = 0;
  enum status worst = look(publisher);
  const struct redis_round *looks = &publisher->looks;
  bool more = false; /* if not, the next batches may grow a little: each has a price of its own, however few share it */
  bool away = false; /* PostgreSQL: waiting for it once is enough, but the figures of all partitions stay true */
  *sleep_us = IDLE_US;
  for (size_t i = 0; i < looks->count; i++) {
    bool waiting = false;
    enum status status = looks->statuses[i];
    if (status == STATUS_OK) status = observe_look(publisher, looks->partitions[i], looks->replies[i], &lag_ms, &waiting);
    if (status == STATUS_OK && waiting && !away) {
      status = publish(publisher, looks->partitions[i], &more);
      away = status != STATUS_OK && !publisher->publishing;
    }
    if (status != STATUS_OK) worst = status;
  }
  observe_lag(publisher, lag_ms);
  if (more) *sleep_us = 0;
  if (worst != STATUS_OK) *sleep_us = RETRY_US;
  return worst;
}
