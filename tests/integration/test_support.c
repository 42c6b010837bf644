/* The harness itself: servers start, keep their data, stand still in time, and lose their connections. */
#include "support/test.h"

#include "support/postgres_server.h"
#include "support/proxy.h"
#include "support/redis_server.h"
#include "support/scratch.h"

#include <string.h>

struct servers {
  struct redis_server redis;
  struct database database;
  struct proxy *proxy;
};

static struct servers servers;

static int stop_servers(void **state) {
  (void)state;
  proxy_stop(servers.proxy);
  redis_server_stop(&servers.redis);
  database_drop(&servers.database);
  servers = (struct servers){0};
  return 0;
}

static void test_redis_clock_is_in_our_hands(void **state) {
  (void)state;
  redis_server_start(&servers.redis, &(struct redis_options){.own_clock = true});
  redis_server_fix_clock(&servers.redis, 1163438041250);
  assert_int_equal(redis_now_ms(&servers.redis), 1163438041250);
  redis_server_fix_clock(&servers.redis, 1163438041251);
  assert_int_equal(redis_now_ms(&servers.redis), 1163438041251);
}

static void test_redis_keeps_data_over_a_kill(void **state) {
  (void)state;
  redis_server_start(&servers.redis, &(struct redis_options){.appendonly = true});
  assert_string_equal(redis_text(&servers.redis, "SET a %s", "1 2"), "OK");
  redis_server_kill(&servers.redis);
  redis_server_restart(&servers.redis);
  assert_string_equal(redis_text(&servers.redis, "GET a"), "1 2");
}

static void test_every_dialect_that_is_here_starts(void **state) {
  (void)state;
  for (int dialect = 0; dialect < DIALECT_COUNT; dialect++) {
    if (!dialect_is_here((enum dialect)dialect)) continue;
    redis_server_start(&servers.redis, &(struct redis_options){.dialect = (enum dialect)dialect});
    assert_string_equal(redis_text(&servers.redis, "PING"), "PONG");
    redis_server_stop(&servers.redis);
  }
}

static void test_databases_are_fresh(void **state) {
  (void)state;
  database_create(&servers.database, false);
  assert_string_equal(sql_text(&servers.database, "SELECT $1::int + 1, 'a' UNION ALL SELECT 3, 'b' ORDER BY 1", "1", NULL),
                      "2 a\n3 b");
  sql_text(&servers.database, "CREATE TABLE x (y int)", NULL);
  database_drop(&servers.database);
  database_create(&servers.database, false);
  assert_int_equal(sql_integer(&servers.database, "SELECT count(*) FROM pg_tables WHERE tablename = 'x'", NULL), 0);
}

static void test_postgres_comes_back(void **state) {
  (void)state;
  database_create(&servers.database, false);
  postgres_server_kill();
  postgres_server_restart();
  database_reconnect(&servers.database);
  assert_int_equal(sql_integer(&servers.database, "SELECT 7", NULL), 7);
}

static redisContext *through_proxy(const char *path) {
  redisContext *context = redisConnectUnixWithTimeout(path, (struct timeval){.tv_sec = 5});
  assert_non_null(context);
  assert_int_equal(context->err, 0);
  redisSetTimeout(context, (struct timeval){.tv_usec = 200000});
  return context;
}

/* "+PONG", "lost" or "late". */
static const char *ping(redisContext *context) {
  redisReply *reply = redisCommand(context, "PING");
  if (reply == NULL) return context->err == REDIS_ERR_IO ? "late" : "lost";
  freeReplyObject(reply);
  return "PONG";
}

static void test_proxy_breaks_connections(void **state) {
  (void)state;
  redis_server_start(&servers.redis, &(struct redis_options){0});
  const char *path = scratch_path("proxy");
  servers.proxy = proxy_start(path, servers.redis.socket);
  redisContext *context = through_proxy(path);
  assert_string_equal(ping(context), "PONG");
  proxy_cut(servers.proxy);
  assert_string_not_equal(ping(context), "PONG");
  redisFree(context);

  context = through_proxy(path);
  assert_string_equal(ping(context), "PONG");
  proxy_blackhole(servers.proxy, true);
  assert_string_equal(ping(context), "late");
  redisFree(context);
  proxy_blackhole(servers.proxy, false);

  context = through_proxy(path);
  proxy_cut_after_answers(servers.proxy, 3);
  assert_string_not_equal(ping(context), "PONG");
  redisFree(context);
  assert_int_equal(proxy_cuts(servers.proxy), 2);

  proxy_refuse(servers.proxy, true);
  context = redisConnectUnix(path);
  assert_string_not_equal(ping(context), "PONG");
  redisFree(context);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_redis_clock_is_in_our_hands, stop_servers),
      cmocka_unit_test_teardown(test_redis_keeps_data_over_a_kill, stop_servers),
      cmocka_unit_test_teardown(test_every_dialect_that_is_here_starts, stop_servers),
      cmocka_unit_test_teardown(test_databases_are_fresh, stop_servers),
      cmocka_unit_test_teardown(test_postgres_comes_back, stop_servers),
      cmocka_unit_test_teardown(test_proxy_breaks_connections, stop_servers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
