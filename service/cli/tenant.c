#include <inttypes.h>
#include <stdio.h>

#include "cli.h"
#include "store.h"

#define DEVICES_PER_BUCKET 32 /* what a full bucket holds: Redis's compact encoding is smallest and fastest there */
#define ABSENT INT64_C(-1)

#define TENANT_SQL                                                                                                               \
  "SELECT id, generation, default_ttl_ms, min_ttl_ms, max_ttl_ms, max_devices, buckets, heartbeats_per_second, known, deleting"  \
  " FROM presence.directory_tenant"

struct settings {
  int64_t default_ttl_ms, min_ttl_ms, max_ttl_ms, max_devices, buckets, heartbeats_per_second; /* ABSENT: not given */
};

static enum cli_exit read_settings(const struct cli *cli, struct settings *settings) {
  const struct {
    enum cli_flag flag;
    int64_t least, most;
    int64_t *value;
  } fields[] = {
      {CLI_FLAG_DEFAULT_TTL_MS, TTL_MIN_MS, TTL_MAX_MS, &settings->default_ttl_ms},
      {CLI_FLAG_MIN_TTL_MS, TTL_MIN_MS, TTL_MAX_MS, &settings->min_ttl_ms},
      {CLI_FLAG_MAX_TTL_MS, TTL_MIN_MS, TTL_MAX_MS, &settings->max_ttl_ms},
      {CLI_FLAG_MAX_DEVICES, 1, INT64_MAX / DEVICES_PER_BUCKET, &settings->max_devices},
      {CLI_FLAG_BUCKETS, 1, INT32_MAX, &settings->buckets},
      {CLI_FLAG_HEARTBEATS_PER_SECOND, 0, INT64_MAX, &settings->heartbeats_per_second},
  };
  enum cli_exit code = CLI_OK;
  for (size_t i = 0; i < sizeof fields / sizeof fields[0] && code == CLI_OK; i++) {
    code = cli_flag_number(cli, fields[i].flag, fields[i].least, fields[i].most, ABSENT, fields[i].value);
  }
  return code;
}

/* The deployment's partitions: the recorded number, or before the first start the option's. */
static enum cli_exit find_partitions(struct cli *cli, int64_t *partitions) {
  *partitions = cli->config.partitions;
  PGresult *result;
  enum cli_exit code = cli_query(cli, "SELECT partitions FROM presence.deployment", 0, NULL, &result);
  if (code == CLI_OK && PQntuples(result) == 1 && str_to_int64(str_from(PQgetvalue(result, 0, 0)), partitions) != STATUS_OK) {
    code = cli_fail("presence.deployment holds no number of partitions");
  }
  PQclear(result);
  return code;
}

static enum cli_exit choose_buckets(struct cli *cli, struct settings *settings) {
  int64_t partitions;
  enum cli_exit code = find_partitions(cli, &partitions);
  if (code != CLI_OK) return code;
  bool given = settings->buckets != ABSENT;
  if (!given) settings->buckets = (settings->max_devices + DEVICES_PER_BUCKET - 1) / DEVICES_PER_BUCKET;
  int64_t most = STORE_BUCKETS_MAX * partitions;
  if (settings->buckets <= most) return CLI_OK;
  if (given)
    return cli_fail_usage("--buckets = %" PRId64 ": not allowed with %" PRId64 " partitions; allowed: 1 to %" PRId64,
                          settings->buckets, partitions, most);
  return cli_fail_usage("--max-devices = %" PRId64 " needs %" PRId64 " buckets, %" PRId64 " partitions allow %" PRId64
                        ": choose --buckets (fuller ones are slower) or a deployment with more partitions",
                        settings->max_devices, settings->buckets, partitions, most);
}

/* Says what was wrong with an INSERT or UPDATE. */
static enum cli_exit fail_write(struct cli *cli, enum status status, const PGresult *result) {
  const char *sqlstate = status == STATUS_REFUSED ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : "";
  if (strcmp(sqlstate, "23505") == 0) return cli_fail("tenant %s exists already", cli->words[0]);
  if (strcmp(sqlstate, "23514") == 0) return cli_fail_usage("min-ttl-ms <= default-ttl-ms <= max-ttl-ms must hold");
  return cli_fail_query(cli, status, result);
}

