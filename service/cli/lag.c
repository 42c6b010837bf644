#include "lag.h"

#include <stdio.h>
#include <stdlib.h>

static enum status encode_head(struct redis_call *call, const struct redis_target *target, uint32_t partition) {
  return store_stream_encode(call, target, partition, 1);
}

static enum status read_head(const redisReply *reply, struct partition_lag *lag) {
  struct stream_head head;
  struct stream_entry oldest;
  size_t count = 1;
  enum status status = store_stream_decode(reply, &head, &oldest, &count);
  if (status != STATUS_OK) return status;
  /* An id's time runs ahead of the clock after a step back; a transition says when it was written. */
  int64_t written_ms = head.now_ms;
  if (count > 0) written_ms = oldest.kind == STREAM_TRANSITION ? oldest.transition.detected_at_ms : oldest.id.ms;
  *lag = (struct partition_lag){.backlog = head.backlog, .age_ms = head.now_ms > written_ms ? head.now_ms - written_ms : 0};
  return STATUS_OK;
}

enum status lag_read(struct redis_side *side, struct partition_lag *lags) {
  enum status status = redis_side_ask_all(side, encode_head);
  for (uint32_t p = 0; p < side->partitions && status == STATUS_OK; p++) status = read_head(side->round.replies[p], &lags[p]);
  return status;
}

/* lags NULL: Redis did not say. */
static enum status render_partitions(struct cli *cli, const struct redis_side *side, const struct partition_lag *lags,
                                     struct buf *out) {
  if (lags == NULL) return cli->json ? buf_append_str(out, STR_LIT("null")) : STATUS_OK;
  struct table table = {0};
  table_column(&table, "partition", CELL_NUMBER);
  table_column(&table, "unpublished", CELL_NUMBER);
  table_column(&table, "oldest_age_ms", CELL_NUMBER);
  for (uint32_t p = 0; p < side->partitions; p++) {
    table_add_number(&table, p);
    table_add_number(&table, lags[p].backlog);
    table_add_number(&table, lags[p].age_ms);
  }
  enum status status = table_render(&table, TABLE_LIST, cli->json, out);
  table_free(&table);
  return status;
}

/* consumers NULL: PostgreSQL did not say. */
static enum status render_consumers(struct cli *cli, const PGresult *consumers, struct buf *out) {
  if (consumers == NULL) return cli->json ? buf_append_str(out, STR_LIT("null")) : STATUS_OK;
  struct table table = {0};
  table_add_result(&table, consumers);
  enum status status = table_render(&table, TABLE_LIST, cli->json, out);
  table_free(&table);
  return status;
}

/* Two tables, or one object with both lists. */
static enum cli_exit print_lag(struct cli *cli, const struct redis_side *side, const struct partition_lag *lags,
                               const PGresult *consumers) {
  struct buf out = {0};
  enum status status = cli->json ? buf_append_str(&out, STR_LIT("{\"partitions\":")) : STATUS_OK;
  if (status == STATUS_OK) status = render_partitions(cli, side, lags, &out);
  if (status == STATUS_OK && cli->json) status = buf_append_str(&out, STR_LIT(",\"consumers\":"));
  if (status == STATUS_OK && !cli->json && lags != NULL && consumers != NULL) status = buf_append_str(&out, STR_LIT("\n"));
  if (status == STATUS_OK) status = render_consumers(cli, consumers, &out);
  if (status == STATUS_OK && cli->json) status = buf_append_str(&out, STR_LIT("}\n"));
  enum cli_exit code = status == STATUS_OK ? CLI_OK : cli_fail("%s", status_name(status));
  if (code == CLI_OK && fwrite(out.data, 1, out.len, stdout) != out.len) code = cli_fail("standard output cannot be written");
  buf_free(&out);
  return code;
}

/* NULL where Redis did not say; then it has said why on stderr. The caller frees. */
static struct partition_lag *ask_redis(struct redis_side *side) {
  struct partition_lag *lags = calloc(side->partitions, sizeof *lags);
  enum status status = lags == NULL ? STATUS_NO_MEMORY : lag_read(side, lags);
  if (status == STATUS_OK) return lags;
  (void)redis_side_fail(side, status);
  free(lags);
  return NULL;
}

/* One server is enough for its half of the answer: it is asked for most when the other one is away. */
enum cli_exit lag_show(struct cli *cli) {
  struct redis_side side;
  enum cli_exit code = redis_side_open(cli, &side);
  if (code == CLI_OK) {
    PGresult *consumers;
    bool postgres_said = cli_query(cli,
                                   "SELECT kind, name, position, behind, presence.to_ms(unread_since) AS unread_since_ms, lost"
                                   " FROM presence.reader ORDER BY kind, name",
                                   0, NULL, &consumers) == CLI_OK;
    struct partition_lag *lags = ask_redis(&side);
    code = print_lag(cli, &side, lags, postgres_said ? consumers : NULL);
    if (code == CLI_OK && (!postgres_said || lags == NULL)) code = CLI_FAILED;
    free(lags);
    PQclear(consumers);
  }
  redis_side_close(&side);
  return code;
}
