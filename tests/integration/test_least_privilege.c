/* The service and its tools with no more rights than they are meant to have: the users of deploy/redis/presence.acl, and the
 * roles that the migrations make. Everything is done once: a right that is missing shows as an error, and in Redis's ACL LOG. */
#include "support/test.h"

#include "support/scratch.h"
#include "support/world.h"

#include <stdlib.h>
#include <string.h>

static struct world *world;
static const char *redis_url, *service_url, *admin_url;

/* Makes the users of the shipped file, but leaves the default user to the test. */
static void load_users(struct redis_server *redis) {
  char *text = place_read(text_format("%s/deploy/redis/presence.acl", place_root()), NULL);
  int users = 0;
  for (char *rest = text, *line; (line = strsep(&rest, "\n")) != NULL;) {
    if (*line == '\0' || strncmp(line, "user default ", 13) == 0) continue;
    const char *argv[128] = {"ACL", "SETUSER"};
    int argc = 2;
    assert_string_equal(strsep(&line, " "), "user");
    for (char *word; (word = strsep(&line, " ")) != NULL; argv[argc++] = word) assert_true(argc < (int)LENGTH(argv));
    redisReply *reply = redisCommandArgv(redis->context, argc, argv, NULL);
    assert_non_null(reply);
    if (reply->type == REDIS_REPLY_ERROR) fail_msg("ACL SETUSER %s: %s", argv[2], reply->str);
    freeReplyObject(reply);
    users++;
  }
  free(text);
  assert_int_equal(users, 2);
}

static const char *login(const char *name, const char *role) {
  PQclear(sql_query(&world->database, text_format("CREATE ROLE %s LOGIN IN ROLE %s", name, role), NULL));
  const char *socket = strrchr(world->database.socket, '/');
  return text_format("host=%.*s user=%s dbname=%s", (int)(socket - world->database.socket), world->database.socket, name,
                     world->database.name);
}

static int start(void **state) {
  world = world_start(state, &(struct world_options){.no_service = true, .appendonly = true});
  load_users(&world->redis);
  redis_url = text_format("unix://presence:change-this-password@%s", world->redis.socket);
  service_url = login("only_service", "presence_service");
  admin_url = login("only_admin", "presence_admin");
  const char *environment[] = {text_format("PRESENCE_REDIS_URL=%s", redis_url),
                               text_format("PRESENCE_POSTGRES_URL=%s", service_url), "PRESENCE_RECALIBRATE_MS=1000",
                               "PRESENCE_AUDIT_MS=1000", NULL};
  world_talk_to(world, world_process(world, NULL, environment));
  world->begun = 1;
  return 0;
}

static int stop(void **state) {
  (void)state;
  void *end = world;
  return world_teardown(&end);
}

static const char *control(const char *a, const char *b, const char *c, const char *d) {
  return world_control(world, "--redis-url", redis_url, "--postgres-url", admin_url, a, b, c, d, NULL);
}

static void nothing_was_refused(void) {
  assert_string_equal(redis_text(&world->redis, "ACL LOG"), "");
  if (presenced_logged(world->service, "NOPERM") || presenced_logged(world->service, "permission denied") ||
      presenced_logged(world->service, "redis_call_failed"))
    fail_msg("the service met a right that it does not have; its log tells");
}

static void a_whole_life(void **state) {
  (void)state;
  beat(world, "stays", 600000);
  beat(world, "goes", 300);
  expect_status(world->client, 204, "POST", device_path(world, "m", "/heartbeat"), "{\"ttl_ms\":60000,\"meta\":{\"a\":1}}");
  expect_status(world->client, 200, "POST", tenant_path(world, "/heartbeats"),
                "[\"b1\",\"b2\",{\"device\":\"b3\",\"ttl_ms\":300}]");
  expect_status(world->client, 204, "POST", device_path(world, "m", "/disconnect"), NULL);
  history_wait(&world->database, world->tenant, "goes", "online offline(timeout)");
  assert_string_equal(device_state(world, "stays"), "online");
  expect_status(world->client, 200, "POST", tenant_path(world, "/devices/query"), "{\"devices\":[\"stays\",\"goes\",\"m\"]}");
  expect_status(world->client, 200, "GET", tenant_path(world, "/devices?state=online"), NULL);
  expect_status(world->client, 200, "GET", tenant_path(world, "/counts"), NULL);
  expect_status(world->client, 200, "GET", tenant_path(world, "/events?after=0"), NULL);
  expect_status(world->client, 200, "GET", device_path(world, "goes", "/history"), NULL);
  world_drain(world);
  nothing_was_refused();
}

