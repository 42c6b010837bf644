/* audit_rows.c: two looks. What disagrees at the first is mostly a transition under way; what disagrees in the same way after the
 * publishers have passed by is a finding. */
#include "audit_rows.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "audit.h"
#include "audit/rows.h"

enum {
  CANDIDATES_MAX = 20000, /* more are left to the next run */
  PASS_BY_MS = 5000,      /* how long publishers are waited for */
  KINDS = (int)AUDIT_ROW_BEHIND + 1,
};

struct candidate {
  uint32_t partition;
  enum disagreement kind;
  bool confirmed;
  char tenant[TENANT_ID_MAX + 1];
  char device[DEVICE_ID_MAX + 1];
  struct session_id session; /* in the row */
};

struct look {
  struct cli *cli;
  struct redis_side *side;
  struct candidate *candidates;
  size_t count;
  struct redis_call *call;
  struct audit_rows rows;
};

static void add_candidate(void *context, uint32_t partition, const struct store_row *row, enum disagreement kind) {
  struct look *look = context;
  if (look->count == CANDIDATES_MAX) return;
  struct candidate *candidate = &look->candidates[look->count++];
  *candidate = (struct candidate){.partition = partition, .kind = kind, .session = row->session};
  memcpy(candidate->tenant, row->tenant.id.data, row->tenant.id.len);
  memcpy(candidate->device, row->device.data, row->device.len);
}

static enum status first_look(struct look *look) {
  struct audit_walk *walk = NULL;
  enum status status = audit_walk_new(&(struct audit_walk_options){.target = look->side->target,
                                                                   .conn = look->side->conn,
                                                                   .postgres = look->cli->pg,
                                                                   .outage_ms = look->cli->config.outage_ms,
                                                                   .differs = add_candidate,
                                                                   .context = look},
                                      &walk);
  for (uint32_t partition = 0; partition < look->side->partitions && status == STATUS_OK; partition++) {
    audit_walk_begin(walk, partition);
    while (!audit_walk_ended(walk) && status == STATUS_OK) status = audit_walk_step(walk);
  }
  audit_walk_free(walk);
  return status;
}

static enum status read_backlog(struct look *look, uint32_t partition, int64_t *backlog) {
  redisReply *reply = NULL;
  struct stream_head head;
  size_t count = 0;
  enum status status = store_stream_encode(look->call, look->side->target, partition, 1);
  if (status == STATUS_OK) status = redis_conn_call(look->side->conn, partition, look->call, &reply);
  if (status == STATUS_OK) status = store_stream_decode(reply, &head, NULL, &count);
  freeReplyObject(reply);
  if (status == STATUS_OK) *backlog = head.backlog;
  return status;
}

