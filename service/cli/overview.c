/* presencectl status: both servers at one look. What does not answer is said in the answer, and by the exit code. */
#include <stdlib.h>

#include "lag.h"
#include "version.h"

struct redis_overview {
  const char *state; /* "up", "initialising", "degraded" (some servers of several), "down" */
  const char *mode;
  struct buf servers; /* "127.0.0.1:7001, 127.0.0.1:7002 (down)" */
  int64_t unpublished, oldest_age_ms;
  bool served_known;
  int64_t served; /* partitions that a worker has leased */
};

static void look_at_leases(struct redis_side *side, struct redis_overview *overview) {
  enum status status = redis_side_ask_all(side, store_served_encode);
  for (uint32_t p = 0; p < side->partitions && status == STATUS_OK; p++) {
    bool served = false;
    status = store_served_decode(side->round.replies[p], &served);
    overview->served += served;
  }
  overview->served_known = status == STATUS_OK;
}

/* Lists the servers; how many of them answered for all their partitions. */
static size_t list_servers(struct redis_side *side, struct buf *out, size_t *count) {
  size_t up = 0;
  *count = 0;
  for (uint32_t p = 0; p < side->partitions; p++) {
    if (!redis_conn_leads(side->conn, p)) continue;
    enum status worst = STATUS_OK;
    for (size_t i = 0; i < side->round.count; i++) {
      bool same = redis_conn_same_server(side->conn, p, side->round.partitions[i]);
      if (same && side->round.statuses[i] != STATUS_OK) worst = side->round.statuses[i];
    }
    const char *server = redis_conn_server(side->conn, p);
    const char *note = worst == STATUS_OK ? "" : worst == STATUS_INITIALISING ? " (initialising)" : " (down)";
    if (buf_printf(out, "%s%s%s", *count > 0 ? ", " : "", server != NULL ? server : "nobody", note) != STATUS_OK) buf_clear(out);
    (*count)++;
    up += worst == STATUS_OK;
  }
  return up;
}

static struct redis_overview look_at_redis(struct redis_side *side) {
  struct redis_overview overview = {.state = "down"};
  struct partition_lag *lags = calloc(side->partitions, sizeof *lags);
  enum status status = lags == NULL ? STATUS_NO_MEMORY : lag_read(side, lags);
  if (status == STATUS_OK) {
    overview.state = "up";
    overview.mode = redis_dialect_name(redis_conn_dialect(side->conn));
    for (uint32_t p = 0; p < side->partitions; p++) {
      overview.unpublished += lags[p].backlog;
      if (lags[p].age_ms > overview.oldest_age_ms) overview.oldest_age_ms = lags[p].age_ms;
    }
  } else if (status == STATUS_INITIALISING) {
    overview.state = "initialising";
  } else {
    (void)redis_side_fail(side, status);
  }
  size_t servers, up = list_servers(side, &overview.servers, &servers);
  if (status != STATUS_OK && up > 0) overview.state = "degraded";
  free(lags);
  if (strcmp(overview.state, "down") != 0) look_at_leases(side, &overview);
  return overview;
}

static void add_text(struct table *table, const char *name, const char *text) {
  table_column(table, name, CELL_TEXT);
  if (text == NULL)
    table_add_null(table);
  else
    table_add(table, str_from(text));
}

/* `known`: false prints null. */
static void add_number(struct table *table, const char *name, bool known, int64_t number) {
  table_column(table, name, CELL_NUMBER);
  if (known)
    table_add_number(table, number);
  else
    table_add_null(table);
}

/* The columns of the statement after what has been added so far; all null where there is no row. */
static void add_row(struct table *table, const PGresult *result) {
  static const char *const names[] = {"schema_version", "tenants", "known_devices", "newest_seq", "oldest_seq", "rejected"};
  for (int c = 0; c < (int)(sizeof names / sizeof names[0]); c++) {
    table_column(table, names[c], CELL_NUMBER);
    if (result == NULL || PQgetisnull(result, 0, c))
      table_add_null(table);
    else
      table_add(table, str_from(PQgetvalue(result, 0, c)));
  }
}

enum cli_exit status_show(struct cli *cli) {
  struct redis_side side;
  enum cli_exit code = redis_side_open(cli, &side);
  if (code == CLI_OK) {
    PGresult *row;
    bool postgres_up = cli_query(cli, "SELECT * FROM presence.overview", 0, NULL, &row) == CLI_OK;
    struct redis_overview redis = look_at_redis(&side);
    bool redis_up = strcmp(redis.state, "up") == 0;
    struct table table = {0};
    add_text(&table, "version", PRESENCE_VERSION);
    add_text(&table, "redis", redis.state);
    add_text(&table, "redis_mode", redis.mode);
    table_column(&table, "redis_servers", CELL_TEXT);
    table_add(&table, buf_str(&redis.servers));
    add_number(&table, "partitions", true, side.partitions);
    add_number(&table, "served_partitions", redis.served_known, redis.served);
    add_number(&table, "unpublished", redis_up, redis.unpublished);
    add_number(&table, "oldest_unpublished_age_ms", redis_up, redis.oldest_age_ms);
    add_text(&table, "postgres", postgres_up ? "up" : pg_client_is_up(cli->pg) ? "not migrated" : "down");
    add_row(&table, postgres_up ? row : NULL);
    code = cli_print_table(cli, &table, TABLE_OBJECT);
    PQclear(row);
    buf_free(&redis.servers);
    if (code == CLI_OK && !(postgres_up && redis_up)) code = CLI_FAILED;
  }
  redis_side_close(&side);
  return code;
}
