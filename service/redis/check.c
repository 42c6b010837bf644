/* check.c: what each server must and should be like, asked once at start. Managed services may forbid CONFIG: then that is said
 * and the service runs. */
#include <stdio.h>
#include <stdlib.h>

#include "conn.h"
#include "log.h"
#include "metrics.h"
#include "reply.h"

/* Releases, half-open: from <= version < fixed; README.md has the sources. Distributions patch without changing the number, so
 * these are warnings. */
static const struct {
  bool valkey;
  int from[3], fixed[3];
  const char *fault;
} known_faults[] = {
    {false, {0, 0, 0}, {6, 2, 20}, "CVE-2025-49844: use after free in Lua"},
    {false, {7, 0, 0}, {7, 2, 11}, "CVE-2025-49844: use after free in Lua"},
    {false, {7, 4, 0}, {7, 4, 6}, "CVE-2025-49844: use after free in Lua"},
    {false, {8, 0, 0}, {8, 0, 4}, "CVE-2025-49844: use after free in Lua"},
    {false, {8, 2, 0}, {8, 2, 2}, "CVE-2025-49844: use after free in Lua"},
    {true, {8, 1, 0}, {8, 1, 4}, "CVE-2025-49844: use after free in Lua"},
    {true, {9, 0, 0}, {9, 0, 2}, "active expiry of hash fields can abort the server (valkey-io/valkey#3003)"},
    {true, {9, 0, 0}, {9, 0, 5}, "active expiry in hashes of over 127 fields can abort the server (valkey-io/valkey#3950)"},
    {true, {9, 1, 0}, {9, 1, 1}, "active expiry in hashes of over 127 fields can abort the server (valkey-io/valkey#3950)"},
};

/* Compact encodings hold values and ids up to this length, and buckets up to this size. */
enum { LISTPACK_VALUE_MIN = 128, LISTPACK_ENTRIES_MIN = 128 };

struct server {
  struct wire *wire;
  const char *address;
};

/* The value of `CONFIG GET name` as malloc'd text; NULL where there is none or it may not be asked. */
static char *get_config(struct wire *wire, const char *name) {
  redisReply *reply = redisCommand(wire->context, "CONFIG GET %s", name);
  const redisReply *value = reply ? reply_at(reply, 1, REDIS_REPLY_STRING) : NULL;
  char *copy = value ? strndup(value->str, value->len) : NULL;
  if (reply) freeReplyObject(reply);
  return copy;
}

static void warn(const struct server *server, const char *check, const char *found, const char *advice) {
  metric_add(metrics_series(METRIC_REDIS_FINDINGS, check), 1);
  log_warn("redis_check", LOG_STR("check", check), LOG_STR("found", found), LOG_STR("advice", advice),
           LOG_STR("address", server->address));
}

static enum status check_policy(const struct server *server, char **message) {
  char *policy = get_config(server->wire, "maxmemory-policy");
  enum status status = STATUS_OK;
  if (!policy) {
    warn(server, "maxmemory-policy", "CONFIG GET is not allowed", "make sure that it is noeviction: an evicted key loses events");
  } else if (strcmp(policy, "noeviction") != 0) {
    status = STATUS_REFUSED;
    if (asprintf(message, "Redis at %s has maxmemory-policy %s; it must be noeviction, since an evicted key loses events",
                 server->address, policy) < 0) {
      *message = NULL;
    }
  }
  free(policy);
  return status;
}

/* *loses: what it means where a server keeps too little. */
static void check_persistence(const struct server *server, const char **loses) {
  char *append_only = get_config(server->wire, "appendonly"), *save = get_config(server->wire, "save");
  if (append_only && save && strcmp(append_only, "yes") != 0) {
    *loses = *save ? "a crash loses the heartbeats and sessions since the last snapshot; appendonly yes loses at most a second"
                   : "a restart loses all open sessions until devices are heard again; set appendonly yes";
    warn(server, "persistence", *save ? "snapshots only" : "none", *loses);
  }
  free(append_only);
  free(save);
}