/* Until each stream was empty once: all that was under way at the first look is in PostgreSQL then. */
static enum status wait_for_publishers(struct look *look) {
  int64_t until_us = clock_monotonic_us(clock_system()) + PASS_BY_MS * INT64_C(1000);
  for (uint32_t partition = 0; partition < look->side->partitions; partition++) {
    for (;;) {
      int64_t backlog = 0;
      enum status status = read_backlog(look, partition, &backlog);
      if (status != STATUS_OK) return status;
      if (backlog == 0) break;
      if (clock_monotonic_us(clock_system()) > until_us) return STATUS_TIMEOUT;
      (void)nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
  }
  return STATUS_OK;
}

/* Candidates of one partition, at most STORE_ITEMS_MAX, from `first` on. */
static enum status look_again(struct look *look, size_t first, size_t count, bool mark) {
  struct audit_name names[STORE_ITEMS_MAX];
  static struct store_row rows[STORE_ITEMS_MAX];
  bool found[STORE_ITEMS_MAX];
  size_t of[STORE_ITEMS_MAX], known = 0;
  enum disagreement kinds[STORE_ITEMS_MAX];
  struct candidate *candidates = &look->candidates[first];
  for (size_t i = 0; i < count; i++) {
    names[i] = (struct audit_name){str_from(candidates[i].tenant), str_from(candidates[i].device)};
  }
  enum status status = audit_rows_of(&look->rows, look->cli->pg, names, count, rows, found);
  if (status != STATUS_OK) return status;
  for (size_t i = 0; i < count; i++) {
    if (!found[i] || (mark && !candidates[i].confirmed)) continue;
    of[known] = i;
    rows[known] = rows[i];
    rows[known++].meta = STR_NONE;
  }
  if (known == 0) return STATUS_OK;
  redisReply *reply = NULL;
  uint32_t partition = candidates[0].partition;
  status =
      store_mark_encode(look->call, look->side->target, partition, look->cli->config.outage_ms, rows, known, INT32_MAX, mark);
  if (status == STATUS_OK) status = redis_conn_call(look->side->conn, partition, look->call, &reply);
  if (status == STATUS_OK) status = store_mark_decode(reply, known, kinds);
  freeReplyObject(reply);
  for (size_t i = 0; i < known && status == STATUS_OK && !mark; i++) {
    struct candidate *candidate = &candidates[of[i]];
    candidate->confirmed = candidate->kind == kinds[i] && session_id_compare(candidate->session, rows[i].session) == 0;
  }
  return status;
}

static enum status look_at_all_again(struct look *look, bool mark) {
  enum status status = STATUS_OK;
  for (size_t first = 0, count; first < look->count && status == STATUS_OK; first += count) {
    for (count = 1; first + count < look->count && count < STORE_ITEMS_MAX; count++) {
      if (look->candidates[first + count].partition != look->candidates[first].partition) break;
    }
    status = look_again(look, first, count, mark);
  }
  return status;
}

static int by_tenant_and_kind(const void *left, const void *right) {
  const struct candidate *a = left, *b = right;
  int order = strcmp(a->tenant, b->tenant);
  return order != 0 ? order : (int)a->kind - (int)b->kind;
}

static void add_rows(struct look *look, bool repair, struct table *table) {
  qsort(look->candidates, look->count, sizeof *look->candidates, by_tenant_and_kind);
  for (size_t first = 0, next; first < look->count; first = next) {
    const struct candidate *candidate = &look->candidates[first];
    int64_t found = 0;
    for (next = first; next < look->count && by_tenant_and_kind(candidate, &look->candidates[next]) == 0; next++) {
      found += look->candidates[next].confirmed;
    }
    if (found == 0) continue;
    table_add(table, str_from(candidate->tenant));
    table_add(table, str_from(audit_kind(candidate->kind)));
    table_add_number(table, found);
    table_add(table, repair ? STR_LIT("t") : STR_LIT("f"));
    table_add(table, str_from(audit_meaning(candidate->kind)));
  }
}

enum cli_exit audit_rows_run(struct cli *cli, struct redis_side *side, bool repair, struct table *table) {
  struct look look = {.cli = cli, .side = side, .candidates = calloc(CANDIDATES_MAX, sizeof *look.candidates)};
  enum status status = look.candidates == NULL ? STATUS_NO_MEMORY : redis_call_new(&look.call);
  if (status == STATUS_OK) status = first_look(&look);
  if (status == STATUS_OK && look.count > 0) status = wait_for_publishers(&look);
  if (status == STATUS_OK) status = look_at_all_again(&look, false);
  if (status == STATUS_OK && repair) status = look_at_all_again(&look, true);
  enum cli_exit code = CLI_OK;
  if (status == STATUS_OK) {
    add_rows(&look, repair, table);
  } else if (status == STATUS_TIMEOUT) {
    code = cli_fail(
        "transitions wait for PostgreSQL, so that nothing can be said of rows: no worker publishes, or it is far behind");
  } else if (!pg_client_is_up(cli->pg)) {
    code = cli_fail("PostgreSQL: %s", pg_client_error(cli->pg));
  } else {
    code = redis_side_fail(side, status);
  }
  audit_rows_free(&look.rows);
  redis_call_free(look.call);
  free(look.candidates);
  return code;
}
