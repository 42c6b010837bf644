/* repairer.c: what the publisher does with markers at the head of a stream. */
#include <stdlib.h>

#include "audit.h"
#include "audit/rows.h"
#include "failpoint.h"
#include "log.h"
#include "metrics.h"

enum { KINDS = (int)AUDIT_ROW_BEHIND + 1 };

static const struct {
  const char *kind, *meaning;
} findings[KINDS] = {
#define AUDIT_FINDING(id, kind, meaning) [AUDIT_##id] = {kind, meaning},
#include "findings.def"
#undef AUDIT_FINDING
};

const char *audit_kind(enum disagreement kind) { return findings[kind].kind; }
const char *audit_meaning(enum disagreement kind) { return findings[kind].meaning; }

struct audit_repairer {
  const struct redis_target *target;
  int64_t outage_ms;
  struct redis_call *call;
  struct audit_rows rows;
  struct metric_series *found[KINDS];
  /* Of the markers at hand; row[0..known), marker[0..known) are those whose tenant is there. */
  struct audit_name names[STORE_ROWS_MAX];
  bool has_tenant[STORE_ROWS_MAX];
  struct store_row row[STORE_ROWS_MAX];
  struct store_marker marker[STORE_ROWS_MAX];
  enum disagreement repaired[STORE_ROWS_MAX];
};

enum status audit_repairer_new(const struct redis_target *target, int64_t outage_ms, struct audit_repairer **repairer) {
  struct audit_repairer *self = calloc(1, sizeof *self);
  *repairer = self;
  if (self == NULL) return STATUS_NO_MEMORY;
  self->target = target;
  self->outage_ms = outage_ms;
  for (int kind = AGREE + 1; kind < KINDS; kind++) self->found[kind] = metrics_series(METRIC_AUDIT_FINDINGS, findings[kind].kind);
  enum status status = redis_call_new(&self->call);
  if (status == STATUS_OK) return STATUS_OK;
  audit_repairer_free(self);
  *repairer = NULL;
  return status;
}

void audit_repairer_free(struct audit_repairer *repairer) {
  if (repairer == NULL) return;
  redis_call_free(repairer->call);
  audit_rows_free(&repairer->rows);
  free(repairer);
}

/* A row may have been read for the same tenant name in another place than the marker: such a tenant was deleted and made again.
 */
static size_t keep_known(struct audit_repairer *repairer, uint32_t partition, const struct stream_entry *markers, size_t count) {
  uint32_t partitions = redis_target_partitions(repairer->target);
  size_t known = 0;
  for (size_t i = 0; i < count; i++) {
    const struct store_row *row = &repairer->row[i];
    if (!repairer->has_tenant[i] || placement_partition(row->tenant.id, row->bucket, partitions) != partition) continue;
    repairer->marker[known] = (struct store_marker){.entry = markers[i].id, .session = markers[i].transition.session};
    repairer->row[known++] = *row;
  }
  return known;
}

static void report(struct audit_repairer *repairer, uint32_t partition, size_t count) {
  int64_t found[KINDS] = {0};
  bool any = false;
  for (size_t i = 0; i < count; i++) {
    int kind = (int)repairer->repaired[i];
    if (kind == AGREE || kind >= KINDS) continue;
    found[kind]++;
    any = true;
  }
  if (!any) return;
  for (int kind = AGREE + 1; kind < KINDS; kind++) metric_add(repairer->found[kind], found[kind]);
  log_warn("audit_repaired", LOG_INT("partition", partition), LOG_INT("not_in_redis", found[AUDIT_NOT_IN_REDIS]),
           LOG_INT("redis_older", found[AUDIT_REDIS_OLDER]), LOG_INT("over_in_row", found[AUDIT_OVER_IN_ROW]),
           LOG_INT("row_behind", found[AUDIT_ROW_BEHIND]));
}

enum status audit_repair(struct audit_repairer *repairer, struct pg_client *postgres, struct redis_conn *conn, uint32_t partition,
                         const char *run_id, const struct stream_entry *markers, size_t count) {
  for (size_t i = 0; i < count; i++) {
    repairer->names[i] = (struct audit_name){markers[i].transition.tenant, markers[i].transition.device};
  }
  enum status status = audit_rows_of(&repairer->rows, postgres, repairer->names, count, repairer->row, repairer->has_tenant);
  if (status != STATUS_OK) return status;
  FAILPOINT(publisher_marker_rows_read);
  size_t known = keep_known(repairer, partition, markers, count);
  redisReply *reply = NULL;
  status = store_repair_encode(repairer->call, repairer->target, partition, run_id, repairer->outage_ms, repairer->row,
                               repairer->marker, known);
  if (status == STATUS_OK) status = redis_conn_call(conn, partition, repairer->call, &reply);
  if (status == STATUS_OK) status = store_repair_decode(reply, known, repairer->repaired);
  freeReplyObject(reply);
  if (status != STATUS_OK) return status;
  FAILPOINT(publisher_repaired);
  report(repairer, partition, known);
  return STATUS_OK;
}
