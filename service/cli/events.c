#include <inttypes.h>
#include <poll.h>
#include <stdio.h>

#include "cli.h"
#include "cloud_event.h"

enum { PAGE_ROWS = 500, POLL_MS = 250, NUMBER_TEXT_MAX = 24 };

/* For people: seq, time, what, which device, details. */
static enum status render_line(struct buf *out, const struct cloud_event *event) {
  enum status status = buf_printf(out, "%" PRId64 "  ", event->seq);
  if (status == STATUS_OK) status = rfc3339_append(out, event->occurred_ms);
  if (status == STATUS_OK) status = buf_printf(out, "  %.*s  ", STR_ARG(event->type));
  if (status == STATUS_OK) status = buf_append_json_string(out, event->device);
  if (status == STATUS_OK) status = buf_printf(out, "  %.*s", STR_ARG(event->data));
  return status;
}

static enum status read_event(const PGresult *result, int row, struct cloud_event *event) {
  struct str *const texts[] = {&event->id, &event->type, &event->tenant, &event->device, &event->data};
  for (int c = 0; c < (int)(sizeof texts / sizeof texts[0]); c++) {
    *texts[c] = (struct str){PQgetvalue(result, row, 2 + c), (size_t)PQgetlength(result, row, 2 + c)};
  }
  enum status status = str_to_int64(str_from(PQgetvalue(result, row, 0)), &event->seq);
  return status == STATUS_OK ? str_to_int64(str_from(PQgetvalue(result, row, 1)), &event->occurred_ms) : status;
}

/* Prints the rows after *after and moves it on; *rows = how many. */
static enum cli_exit print_page(struct cli *cli, int64_t *after, int *rows) {
  char after_text[NUMBER_TEXT_MAX];
  (void)snprintf(after_text, sizeof after_text, "%" PRId64, *after);
  const char *parameters[] = {cli->words[0], after_text};
  PGresult *result;
  enum cli_exit code = cli_query(cli,
                                 "SELECT seq, presence.to_ms(occurred_at), id, type, tenant, device, payload"
                                 " FROM presence.tenant_events($1, $2, 500)",
                                 2, parameters, &result);
  *rows = code == CLI_OK ? PQntuples(result) : 0;
  struct buf line = {0};
  for (int row = 0; row < *rows && code == CLI_OK; row++) {
    struct cloud_event event;
    buf_clear(&line);
    enum status status = read_event(result, row, &event);
    if (status == STATUS_OK) status = cli->json ? cloud_event_encode(&line, &event) : render_line(&line, &event);
    if (status == STATUS_OK) status = buf_append_str(&line, STR_LIT("\n"));
    if (status != STATUS_OK)
      code = cli_fail("%s", status_name(status));
    else if (fwrite(line.data, 1, line.len, stdout) != line.len)
      code = cli_fail("standard output cannot be written");
    else
      *after = event.seq;
  }
  if (code == CLI_OK && fflush(stdout) != 0) code = cli_fail("standard output cannot be written");
  buf_free(&line);
  PQclear(result);
  return code;
}

/* Where to begin without --after: ten events back. */
static enum cli_exit find_start(struct cli *cli, int64_t *after) {
  const char *parameters[] = {cli->words[0]};
  PGresult *result;
  enum cli_exit code = cli_query(
      cli,
      "SELECT coalesce(min(seq) - 1, (SELECT dropped_seq FROM presence.outbox_horizon)) FROM"
      " (SELECT seq FROM presence.outbox WHERE tenant BETWEEN $1 AND $1 ORDER BY tenant DESC, seq DESC LIMIT 10) AS newest",
      1, parameters, &result);
  if (code == CLI_OK && str_to_int64(str_from(PQgetvalue(result, 0, 0)), after) != STATUS_OK)
    code = cli_fail("no place to begin");
  PQclear(result);
  return code;
}

/* A tenant that was deleted may still have events. */
static enum cli_exit check_known(struct cli *cli) {
  const char *parameters[] = {cli->words[0]};
  PGresult *result;
  enum cli_exit code = cli_query(cli,
                                 "SELECT 1 WHERE EXISTS (SELECT FROM presence.tenant WHERE id = $1)"
                                 " OR EXISTS (SELECT FROM presence.outbox WHERE tenant = $1)",
                                 1, parameters, &result);
  if (code == CLI_OK && PQntuples(result) == 0) code = cli_fail("no such tenant");
  PQclear(result);
  return code;
}

enum cli_exit events_tail(struct cli *cli) {
  int64_t after;
  enum cli_exit code = cli_check_tenant_id(cli->words[0]);
  if (code == CLI_OK) code = cli_flag_number(cli, CLI_FLAG_AFTER, 0, INT64_MAX, 0, &after);
  if (code == CLI_OK) code = check_known(cli);
  if (code == CLI_OK && !cli->flags[CLI_FLAG_AFTER].given) code = find_start(cli, &after);
  while (code == CLI_OK) {
    int rows;
    code = print_page(cli, &after, &rows);
    if (code != CLI_OK || rows == PAGE_ROWS) continue;
    if (cli->flags[CLI_FLAG_NO_FOLLOW].given) break;
    (void)poll(NULL, 0, POLL_MS);
  }
  return code;
}
