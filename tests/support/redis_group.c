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

static struct redis_server *start_server(struct redis_group *group, const char *const *config) {
  assert_true(group->count < GROUP_SERVERS_MAX);
  const char **all = group->configs[group->count]; /* needed for a restart, too */
  size_t used = 0;
  group->ports[group->count] = take_port();
  all[used++] = "bind";
  all[used++] = "127.0.0.1";
  all[used++] = "port";
  all[used++] = text_format("%d", group->ports[group->count]);
  for (; config != NULL && *config != NULL; config++) {
    assert_true(used + 1 < LENGTH(group->configs[0]));
    all[used++] = *config;
  }
  all[used] = NULL;
  struct redis_server *server = &group->servers[group->count++];
  redis_server_start(server, &(struct redis_options){.appendonly = true, .rewrites_config = true, .config = all});
  return server;
}

/* On a connection of its own, since a fail-over ends those that there are. */
bool group_is_primary(const struct redis_server *server) {
  redisContext *context =
      server->child.pid != 0 ? redisConnectUnixWithTimeout(server->socket, (struct timeval){.tv_sec = 10}) : NULL;
  redisReply *reply = context != NULL && context->err == 0 ? redisCommand(context, "ROLE") : NULL;
  bool primary = reply != NULL && reply->type == REDIS_REPLY_ARRAY && strcmp(reply->element[0]->str, "master") == 0;
  freeReplyObject(reply);
  redisFree(context);
  return primary;
}

void group_wait_in_step(struct redis_group *group, size_t primary, int replicas) {
  WAIT_UNTIL(redis_integer(&group->servers[primary], "WAIT %d 1000", replicas) >= replicas, 30000);
}

static bool answers(int port, size_t replicas) {
  redisContext *context = redisConnectWithTimeout("127.0.0.1", port, (struct timeval){.tv_sec = 5});
  bool knows = false;
  if (context != NULL && context->err == 0) {
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

static void start_sentinel(struct redis_group *group, size_t number) {
  const char *folder = scratch_folder("sentinel"), *path = text_format("%s/conf", folder);
  int port = group->sentinel_ports[number] = take_port();
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fprintf(file,
          "port %d\nbind 127.0.0.1\ndir %s\nsentinel monitor main 127.0.0.1 %d 2\nsentinel down-after-milliseconds main 1500\n"
          "sentinel failover-timeout main 5000\n",
          port, folder, group->ports[0]);
  fclose(file);
  const char *argv[] = {place_server("redis8-server"), path, "--sentinel", NULL};
  group->sentinels[number] = child_start(&(struct child_options){.argv = argv, .log = text_format("%s/log", folder)});
}

void sentinel_group_start(struct redis_group *group, size_t replicas) {
  *group = (struct redis_group){0};
  start_server(group, NULL);
  for (size_t i = 0; i < replicas; i++) {
    redis_text(start_server(group, NULL), "REPLICAOF 127.0.0.1 %d", group->ports[0]);
  }
  group_wait_in_step(group, 0, (int)replicas);
  for (size_t i = 0; i < GROUP_SENTINELS; i++) start_sentinel(group, i);
  for (size_t i = 0; i < GROUP_SENTINELS; i++) WAIT_UNTIL(answers(group->sentinel_ports[i], replicas), 30000);
  group->url = text_format("redis+sentinel://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/main", group->sentinel_ports[0],
                           group->sentinel_ports[1], group->sentinel_ports[2]);
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

void cluster_start(struct redis_group *group, size_t primaries, size_t replicas) {
  static const char *const config[] = {"cluster-enabled",
                                       "yes",
                                       "cluster-node-timeout",
                                       "2000",
                                       "cluster-require-full-coverage",
                                       "no",
                                       "cluster-allow-replica-migration",
                                       "no",
                                       NULL};
  *group = (struct redis_group){0};
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
  group->url = text_format("redis+cluster://127.0.0.1:%d,127.0.0.1:%d", group->ports[0], group->ports[1]);
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
  redisContext *sentinel = redisConnectWithTimeout("127.0.0.1", group->sentinel_ports[0], (struct timeval){.tv_sec = 10});
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
  const char *const environment[] = {text_format("PRESENCE_REDIS_URL=%s", group->url), "PRESENCE_OUTAGE_MS=500",
                                     "PRESENCE_SETTLE_MS=1000", NULL};
  world_start(state, &(struct world_options){.environment = environment})->begun = 0;
}

int group_world_stop(void **state, struct redis_group *group) {
  int result = world_teardown(state);
  redis_group_stop(group);
  return result;
}