enum { NUMBER_TEXT_MAX = 24 };

/* number as text for a parameter; NULL where it was not given. */
static const char *parameter(int64_t number, char text[NUMBER_TEXT_MAX]) {
  if (number == ABSENT) return NULL;
  (void)snprintf(text, NUMBER_TEXT_MAX, "%" PRId64, number);
  return text;
}

/* Runs a statement whose parameters are the id and the settings in the order of the struct, and shows the tenant. */
static enum cli_exit write_tenant(struct cli *cli, const char *sql, const struct settings *settings) {
  char texts[6][NUMBER_TEXT_MAX];
  const char *parameters[] = {cli->words[0],
                              parameter(settings->default_ttl_ms, texts[0]),
                              parameter(settings->min_ttl_ms, texts[1]),
                              parameter(settings->max_ttl_ms, texts[2]),
                              parameter(settings->max_devices, texts[3]),
                              parameter(settings->heartbeats_per_second, texts[4]),
                              parameter(settings->buckets, texts[5])};
  PGresult *result;
  enum status status = pg_client_exec(cli->pg, sql, 7, parameters, &result);
  enum cli_exit code = status == STATUS_OK ? CLI_OK : fail_write(cli, status, result);
  PQclear(result);
  return code == CLI_OK ? tenant_show(cli) : code;
}

enum cli_exit tenant_create(struct cli *cli) {
  struct settings settings;
  enum cli_exit code = cli_check_tenant_id(cli->words[0]);
  if (code == CLI_OK) code = read_settings(cli, &settings);
  if (code != CLI_OK) return code;
  if (settings.default_ttl_ms == ABSENT) settings.default_ttl_ms = 90000;
  if (settings.min_ttl_ms == ABSENT) settings.min_ttl_ms = 1000;
  if (settings.max_ttl_ms == ABSENT) settings.max_ttl_ms = TTL_MAX_MS;
  if (settings.max_devices == ABSENT) settings.max_devices = 10000;
  if (settings.heartbeats_per_second == ABSENT) settings.heartbeats_per_second = 0;
  code = choose_buckets(cli, &settings);
  if (code != CLI_OK) return code;
  return write_tenant(cli,
                      "INSERT INTO presence.tenant (id, default_ttl_ms, min_ttl_ms, max_ttl_ms, max_devices,"
                      " heartbeats_per_second, buckets) VALUES ($1, $2, $3, $4, $5, $6, $7)",
                      &settings);
}

enum cli_exit tenant_set(struct cli *cli) {
  struct settings settings;
  enum cli_exit code = cli_check_tenant_id(cli->words[0]);
  if (code == CLI_OK) code = read_settings(cli, &settings);
  if (code != CLI_OK) return code;
  if (settings.buckets != ABSENT) return cli_fail_usage("buckets cannot be set later: every device's place depends on them");
  /* $7 has no use here, but the order is that of write_tenant; a statement must name all its parameters. */
  return write_tenant(
      cli,
      "UPDATE presence.tenant SET default_ttl_ms = coalesce($2, default_ttl_ms), min_ttl_ms = coalesce($3, min_ttl_ms),"
      " max_ttl_ms = coalesce($4, max_ttl_ms), max_devices = coalesce($5, max_devices),"
      " heartbeats_per_second = coalesce($6, heartbeats_per_second), buckets = coalesce($7, buckets) WHERE id = $1",
      &settings);
}

enum cli_exit tenant_list(struct cli *cli) { return cli_print_query(cli, TABLE_LIST, NULL, TENANT_SQL " ORDER BY id", 0, NULL); }

enum cli_exit tenant_show(struct cli *cli) {
  enum cli_exit code = cli_check_tenant_id(cli->words[0]);
  if (code != CLI_OK) return code;
  const char *parameters[] = {cli->words[0]};
  return cli_print_query(cli, TABLE_OBJECT, "no such tenant", TENANT_SQL " WHERE id = $1", 1, parameters);
}
