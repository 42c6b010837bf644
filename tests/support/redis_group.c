#include "support/test.h"

#include "support/redis_group.h"
#include "support/scratch.h"
#include "support/world.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Below the ports that the kernel gives out by itself, those of the cluster bus (10000 above) too. */
enum { PORT_FIRST = 15000, PORT_COUNT = 7000, BUS_ABOVE = 10000 };

static bool is_free(int port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int on = 1;
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  assert_true(fd >= 0);
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  bool bound = bind(fd, (const struct sockaddr *)&address, sizeof address) == 0;
  close(fd);
  return bound;
}

/* Programs that run at the same time begin far from each other. */
static int take_port(void) {
  static int next;
  for (int tries = 0; tries < PORT_COUNT; tries++) {
    int port = PORT_FIRST + (int)(((unsigned)getpid() * 37u + (unsigned)next++) % PORT_COUNT);
    if (is_free(port) && is_free(port + BUS_ABOVE)) return port;
  }
  fail_msg("no free port");
  return 0;
}

/* ---- security */

/* The test's own user, everywhere, and what the shipped files of users say: names and passwords. */
#define TEST_LOGIN "test test"
#define SERVICE_USER "presence"
#define SERVICE_PASSWORD "change-this-password"
#define REPLICA_USER "presence-replica"
#define REPLICA_PASSWORD "change-this-password-3"
#define SENTINEL_USER "presence-sentinel"
#define SENTINEL_PASSWORD "change-this-password-4"

struct group_security *group_security_make(void) {
  struct group_security *made = calloc(1, sizeof *made);
  assert_non_null(made);
  made->authority = pki_authority("Presence test authority");
  made->server = pki_issue(&made->authority, "servers", "IP:127.0.0.1", 2);
  made->client = pki_issue(&made->authority, "presenced", "DNS:presenced", 2);
  made->acl = scratch_path("acl");
  FILE *file = fopen(made->acl, "w");
  assert_non_null(file);
  const char *users = place_text(text_format("%s/deploy/redis/presence.acl", place_root()));
  fprintf(file, "%s%suser test on >test ~* &* +@all\n", users,
          place_text(text_format("%s/deploy/redis/replication.acl", place_root())));
  fclose(file);
  return made;
}

static const char *login_of(const struct redis_group *group) { return group->security != NULL ? TEST_LOGIN : NULL; }

/* ---- servers */

static void add_config(const char **all, const char *name, const char *value) {
  size_t used = 0;
  while (all[used] != NULL) used += 2;
  assert_true(used + 2 < LENGTH(((struct redis_group *)NULL)->configs[0]));
  all[used] = name;
  all[used + 1] = value;
}

static void add_tls(const char **all, const struct group_security *security, const char *port) {
  add_config(all, "port", "0");
  add_config(all, "tls-port", port);
  add_config(all, "tls-cert-file", security->server.cert);
  add_config(all, "tls-key-file", security->server.key);
  add_config(all, "tls-ca-cert-file", security->authority.cert);
  add_config(all, "tls-auth-clients", "yes");
  add_config(all, "tls-replication", "yes");
}

static struct redis_server *start_server(struct redis_group *group, const char *const *config) {
  assert_true(group->count < GROUP_SERVERS_MAX);
  const char **all = group->configs[group->count]; /* needed for a restart, too */
  int port = group->ports[group->count] = take_port();
  add_config(all, "bind", "127.0.0.1");
  add_config(all, "repl-diskless-sync-delay", "0"); /* else a replica waits 5 s for others to come */
  if (group->security != NULL) {
    add_tls(all, group->security, text_format("%d", port));
    add_config(all, "tls-cluster", "yes");
    add_config(all, "aclfile", group->security->acl);
    add_config(all, "masteruser", REPLICA_USER);
    add_config(all, "masterauth", REPLICA_PASSWORD);
  } else {
    add_config(all, "port", text_format("%d", port));
  }
  for (; config != NULL && *config != NULL; config += 2) add_config(all, config[0], config[1]);
  struct redis_server *server = &group->servers[group->count++];
  redis_server_start(
      server, &(struct redis_options){.appendonly = true, .rewrites_config = true, .config = all, .login = login_of(group)});
  return server;
}

