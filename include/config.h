/* config.h: the options. service/options.def defines each once; flags, environment, file, --help and the README table follow. */
#ifndef PRESENCE_CONFIG_H
#define PRESENCE_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "log.h"
#include "status.h"
#include "str.h"

enum config_role { CONFIG_ROLE_API = 1, CONFIG_ROLE_WORKER = 2 };
enum config_switch { CONFIG_NO, CONFIG_YES };
enum config_redis_mode { CONFIG_REDIS_AUTO, CONFIG_REDIS_NATIVE, CONFIG_REDIS_HPEXPIRE, CONFIG_REDIS_COMPAT };

/* Every text is owned and never NULL. */
struct config {
  char *listen;         /* as given, e.g. "[::1]:8080"; config_split_listen takes it apart */
  char *redis_url;      /* may hold a password: never logged whole */
  char *redis_tls_ca;   /* "" = the system's authorities */
  char *redis_tls_cert; /* "" = none; both or neither */
  char *redis_tls_key;
  char *postgres_url; /* as redis_url */
  unsigned roles;     /* enum config_role bits, never 0 */
  int64_t threads;    /* API loops; 0 = one per core */
  char *env;          /* first word of every key, [a-z0-9_-]{1,32} */
  int64_t partitions;
  enum config_redis_mode redis_mode;
  int64_t outage_ms;
  int64_t settle_ms;
  int64_t recalibrate_ms;
  int64_t audit_ms;
  int64_t retention_days;
  int64_t forget_days; /* 0 = never */
  int64_t request_timeout_ms;
  int64_t drain_ms;
  char *cors_origin; /* "" = none */
  char *tls_cert;    /* "" = plain HTTP; both or neither */
  char *tls_key;
  int64_t idle_timeout_ms;
  int64_t max_connections;
  int64_t startup_wait_ms;
  int64_t backlog_cap; /* stream entries per partition over which new sessions are refused */
  int64_t webhook_timeout_ms;
  int64_t webhook_retry_min_ms, webhook_retry_max_ms; /* of the back-off */
  int64_t webhook_pause_after_ms;
  enum config_switch webhook_allow_private;
  char *webhook_ca; /* "" = the system's */
  enum log_level log_level;
  enum log_format log_format;
};

/* A flag of one program only (presencectl's --json), which is no option: not in the environment, not in the file. */
struct config_flag {
  const char *name; /* "max-devices" */
  bool takes_value;
  bool given;        /* set by config_load */
  const char *value; /* set by config_load, points into argv; the last one given wins; NULL while not given */
};

struct config_command_line {
  int argc;    /* in: main's. out: what is left, argv[0] and the words, in order */
  char **argv; /* "--" ends the flags: what follows is words, whatever it looks like */
  struct config_flag *flags;
  size_t flag_count;
  bool help, version; /* out: --help, --version; then neither file nor environment was read, *config has the defaults */
};

/* Defaults < file (--config or PRESENCE_CONFIG) < environment < flags, into *config, which the caller frees in any case. A
 * variable set to nothing counts as not set. STATUS_INVALID: *error is one clear line that names the option, its value (not a
 * secret one) and what is allowed (malloc'd, the caller frees). STATUS_NO_MEMORY: *error is NULL. */
enum status config_load(struct config *config, struct config_command_line *line, char **error) MUST_CHECK;
void config_free(struct config *config); /* leaves it zeroed */

/* "127.0.0.1:8080" or "[::1]:8080": the numeric address without brackets, inside listen, and the port. */
enum status config_split_listen(struct str listen, struct str *address, uint16_t *port) MUST_CHECK;

/* The options as --help shows them, and as a Markdown table for the README. */
enum status config_help(struct buf *out) MUST_CHECK;
enum status config_markdown(struct buf *out) MUST_CHECK;

#endif
