#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "device.h"
#include "devices/forget.h"
#include "outbox.h"
#include "redis_side.h"

/* Fills in what a device's place depends on. */
static enum cli_exit find_tenant(struct cli *cli, struct tenant *tenant) {
  const char *parameters[] = {cli->words[0]};
  PGresult *result;
  enum cli_exit code = cli_query(cli, "SELECT generation, buckets FROM presence.tenant WHERE id = $1", 1, parameters, &result);
  if (code == CLI_OK && PQntuples(result) == 0) code = cli_fail("no such tenant");
  int64_t buckets = 0;
  if (code == CLI_OK && (str_to_int64(str_from(PQgetvalue(result, 0, 0)), &tenant->generation) != STATUS_OK ||
                         str_to_int64(str_from(PQgetvalue(result, 0, 1)), &buckets) != STATUS_OK)) {
    code = cli_fail("presence.tenant holds no numbers");
  }
  tenant->id = str_from(cli->words[0]);
  tenant->buckets = (uint32_t)buckets;
  PQclear(result);
  return code;
}

static enum status ask_redis(struct redis_side *side, int64_t outage_ms, const struct tenant *tenant, struct str device,
                             struct store_device *answer) {
  struct store_tenant of = device_store_tenant(tenant);
  struct device_place place = device_place(tenant, device, side->partitions);
  struct read_item item = {.bucket = place.bucket, .device = device};
  redis_round_begin(&side->round); /* its replies live until the next round: the answer borrows from them */
  enum status status = store_read_encode(redis_round_call(&side->round), side->target, place.partition, outage_ms, &of, &item, 1);
  if (status != STATUS_OK) return status;
  redis_round_add(&side->round, place.partition);
  status = redis_round_send(&side->round, side->conn);
  int64_t now_ms;
  return status == STATUS_OK ? store_read_decode(side->round.replies[0], 1, &now_ms, answer) : status;
}

static void add_time(struct table *table, const char *name, int64_t time_ms) {
  table_column(table, name, CELL_TIME);
  if (time_ms == TIME_MS_LOST)
    table_add_null(table);
  else
    table_add_number(table, time_ms);
}

static enum cli_exit print_for_people(const struct cli *cli, const struct device_view *view) {
  static const char *const states[] = {[DEVICE_ONLINE] = "online", [DEVICE_OFFLINE] = "offline", [DEVICE_UNKNOWN] = "unknown"};
  char session[SESSION_ID_TEXT_MAX];
  session_id_format(view->session, session);
  struct table table = {0};
  table_column(&table, "device", CELL_TEXT);
  table_add(&table, view->device);
  table_column(&table, "state", CELL_TEXT);
  table_add(&table, str_from(states[view->state]));
  table_column(&table, "session", CELL_TEXT);
  table_add(&table, str_from(session));
  add_time(&table, "online_since_ms", view->online_since_ms);
  add_time(&table, "last_seen_ms", view->last_seen_ms);
  add_time(&table, "deadline_ms", view->last_seen_ms == TIME_MS_LOST ? TIME_MS_LOST : view->last_seen_ms + view->ttl_ms);
  table_column(&table, "ttl_ms", CELL_NUMBER);
  table_add_number(&table, view->ttl_ms);
  table_column(&table, "meta", CELL_JSON);
  if (view->meta.len > 0)
    table_add(&table, view->meta);
  else
    table_add_null(&table);
  if (view->state == DEVICE_OFFLINE) {
    add_time(&table, "offline_at_ms", view->offline_at_ms);
    table_column(&table, "reason", CELL_TEXT);
    const char *reason = transition_reason_name(view->reason);
    if (reason != NULL)
      table_add(&table, str_from(reason));
    else
      table_add_null(&table);
  }
  return cli_print_table(cli, &table, TABLE_OBJECT);
}

static enum cli_exit print_view(const struct cli *cli, const struct device_view *view) {
  if (!cli->json) return print_for_people(cli, view);
  struct buf out = {0};
  enum status status = device_encode(&out, view, STR_NONE);
  if (status == STATUS_OK) status = buf_append_str(&out, STR_LIT("\n"));
  enum cli_exit code = status == STATUS_OK ? CLI_OK : cli_fail("%s", status_name(status));
  if (code == CLI_OK && fwrite(out.data, 1, out.len, stdout) != out.len) code = cli_fail("standard output cannot be written");
  buf_free(&out);
  return code;
}

