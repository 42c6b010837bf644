/* presencectl recalibrate and audit: Redis compared with itself (and, by audit, with the device rows), tenant by tenant, at a
 * pace that leaves it to others most of the time. */
#include <stdio.h>
#include <time.h>

#include "audit_rows.h"
#include "counts.h"
#include "counts/tenant_list.h"
#include "redis_side.h"

struct walk {
  struct cli *cli;
  struct redis_side side;
  struct redis_call *call;
  struct tenant_list tenants;
  enum drift_action action;
  const char *only; /* this tenant; NULL: all */
  size_t compared;  /* tenants */
};

static void pause_for(int64_t us) {
  struct timespec time = {.tv_sec = (time_t)(us / 1000000), .tv_nsec = (long)(us % 1000000) * 1000};
  (void)nanosleep(&time, NULL);
}

/* One call, and as long a pause as it took. */
static enum status step(struct walk *walk, struct recalibration *work) {
  redisReply *reply = NULL;
  int64_t began_us = clock_monotonic_us(clock_system());
  enum status status = recalibration_encode(work, walk->call);
  if (status == STATUS_OK) status = redis_conn_call(walk->side.conn, work->partition, walk->call, &reply);
  if (status == STATUS_OK) status = recalibration_take(work, reply);
  freeReplyObject(reply);
  pause_for(clock_monotonic_us(clock_system()) - began_us);
  return status;
}

static enum cli_exit compare(struct walk *walk, const struct store_tenant *tenant, struct recalibration *work) {
  recalibration_begin(work, walk->side.target, tenant, 0, walk->side.partitions, walk->cli->config.outage_ms, walk->action);
  while (!work->end) {
    enum status status = step(walk, work);
    if (status != STATUS_OK) return redis_side_fail(&walk->side, status);
  }
  walk->compared++;
  return CLI_OK;
}

typedef void add_rows(struct table *table, const struct walk *walk, const struct recalibration *work);

static enum cli_exit compare_all(struct walk *walk, add_rows *add, struct table *table) {
  enum cli_exit code = CLI_OK;
  for (size_t i = 0; i < walk->tenants.count && code == CLI_OK; i++) {
    struct store_tenant tenant = tenant_list_at(&walk->tenants, i);
    struct recalibration work;
    if (walk->only != NULL && !str_equal(tenant.id, str_from(walk->only))) continue;
    code = compare(walk, &tenant, &work);
    if (code == CLI_OK) add(table, walk, &work);
  }
  if (code == CLI_OK && walk->only != NULL && walk->compared == 0) code = cli_fail("no such tenant");
  return code;
}

static enum cli_exit run(struct cli *cli, enum drift_action action, add_rows *add, bool with_rows, struct table *table,
                         enum table_shape shape) {
  struct walk walk = {.cli = cli, .action = action, .only = cli->words[0]};
  enum cli_exit code = redis_side_open(cli, &walk.side);
  if (code == CLI_OK && redis_call_new(&walk.call) != STATUS_OK) code = cli_fail("out of memory");
  if (code == CLI_OK) {
    enum status status = tenant_list_load(&walk.tenants, cli->pg);
    if (status != STATUS_OK) code = cli_fail("PostgreSQL: %s", pg_client_error(cli->pg));
  }
  if (code == CLI_OK) code = compare_all(&walk, add, table);
  if (code == CLI_OK && with_rows) code = audit_rows_run(cli, &walk.side, action == DRIFT_REPAIR, table);
  if (code == CLI_OK)
    code = cli_print_table(cli, table, shape);
  else
    table_free(table);
  tenant_list_free(&walk.tenants);
  redis_call_free(walk.call);
  redis_side_close(&walk.side);
  return code;
}

static void add_count(struct table *table, const struct walk *walk, const struct recalibration *work) {
  (void)walk;
  table_add(table, work->tenant.id);
  table_add_number(table, work->before);
  table_add_number(table, work->after);
  table_add_number(table, work->before - work->after);
  for (enum finding f = FINDING_COUNT + 1; f < FINDING_KIND_COUNT; f++) table_add_number(table, work->found[f]);
}

enum cli_exit recalibrate_run(struct cli *cli) {
  struct table table = {0};
  bool all = cli->words[0] == NULL;
  enum cli_exit code = all ? CLI_OK : cli_check_tenant_id(cli->words[0]);
  if (code != CLI_OK) return code;
  table_column(&table, "tenant", CELL_TEXT);
  table_column(&table, "before", CELL_NUMBER);
  table_column(&table, "after", CELL_NUMBER);
  table_column(&table, "drift", CELL_NUMBER);
  for (enum finding f = FINDING_COUNT + 1; f < FINDING_KIND_COUNT; f++) table_column(&table, finding_kind(f), CELL_NUMBER);
  return run(cli, DRIFT_REPAIR, add_count, false, &table, all ? TABLE_LIST : TABLE_OBJECT);
}

static void add_findings(struct table *table, const struct walk *walk, const struct recalibration *work) {
  for (enum finding f = 0; f < FINDING_KIND_COUNT; f++) {
    if (work->found[f] == 0) continue;
    table_add(table, work->tenant.id);
    table_add(table, str_from(finding_kind(f)));
    table_add_number(table, work->found[f]);
    table_add(table, walk->action == DRIFT_REPAIR ? STR_LIT("t") : STR_LIT("f"));
    table_add(table, str_from(finding_meaning(f)));
  }
}

enum cli_exit audit_run(struct cli *cli) {
  struct table table = {0};
  table_column(&table, "tenant", CELL_TEXT);
  table_column(&table, "kind", CELL_TEXT);
  table_column(&table, "found", CELL_NUMBER);
  table_column(&table, "repaired", CELL_BOOL);
  table_column(&table, "meaning", CELL_TEXT);
  return run(cli, cli->flags[CLI_FLAG_REPORT].given ? DRIFT_REPORT : DRIFT_REPAIR, add_findings, true, &table, TABLE_LIST);
}