static void check_encoding(const struct server *server) {
  static const struct {
    const char *name, *old_name; /* before Redis 7 */
    int64_t least;
  } limits[] = {
      {"hash-max-listpack-value", "hash-max-ziplist-value", LISTPACK_VALUE_MIN},
      {"hash-max-listpack-entries", "hash-max-ziplist-entries", LISTPACK_ENTRIES_MIN},
      {"zset-max-listpack-value", "zset-max-ziplist-value", LISTPACK_VALUE_MIN},
      {"zset-max-listpack-entries", "zset-max-ziplist-entries", LISTPACK_ENTRIES_MIN},
  };
  for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++) {
    char *text = get_config(server->wire, limits[i].name);
    if (!text) text = get_config(server->wire, limits[i].old_name);
    int64_t value;
    if (text && !str_to_int64(str_from(text), &value) && value < limits[i].least) {
      warn(server, limits[i].name, text,
           "set it to 128: longer ids or fuller buckets leave the compact encoding and cost three times the memory");
    }
    free(text);
  }
}

/* "8.0.2" */
static bool parse_version(const char *text, int version[3]) {
  for (int i = 0; i < 3; i++) {
    char *end;
    long number = strtol(text, &end, 10);
    if (end == text || number < 0 || number > 9999 || (i < 2 && *end != '.')) return false;
    version[i] = (int)number;
    text = end + 1;
  }
  return true;
}

static bool version_less(const int a[3], const int b[3]) {
  for (int i = 0; i < 3; i++) {
    if (a[i] != b[i]) return a[i] < b[i];
  }
  return false;
}

static void check_version(const struct server *server) {
  redisReply *reply = redisCommand(server->wire->context, "INFO server");
  if (!reply || reply->type != REDIS_REPLY_STRING) goto out;
  const char *valkey = strstr(reply->str, "valkey_version:"), *redis = strstr(reply->str, "redis_version:");
  const char *at = valkey ? valkey + strlen("valkey_version:") : redis ? redis + strlen("redis_version:") : NULL;
  int version[3];
  if (!at || !parse_version(at, version)) goto out;
  for (size_t i = 0; i < sizeof known_faults / sizeof known_faults[0]; i++) {
    if (known_faults[i].valkey != (valkey != NULL)) continue;
    if (version_less(version, known_faults[i].from) || !version_less(version, known_faults[i].fixed)) continue;
    char text[64], advice[64];
    snprintf(text, sizeof text, "%s %d.%d.%d", valkey ? "Valkey" : "Redis", version[0], version[1], version[2]);
    snprintf(advice, sizeof advice, "fixed in %d.%d.%d, or by your distribution", known_faults[i].fixed[0],
             known_faults[i].fixed[1], known_faults[i].fixed[2]);
    metric_add(metrics_series(METRIC_REDIS_FINDINGS, "version"), 1);
    log_warn("redis_check", LOG_STR("check", "version"), LOG_STR("found", text), LOG_STR("fault", known_faults[i].fault),
             LOG_STR("advice", advice), LOG_STR("address", server->address));
  }
out:
  if (reply) freeReplyObject(reply);
}

/* A cluster that stops altogether where a slot has nobody makes one lost node everybody's outage. */
static void check_coverage(const struct server *server) {
  char *coverage = get_config(server->wire, "cluster-require-full-coverage");
  if (coverage && strcmp(coverage, "yes") == 0) {
    warn(server, "cluster-require-full-coverage", coverage, "set it to no: else a node that is lost stops all others, too");
  }
  free(coverage);
}

static enum status check_server(const struct server *server, bool cluster, const char **loses, char **message) {
  enum status status = check_policy(server, message);
  if (status) return status;
  check_persistence(server, loses);
  check_encoding(server);
  check_version(server);
  if (cluster) check_coverage(server);
  return server->wire->context->err ? STATUS_CLOSED : STATUS_OK;
}

enum status redis_conn_check_servers(struct redis_conn *conn, const char **loses, char **message) {
  const struct redis_target *target = conn_target(conn);
  enum status worst = STATUS_OK;
  *loses = NULL;
  *message = NULL;
  for (uint32_t p = 0; p < target->partitions && worst != STATUS_REFUSED; p++) {
    struct server server;
    if (!redis_conn_leads(conn, p)) continue;
    enum status status = conn_wire(conn, p, &server.wire, &server.address); /* a replica is refused here */
    if (!status) status = check_server(&server, target->kind == TARGET_CLUSTER, loses, message);
    if (status) worst = status;
  }
  return worst;
}