/* kind: "sentinel", "cluster"; hosts and what follows. */
static void say_where(struct redis_group *group, const char *kind, const char *where) {
  const struct group_security *security = group->security;
  size_t used = 0;
  group->environment[used++] = text_format("PRESENCE_REDIS_URL=%s+%s://%s%s", security != NULL ? "rediss" : "redis", kind,
                                           security != NULL ? SERVICE_USER ":" SERVICE_PASSWORD "@" : "", where);
  if (security == NULL) return;
  group->environment[used++] = text_format("PRESENCE_REDIS_TLS_CA=%s", security->authority.cert);
  group->environment[used++] = text_format("PRESENCE_REDIS_TLS_CERT=%s", security->client.cert);
  group->environment[used++] = text_format("PRESENCE_REDIS_TLS_KEY=%s", security->client.key);
}

/* On a connection of its own, since a fail-over ends those that there are. */
bool group_is_primary(const struct redis_server *server) {
  redisContext *context = server->child.pid != 0 ? redis_dial(server->socket, server->options.login) : NULL;
  redisReply *reply = context != NULL ? redisCommand(context, "ROLE") : NULL;
  bool primary = reply != NULL && reply->type == REDIS_REPLY_ARRAY && strcmp(reply->element[0]->str, "master") == 0;
  freeReplyObject(reply);
  redisFree(context);
  return primary;
}

/* How many replicas have said that they have all up to the offset. */
static int replicas_with(struct redis_server *primary, long long offset) {
  int count = 0;
  const char *of_replica = redis_text(primary, "INFO replication");
  while ((of_replica = strstr(of_replica, ",offset=")) != NULL) {
    of_replica += strlen(",offset=");
    count += strtoll(of_replica, NULL, 10) >= offset;
  }
  return count;
}

/* WAIT would tell of what this connection has written itself. */
void group_wait_in_step(struct redis_group *group, size_t primary, int replicas) {
  struct redis_server *server = &group->servers[primary];
  const char *offset = strstr(redis_text(server, "INFO replication"), "master_repl_offset:");
  assert_non_null(offset);
  long long written = strtoll(strchr(offset, ':') + 1, NULL, 10);
  WAIT_UNTIL(replicas_with(server, written) >= replicas, 30000);
}

/* ---- a primary, replicas and Sentinels */

static redisContext *dial_sentinel(const struct redis_group *group, size_t number) {
  return redis_dial(group->sentinel_sockets[number], login_of(group));
}

static bool answers(const struct redis_group *group, size_t number, size_t replicas) {
  redisContext *context = dial_sentinel(group, number);
  bool knows = false;
  if (context != NULL) {
    redisReply *reply = redisCommand(context, "SENTINEL MASTER main");
    for (size_t i = 0; reply != NULL && reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements; i += 2) {
      const char *name = reply->element[i]->str, *value = reply->element[i + 1]->str;
      if (strcmp(name, "num-slaves") == 0 && strtoul(value, NULL, 10) < replicas) break;
      if (strcmp(name, "num-other-sentinels") == 0) knows = strtol(value, NULL, 10) == GROUP_SENTINELS - 1;
    }
    freeReplyObject(reply);
  }
  redisFree(context);
  return knows;
}

/* What a Sentinel needs to get in everywhere, and what it asks of others: of the service its own user and password. */
static void secure_sentinel(FILE *file, const struct redis_group *group, int port) {
  const char *config[LENGTH(group->configs[0])] = {NULL};
  add_tls(config, group->security, text_format("%d", port));
  for (size_t i = 0; config[i] != NULL; i += 2) fprintf(file, "%s %s\n", config[i], config[i + 1]);
  fprintf(file, "user default off\nuser test on >test ~* &* +@all\n"
                "user " SERVICE_USER " on >" SERVICE_PASSWORD " resetkeys resetchannels -@all +sentinel|get-master-addr-by-name\n"
                "sentinel sentinel-user test\nsentinel sentinel-pass test\n"
                "sentinel auth-user main " SENTINEL_USER "\nsentinel auth-pass main " SENTINEL_PASSWORD "\n");
}