/* Redis first, the row after it; once more where they do not fit together yet. */
static enum cli_exit show(struct cli *cli, struct redis_side *side, const struct tenant *tenant) {
  struct str device = str_from(cli->words[1]);
  enum device_verdict verdict = DEVICE_READ_AGAIN;
  struct device_row row = {0};
  struct device_view view = {0};
  for (int attempt = 0; attempt < 2 && verdict == DEVICE_READ_AGAIN; attempt++) {
    struct store_device redis;
    enum status status = ask_redis(side, cli->config.outage_ms, tenant, device, &redis);
    if (status != STATUS_OK) {
      buf_free(&row.meta);
      return redis_side_fail(side, status);
    }
    if (device_needs_row(&redis) && attempt == 0) {
      status = outbox_device_rows(cli->pg, tenant->id, &device, 1, &row);
      if (status != STATUS_OK) return cli_fail_query(cli, status, NULL);
    }
    verdict = device_judge(device, &redis, &row, attempt > 0, &view);
  }
  enum cli_exit code =
      verdict == DEVICE_KNOWN ? print_view(cli, &view) : cli_fail("no heartbeat of this device was ever recorded");
  buf_free(&row.meta);
  return code;
}

/* Checks the words and opens the way to Redis. redis_side_close in any case. */
static enum cli_exit begin(struct cli *cli, struct tenant *tenant, struct redis_side *side) {
  *side = (struct redis_side){0};
  enum cli_exit code = cli_check_tenant_id(cli->words[0]);
  if (code != CLI_OK) return code;
  if (!device_id_valid(str_from(cli->words[1]))) {
    return cli_fail_usage("the device's id is not 1 to %d bytes of UTF-8 without control characters", DEVICE_ID_MAX);
  }
  code = find_tenant(cli, tenant);
  return code == CLI_OK ? redis_side_open(cli, side) : code;
}

enum cli_exit device_show(struct cli *cli) {
  struct tenant tenant = {0};
  struct redis_side side;
  enum cli_exit code = begin(cli, &tenant, &side);
  if (code == CLI_OK) code = show(cli, &side, &tenant);
  redis_side_close(&side);
  return code;
}

/* ---- device forget */

static enum status disconnect(struct redis_side *side, int64_t outage_ms, const struct tenant *tenant, struct str device,
                              struct forget *forget) {
  struct store_tenant of = device_store_tenant(tenant);
  struct device_place place = device_place(tenant, device, side->partitions);
  enum disconnect_code code = DISCONNECT_NOTHING_OPEN;
  struct session_id session = SESSION_ID_NONE;
  redis_round_begin(&side->round);
  enum status status = store_disconnect_encode(redis_round_call(&side->round), side->target, place.partition, outage_ms, &of,
                                               place.bucket, device, NULL);
  if (status != STATUS_OK) return status;
  redis_round_add(&side->round, place.partition);
  status = redis_round_send(&side->round, side->conn);
  if (status == STATUS_OK) status = store_disconnect_decode(side->round.replies[0], &code, &session);
  if (status == STATUS_OK && code == DISCONNECT_STALE) status = STATUS_STALE;
  if (status == STATUS_OK && code == DISCONNECT_CLOSED) forget_note_session(forget, session);
  return status;
}

static void pause_ms(int64_t ms) {
  struct timespec left = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000 * 1000000)};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

/* One look at Redis, and where nothing is left there at the row. */
static enum cli_exit forget_step(struct cli *cli, struct redis_side *side, const struct tenant *tenant, struct forget *forget,
                                 enum forget_step *step) {
  struct str device = str_from(cli->words[1]);
  struct store_device redis;
  enum status status = ask_redis(side, cli->config.outage_ms, tenant, device, &redis);
  if (status != STATUS_OK) return redis_side_fail(side, status);
  *step = forget_judge_redis(forget, &redis);
  if (*step != FORGET_READ_ROW) return CLI_OK;
  enum forget_outcome outcome;
  status = outbox_forget_device(cli->pg, tenant->id, device, forget->has_session ? &forget->session : NULL, &outcome);
  if (status != STATUS_OK) return cli_fail_query(cli, status, NULL);
  *step = forget_judge_row(forget, outcome);
  return CLI_OK;
}

static enum cli_exit forget_device(struct cli *cli, struct redis_side *side, const struct tenant *tenant) {
  struct forget forget = {0};
  enum status status = disconnect(side, cli->config.outage_ms, tenant, str_from(cli->words[1]), &forget);
  if (status != STATUS_OK) return redis_side_fail(side, status);
  for (int64_t waited_ms = 0; waited_ms < FORGET_WAIT_MS; waited_ms += FORGET_PAUSE_MS) {
    enum forget_step step = FORGET_LOOK_AGAIN;
    enum cli_exit code = forget_step(cli, side, tenant, &forget, &step);
    if (code != CLI_OK || step == FORGET_GONE) return code;
    if (step == FORGET_NEVER_SEEN) return cli_fail("no heartbeat of this device was ever recorded");
    pause_ms(FORGET_PAUSE_MS);
  }
  return cli_fail("the session is closed, but its end has not reached PostgreSQL yet; repeat, so that the device is removed");
}

enum cli_exit device_forget(struct cli *cli) {
  struct tenant tenant = {0};
  struct redis_side side;
  enum cli_exit code = begin(cli, &tenant, &side);
  if (code == CLI_OK) code = forget_device(cli, &side, &tenant);
  redis_side_close(&side);
  return code;
}
