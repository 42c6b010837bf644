/* world.h: all that one test needs, put up in a moment and torn down whatever happens: a Redis, a database, processes of the
 * service, a tenant with tokens, a connection to talk over.
 *
 *   static void test_x(void **state) {
 *     struct world *world = world_start(state, &(struct world_options){.dialect = DIALECT_NATIVE});
 *     expect_status(world->client, 204, "POST", device_path(world, "d1", "/heartbeat"), "{\"ttl_ms\":1000}");
 *     history_wait(&world->database, world->tenant, "d1", "online offline(timeout)");
 *     world_end(world);
 *   }
 *   … cmocka_unit_test_teardown(test_x, world_teardown) …
 *
 * world_end checks what must hold in every outbox and keyspace. A group of tests may share a world, one after the other for each
 * dialect: RUN_IN_ALL_DIALECTS in main, world_begin at the start of each test (it gets a tenant of its own), world_check at its
 * end. */
#ifndef PRESENCE_TEST_WORLD_H
#define PRESENCE_TEST_WORLD_H

#include "support/client.h"
#include "support/history.h"
#include "support/keyspace.h"
#include "support/postgres_server.h"
#include "support/presenced.h"
#include "support/proxy.h"
#include "support/redis_server.h"

#define WORLD_PROCESSES_MAX 12

struct world_options {
  enum dialect dialect;
  bool own_clock;   /* world->redis.clock: see timeshim.h */
  int64_t clock_ms; /* Redis's clock stands still at this time until world_set_clock; 0: it runs */
  bool appendonly;
  bool proxies;                   /* between the service and both servers */
  bool no_service;                /* the test starts its processes itself */
  const char *roles;              /* of the first process; NULL: api,worker */
  const char *const *environment; /* for all processes, over the defaults below; NULL-terminated */
  const char *const *tenant;      /* further arguments of `tenant create` for the first tenant; NULL-terminated */
};
/* Defaults: PRESENCE_OUTAGE_MS=5000 (a busy test machine is no outage) PRESENCE_SETTLE_MS=0 PRESENCE_THREADS=1 */

struct world {
  struct redis_server redis;
  struct database database;
  struct proxy *redis_proxy, *postgres_proxy; /* NULL without proxies */
  struct presenced processes[WORLD_PROCESSES_MAX];
  size_t process_count;
  struct presenced *service; /* processes[0] */
  const char *tenant;        /* the newest tenant, */
  const char *token;         /* a token for it with all scopes but admin, */
  struct client *client;     /* and a connection to the first process with that token */
  bool clock_stepped;        /* the test sets it: see history_rules */
  /* private */
  struct world_options options;
  const char *environment[40];
  int64_t clock_ms;
  unsigned begun, checked; /* tests */
};

struct world *world_start(void **state, const struct world_options *options);
/* For a test in a group that shares a world. */
struct world *world_begin(void **state);
/* Redis's clock stands still at this time from now on; also by how much to move it. */
void world_set_clock(struct world *world, int64_t now_ms);
void world_move_clock(struct world *world, int64_t by_ms);
/* A further process; roles NULL: both; environment over the world's. It listens, is ready where it has the api role, when this
 * returns. */
struct presenced *world_process(struct world *world, const char *roles, const char *const *environment);
/* The same without waiting. */
struct presenced *world_spawn(struct world *world, const char *roles, const char *const *environment);
/* In the place of one that has ended. */
void world_respawn(struct world *world, struct presenced *process, const char *roles, const char *const *environment);
/* Replaces the connection of the world by one to this process. */
void world_talk_to(struct world *world, const struct presenced *process);
/* Makes a tenant and a token, and the world's connection uses them. arguments: of `tenant create`; may be NULL. */
void world_new_tenant(struct world *world, const char *const *arguments);
const char *world_token(struct world *world, const char *tenant, const char *scopes); /* scopes NULL: an admin token */
/* presencectl with these words (NULL-terminated, sentinel); the exit code must be 0 for world_control. */
struct outcome world_presencectl(struct world *world, ...) __attribute__((sentinel));
const char *world_control(struct world *world, ...) __attribute__((sentinel)); /* its stdout */
const char *const *world_environment(const struct world *world);               /* options for a process of this world */

void world_drain(struct world *world); /* waits until all transitions are in PostgreSQL */
void world_check(struct world *world); /* drains and checks all rules; the worker must run */
void world_end(struct world *world);   /* checks, stops the processes in order (exit code 0), and says that the test passed */
int world_teardown(void **state);      /* cmocka's, of a test or a group; shows the logs where a test did not reach its end */

/* Once all is told, the history of the world's tenant's device must be exactly this: "online offline(timeout)". */
void expect_history(struct world *world, const char *device, const char *wanted);

/* "/v1/tenants/{the world's tenant}/devices/{device, percent-encoded}{rest}" */
const char *device_path(const struct world *world, const char *device, const char *rest);
const char *tenant_path(const struct world *world, const char *rest); /* "/v1/tenants/{tenant}{rest}" */
/* A heartbeat that must be taken; ttl_ms 0: an empty body. */
void beat(struct world *world, const char *device, int64_t ttl_ms);
/* Members of GET …/devices/{device}; text is valid as long as the program runs. */
const char *device_state(struct world *world, const char *device); /* "online", "offline", "unknown"; "404" where never seen */
int64_t device_number(struct world *world, const char *device, const char *member);
json_t *device_object(struct world *world, const char *device); /* status 200; json_decref it */
/* The value of a metric's series ("presence_x" or "presence_x{a=\"b\"}"), of the first process; -1: there is none. */
double metric(struct world *world, const char *series);

/* Runs the tests in every dialect that is here, each time in one shared world; gives the number of failures. */
extern enum dialect world_dialect;
int world_group_start(void **state);
#define RUN_IN_ALL_DIALECTS(tests, failures)                                                                                     \
  for (int dialect_ = 0; dialect_ < DIALECT_COUNT; dialect_++) {                                                                 \
    world_dialect = (enum dialect)dialect_;                                                                                      \
    if (!dialect_is_here(world_dialect))                                                                                         \
      print_message("skipped: no server for %s here\n", dialect_name(world_dialect));                                            \
    else                                                                                                                         \
      (failures) += cmocka_run_group_tests_name(dialect_name(world_dialect), tests, world_group_start, world_teardown);          \
  }

#endif