static void start_sentinel(struct redis_group *group, size_t number) {
  const char *folder = scratch_folder("sentinel"), *path = text_format("%s/conf", folder);
  int port = group->sentinel_ports[number] = take_port();
  group->sentinel_sockets[number] = text_format("%s/s", folder);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file,
          "bind 127.0.0.1\ndir %s\nunixsocket %s\nsentinel monitor main 127.0.0.1 %d 2\n"
          "sentinel down-after-milliseconds main 1500\nsentinel failover-timeout main 5000\n",
          folder, group->sentinel_sockets[number], group->ports[0]);
  if (group->security != NULL)
    secure_sentinel(file, group, port);
  else
    fprintf(file, "port %d\n", port);
  fclose(file);
  const char *argv[] = {place_server("redis8-server"), path, "--sentinel", NULL};
  group->sentinels[number] = child_start(&(struct child_options){.argv = argv, .log = text_format("%s/log", folder)});
}

void sentinel_group_start(struct redis_group *group, size_t replicas, const struct group_security *security) {
  *group = (struct redis_group){.security = security};
  start_server(group, NULL);
  for (size_t i = 0; i < replicas; i++) {
    redis_text(start_server(group, NULL), "REPLICAOF 127.0.0.1 %d", group->ports[0]);
  }
  group_wait_in_step(group, 0, (int)replicas);
  for (size_t i = 0; i < GROUP_SENTINELS; i++) start_sentinel(group, i);
  for (size_t i = 0; i < GROUP_SENTINELS; i++) WAIT_UNTIL(answers(group, i, replicas), 30000);
  say_where(group, "sentinel",
            text_format("127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/main", group->sentinel_ports[0], group->sentinel_ports[1],
                        group->sentinel_ports[2]));
}

/* ---- a cluster */

static const char *node_id(struct redis_server *server) { return redis_text(server, "CLUSTER MYID"); }

static bool is_whole(struct redis_group *group) {
  for (size_t i = 0; i < group->count; i++) {
    const char *info = redis_text(&group->servers[i], "CLUSTER INFO");
    if (strstr(info, "cluster_state:ok") == NULL) return false;
    if (strstr(info, text_format("cluster_known_nodes:%zu\r", group->count)) == NULL) return false;
  }
  return true;
}

static bool replicates(struct redis_server *server, const char *primary) {
  redisReply *reply = redisCommand(server->context, "CLUSTER REPLICATE %s", primary); /* refused while the node is not known */
  bool done = reply != NULL && reply->type == REDIS_REPLY_STATUS;
  freeReplyObject(reply);
  return done;
}

void cluster_start(struct redis_group *group, size_t primaries, size_t replicas, const struct group_security *security) {
  static const char *const config[] = {"cluster-enabled",
                                       "yes",
                                       "cluster-node-timeout",
                                       "2000",
                                       "cluster-require-full-coverage",
                                       "no",
                                       "cluster-allow-replica-migration",
                                       "no",
                                       NULL};
  *group = (struct redis_group){.security = security};
  for (size_t i = 0; i < primaries + replicas; i++) {
    struct redis_server *server = start_server(group, config);
    int first = (int)(i * 16384 / primaries), next = (int)((i + 1) * 16384 / primaries);
    if (i < primaries) redis_text(server, "CLUSTER ADDSLOTSRANGE %d %d", first, next - 1);
    if (i > 0) redis_text(&group->servers[0], "CLUSTER MEET 127.0.0.1 %d", group->ports[i]);
  }
  for (size_t i = primaries; i < group->count; i++) {
    WAIT_UNTIL(replicates(&group->servers[i], node_id(&group->servers[0])), 30000);
  }
  WAIT_UNTIL(is_whole(group), 30000);
  if (replicas > 0) group_wait_in_step(group, 0, (int)replicas);
  say_where(group, "cluster", text_format("127.0.0.1:%d,127.0.0.1:%d", group->ports[0], group->ports[1]));
}

