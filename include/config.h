/* config.h: the options. service/options.def defines each once; flags, environment, file, --help and the README table follow. */
#ifndef PRESENCE_CONFIG_H
#define PRESENCE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "status.h"
#include "str.h"

/* options.def lines: OPTION(field, "name", TYPE, "default", min, max, "unit", "help", flags)
 *   field: member of struct config; name: "outage-ms" gives --outage-ms, PRESENCE_OUTAGE_MS and the file key outage_ms
 *   (dashes and underscores alike); TYPE: INT (int64_t, decimal, min..max), TEXT (char *, owned), ROLES, ENUM… as options.c
 * needs. */
enum config_role { CONFIG_ROLE_API = 1, CONFIG_ROLE_WORKER = 2 };
enum config_redis_mode { CONFIG_REDIS_AUTO, CONFIG_REDIS_NATIVE, CONFIG_REDIS_HPEXPIRE, CONFIG_REDIS_COMPAT };

struct config {
  char *listen;       /* address:port as given */
  char *redis_url;    /* may hold a password: never logged whole */
  char *postgres_url; /* likewise */
  unsigned roles;     /* enum config_role bits */
  int64_t threads;    /* API loops; 0 = one per core */
  char *env;          /* first word of every key, [a-z0-9_-]+ */
  int64_t partitions;
  enum config_redis_mode redis_mode;
  int64_t outage_ms;
  int64_t settle_ms;
  int64_t recalibrate_ms;
  int64_t retention_days;
  int64_t forget_days; /* 0 = never */
  int64_t request_timeout_ms;
  int64_t drain_ms;
  char *cors_origin; /* "" = none */
  char *tls_cert;    /* "" = plain HTTP */
  char *tls_key;
  int64_t idle_timeout_ms;
  int64_t max_connections;
  int64_t startup_wait_ms;
  char *log_level;
  char *log_format;
  int64_t backlog_cap; /* stream entries per partition over which new sessions are refused */
};

/* Reads file < environment < flags into *config. argv[0] is skipped; what is no option is left in order in argv[1..*rest)
 * (presencectl's words). On an error *error is one clear line (malloc'd, the caller frees) and STATUS_INVALID returns.
 * --help and --version are not handled here: *help, *version are set. */
enum status config_load(struct config *config, int *argc, char **argv, bool *help, bool *version, char **error) MUST_CHECK;
void config_free(struct config *config);
/* The table of options for --help. */
enum status config_help(struct buf *out) MUST_CHECK;

#endif
