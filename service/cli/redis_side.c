#include "redis_side.h"

#include <stdlib.h>

#define CALL_TIMEOUT_MS 3000

/* Leaves the option's number where PostgreSQL does not answer or has none yet. */
static void use_recorded_partitions(struct cli *cli) {
  PGresult *result;
  enum status status = pg_client_exec(cli->pg, "SELECT partitions FROM presence.deployment", 0, NULL, &result);
  int64_t recorded;
  if (status == STATUS_OK && PQntuples(result) == 1 && str_to_int64(str_from(PQgetvalue(result, 0, 0)), &recorded) == STATUS_OK) {
    cli->config.partitions = recorded;
  }
  PQclear(result);
}

enum cli_exit redis_side_open(struct cli *cli, struct redis_side *side) {
  *side = (struct redis_side){0};
  use_recorded_partitions(cli);
  char *error = NULL;
  enum status status = redis_target_new(&cli->config, &side->target, &error);
  if (status == STATUS_INVALID) {
    enum cli_exit code = cli_fail_usage("%s", error != NULL ? error : "redis-url is no address of a Redis");
    free(error);
    return code;
  }
  if (status == STATUS_OK) {
    side->partitions = redis_target_partitions(side->target);
    status = redis_conn_new(side->target, clock_system(), CALL_TIMEOUT_MS, &side->conn);
  }
  if (status == STATUS_OK) status = redis_round_init(&side->round, side->partitions);
  return status == STATUS_OK ? CLI_OK : cli_fail("%s", error != NULL ? error : status_name(status));
}

void redis_side_close(struct redis_side *side) {
  redis_round_free(&side->round);
  redis_conn_free(side->conn);
  redis_target_free(side->target);
}

enum cli_exit redis_side_fail(const struct redis_side *side, enum status status) {
  if (status == STATUS_INITIALISING) return cli_fail("Redis is initialising: no worker has adopted this server yet");
  if (status == STATUS_STALE) return cli_fail("the tenant's settings have just changed: try again");
  const char *error = redis_conn_error(side->conn);
  return cli_fail("Redis: %s", error[0] != '\0' ? error : status_name(status));
}

enum status redis_side_ask_all(struct redis_side *side, redis_side_encode *encode) {
  redis_round_begin(&side->round);
  for (uint32_t partition = 0; partition < side->partitions; partition++) {
    enum status status = encode(redis_round_call(&side->round), side->target, partition);
    if (status != STATUS_OK) return status;
    redis_round_add(&side->round, partition);
  }
  return redis_round_send(&side->round, side->conn);
}