void slot_move_begin(const struct slot_move *move) {
  struct redis_server *from = &move->group->servers[move->from], *to = &move->group->servers[move->to];
  redis_text(to, "CLUSTER SETSLOT %d IMPORTING %s", move->slot, node_id(from));
  redis_text(from, "CLUSTER SETSLOT %d MIGRATING %s", move->slot, node_id(to));
}

bool slot_move_step(const struct slot_move *move) {
  enum { KEYS = 3, WORDS = 7 };
  struct redis_server *from = &move->group->servers[move->from];
  redisReply *keys = redis_command(from, "CLUSTER GETKEYSINSLOT %d %d", move->slot, KEYS);
  const char *argv[WORDS + KEYS] = {"MIGRATE", "127.0.0.1", text_format("%d", move->group->ports[move->to]), "", "0",
                                    "10000",   "KEYS"};
  for (size_t i = 0; i < keys->elements; i++) argv[WORDS + i] = keys->element[i]->str;
  bool any = keys->elements > 0;
  if (any) {
    redisReply *reply = redisCommandArgv(from->context, WORDS + (int)keys->elements, argv, NULL);
    if (reply == NULL || reply->type != REDIS_REPLY_STATUS) fail_msg("MIGRATE: %s", reply != NULL ? reply->str : "no answer");
    freeReplyObject(reply);
  }
  freeReplyObject(keys);
  return any;
}

void slot_move_end(const struct slot_move *move) {
  const char *id = node_id(&move->group->servers[move->to]);
  redis_text(&move->group->servers[move->to], "CLUSTER SETSLOT %d NODE %s", move->slot, id);
  redis_text(&move->group->servers[move->from], "CLUSTER SETSLOT %d NODE %s", move->slot, id);
}

/* ---- both */

static size_t find_promoted(struct redis_group *group, size_t not_this) {
  for (size_t i = 0; i < group->count; i++) {
    if (i != not_this && group_is_primary(&group->servers[i])) return i;
  }
  return group->count;
}

size_t group_wait_promoted(struct redis_group *group, size_t not_this) {
  size_t promoted;
  WAIT_UNTIL((promoted = find_promoted(group, not_this)) < group->count, 40000);
  redis_server_reconnect(&group->servers[promoted]);
  return promoted;
}

void group_fail_over(struct redis_group *group) {
  redisContext *sentinel = dial_sentinel(group, 0);
  assert_non_null(sentinel);
  bool begun = false;
  int64_t limit_ms = wait_now_ms() + wait_limit_ms(40000);
  while (!begun) { /* refused until it knows of a good replica */
    redisReply *reply = redisCommand(sentinel, "SENTINEL FAILOVER main");
    begun = reply != NULL && reply->type == REDIS_REPLY_STATUS;
    if (!begun && wait_now_ms() > limit_ms) fail_msg("no fail-over: %s", reply != NULL ? reply->str : sentinel->errstr);
    freeReplyObject(reply);
    if (!begun) wait_pause();
  }
  redisFree(sentinel);
}

void group_cut_off(struct redis_group *group, size_t replica) {
  redis_server_reconnect(&group->servers[replica]);
  redis_text(&group->servers[replica], "REPLICAOF 127.0.0.1 1");
}

void redis_group_stop(struct redis_group *group) {
  for (size_t i = 0; i < GROUP_SENTINELS; i++) {
    if (group->sentinels[i].pid != 0) child_kill(&group->sentinels[i]);
  }
  for (size_t i = 0; i < group->count; i++) redis_server_stop(&group->servers[i]);
  *group = (struct redis_group){0};
}

void group_world_start(void **state, const struct redis_group *group) {
  const char *environment[LENGTH(group->environment) + 2] = {"PRESENCE_OUTAGE_MS=500", "PRESENCE_SETTLE_MS=1000"};
  memcpy(environment + 2, group->environment, sizeof group->environment);
  world_start(state, &(struct world_options){.environment = environment})->begun = 0;
}

int group_world_stop(void **state, struct redis_group *group) {
  int result = world_teardown(state);
  redis_group_stop(group);
  return result;
}