static void what_operators_do(void **state) {
  (void)state;
  world->token = world_token(world, NULL, NULL);
  world_talk_to(world, world->service);
  expect_status(world->client, 200, "POST", tenant_path(world, "/counts/recalibrate"), NULL);
  expect_status(world->client, 204, "DELETE", device_path(world, "b1", ""), NULL);
  control("status", NULL, NULL, NULL);
  control("counts", NULL, NULL, NULL);
  control("recalibrate", NULL, NULL, NULL);
  control("audit", NULL, NULL, NULL);
  control("audit", "--report", NULL, NULL);
  control("hot", NULL, NULL, NULL);
  control("lag", NULL, NULL, NULL);
  control("rejected", "list", NULL, NULL);
  control("tenant", "list", NULL, NULL);
  control("token", "list", NULL, NULL);
  control("device", "show", world->tenant, "stays");
  control("device", "forget", world->tenant, "b2");
  control("tenant", "create", "second", NULL);
  control("token", "create", "--admin", NULL);
  control("tenant", "delete", "second", NULL);
  world_drain(world);
  nothing_was_refused();
}

static void redis_is_lost_and_rebuilt(void **state) {
  (void)state;
  expect_status(world->client, 204, "POST", device_path(world, "stays", "/heartbeat"), NULL);
  world_drain(world);
  redis_text(&world->redis, "FLUSHALL");
  WAIT_UNTIL(client_call(world->client, "GET", device_path(world, "stays", ""), NULL)->status == 503 ||
                 presenced_logged(world->service, "redis_rebuilt"),
             15000);
  WAIT_UNTIL(client_call(world->client, "POST", device_path(world, "stays", "/heartbeat"), "{\"ttl_ms\":600000}")->status == 204,
             20000);
  expect_history(world, "stays", "online");
  control("tenant", "delete", world->tenant, NULL);
  nothing_was_refused();
}

static void monitors_only_look(void **state) {
  (void)state;
  static const char *const reads[] = {
      "PING", "INFO", "DBSIZE", "SLOWLOG GET", "HLEN prod:presence:count:v1:{0}", "XLEN prod:presence:transitions:v1:{0}"};
  static const char *const writes[] = {"HSET prod:presence:count:v1:{0} t 7",
                                       "DEL prod:presence:count:v1:{0}",
                                       "GET other",
                                       "FLUSHALL",
                                       "CONFIG GET requirepass",
                                       "KEYS *",
                                       "SHUTDOWN"};
  redisContext *context = redisConnectUnix(world->redis.socket);
  assert_true(context != NULL && context->err == 0);
  freeReplyObject(redisCommand(context, "AUTH presence-monitor change-this-password-too"));
  for (size_t i = 0; i < LENGTH(reads); i++) {
    redisReply *reply = redisCommand(context, reads[i]); // NOLINT(clang-diagnostic-format-security): fixed texts
    assert_int_not_equal(reply->type, REDIS_REPLY_ERROR);
    freeReplyObject(reply);
  }
  for (size_t i = 0; i < LENGTH(writes); i++) {
    redisReply *reply = redisCommand(context, writes[i]); // NOLINT(clang-diagnostic-format-security): fixed texts
    if (reply->type != REDIS_REPLY_ERROR || strncmp(reply->str, "NOPERM", 6) != 0)
      fail_msg("a monitor may do this: %s", writes[i]);
    freeReplyObject(reply);
  }
  redisFree(context);
}

static void consumers_cannot_write_the_outbox(void **state) {
  (void)state;
  static const char *const refused[] = {"INSERT INTO presence.outbox (seq) VALUES (1)",
                                        "UPDATE presence.outbox SET payload = '{}'",
                                        "DELETE FROM presence.outbox",
                                        "TRUNCATE presence.outbox",
                                        "UPDATE presence.device SET state = 'offline'",
                                        "SELECT presence.drop_day(now())"};
  static const char *const roles[] = {"presence_consumer", "presence_service"};
  for (size_t r = 0; r < LENGTH(roles); r++) {
    PQclear(sql_query(&world->database, text_format("SET ROLE %s", roles[r]), NULL));
    for (size_t i = 0; i < LENGTH(refused); i++) {
      if (r == 1 && i == LENGTH(refused) - 1) continue; /* the service drops days */
      const char *code = sql_error(&world->database, refused[i]);
      if (strcmp(code, "42501") != 0) fail_msg("%s: %s, wanted 42501", refused[i], code);
    }
    PQclear(sql_query(&world->database, "SELECT count(*) FROM presence.outbox", NULL));
    PQclear(sql_query(&world->database, "RESET ROLE", NULL));
  }
}

static void the_end(void **state) {
  (void)state;
  world_end(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_whole_life),
      cmocka_unit_test(what_operators_do),
      cmocka_unit_test(redis_is_lost_and_rebuilt),
      cmocka_unit_test(monitors_only_look),
      cmocka_unit_test(consumers_cannot_write_the_outbox),
      cmocka_unit_test(the_end),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
