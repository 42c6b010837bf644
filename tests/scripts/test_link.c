/* An event loop's link: whatever happens to the connection, each call that was taken is answered exactly once. */
#include "support/test.h"

#include "metrics.h"
#include "store.h"
#include "support/proxy.h"
#include "support/redis_server.h"
#include "support/scratch.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS_MAX = 4000, WINDOW = 16 };

/* Sends `wanted` ticks, at most WINDOW at a time, as a batcher would: after each pass, then one flush. */
static struct bench {
  struct redis_server redis;
  struct proxy *proxy;
  struct loop *loop;
  struct redis_target *target;
  struct redis_link *link;
  struct redis_call *call;
  size_t wanted, sent, answered, refused;
  int answers[CALLS_MAX];          /* of each call */
  enum status statuses[CALLS_MAX]; /* its last */
  size_t last_ok;                  /* the number of the last call that succeeded, for the order */
  bool out_of_order;
  void (*each_pass)(void);
  size_t cuts_armed;
  int64_t deadline_ms;
  size_t changes;
  char run_id[REDIS_RUN_ID_LEN + 1];
} bench;

static void on_reply(void *context, enum status status, const redisReply *reply) {
  size_t number = (size_t)((int *)context - bench.answers);
  bench.answers[number]++;
  bench.answered++;
  assert_true((reply == NULL) == (status != STATUS_OK));
  struct record_reply head;
  if (!status) status = store_record_decode(reply, 0, 0, &head, NULL);
  bench.statuses[number] = status;
  if (status) return;
  if (number < bench.last_ok) bench.out_of_order = true;
  bench.last_ok = number;
}

static void encode_tick(void) {
  struct record_options options = {200, STR_LIT("loop"), 1000};
  assert_int_equal(store_record_encode(bench.call, bench.target, &options, &(struct record_section){0}, 1), STATUS_OK);
}

static int64_t after_pass(void *context) {
  (void)context;
  if (bench.each_pass) bench.each_pass();
  while (bench.sent < bench.wanted && redis_link_outstanding(bench.link, 0) < WINDOW) {
    encode_tick();
    enum status status = redis_link_send(bench.link, 0, bench.call, on_reply, &bench.answers[bench.sent]);
    if (status) {
      assert_int_equal(status, STATUS_UNAVAILABLE);
      bench.refused++;
      break;
    }
    bench.sent++;
  }
  redis_link_flush(bench.link);
  if (bench.answered == bench.wanted || wait_now_ms() > bench.deadline_ms) loop_stop(bench.loop);
  return 2000;
}

static void on_change(void *context) {
  (void)context;
  bench.changes++;
}

static void run_until_answered(size_t wanted) {
  bench.wanted = wanted;
  assert_true(wanted <= CALLS_MAX);
  bench.deadline_ms = wait_now_ms() + wait_limit_ms(20000);
  assert_int_equal(loop_run(bench.loop), STATUS_OK);
  assert_int_equal(bench.answered, wanted);
  for (size_t i = 0; i < wanted; i++) assert_int_equal(bench.answers[i], 1);
  assert_int_equal(redis_link_outstanding(bench.link, 0), 0);
}

static size_t count_status(enum status status) {
  size_t count = 0;
  for (size_t i = 0; i < bench.answered; i++) count += bench.statuses[i] == status;
  return count;
}

static void open_link(const char *path, enum config_redis_mode mode, int64_t timeout_ms) {
  char env[] = "test", *error = NULL;
  struct config config = {.env = env, .redis_url = text_format("unix://%s", path), .partitions = 1, .redis_mode = mode};
  assert_int_equal(redis_target_new(&config, &bench.target, &error), STATUS_OK);
  assert_int_equal(loop_new(clock_system(), &bench.loop), STATUS_OK);
  loop_set_after_pass(bench.loop, after_pass, NULL);
  assert_int_equal(redis_call_new(&bench.call), STATUS_OK);
  assert_int_equal(redis_link_new(bench.target, bench.loop, timeout_ms, &bench.link), STATUS_OK);
  redis_link_on_change(bench.link, on_change, NULL);
}

static void adopt(void) {
  struct redis_conn *conn;
  redisReply *reply;
  assert_int_equal(redis_conn_new(bench.target, clock_system(), 5000, &conn), STATUS_OK);
  assert_int_equal(redis_conn_run_id(conn, 0, bench.run_id), STATUS_OK);
  assert_int_equal(store_adopt_encode(bench.call, bench.target, 0, bench.run_id, SESSION_ID_NONE, bench.run_id), STATUS_OK);
  assert_int_equal(redis_conn_call(conn, 0, bench.call, &reply), STATUS_OK);
  freeReplyObject(reply);
  assert_int_equal(store_rebuild_encode(bench.call, bench.target, 0, bench.run_id, bench.run_id, 200, NULL, 0, true), STATUS_OK);
  if (redis_conn_call(conn, 0, bench.call, &reply) == STATUS_OK) freeReplyObject(reply); /* else it was not empty */
  redis_conn_free(conn);
}

/* A server, an adopted partition, a link through the proxy. */
static void open_all(const struct redis_options *options, int64_t timeout_ms) {
  redis_server_start(&bench.redis, options);
  const char *path = scratch_path("proxy");
  bench.proxy = proxy_start(path, bench.redis.socket);
  open_link(path, CONFIG_REDIS_AUTO, timeout_ms);
  adopt();
}

static int close_all(void **state) {
  (void)state;
  redis_link_free(bench.link);
  loop_free(bench.loop);
  redis_call_free(bench.call);
  redis_target_free(bench.target);
  proxy_stop(bench.proxy);
  if (bench.redis.socket) redis_server_stop(&bench.redis);
  bench = (struct bench){0};
  return 0;
}

static void test_answers_in_order(void **state) {
  (void)state;
  open_all(&(struct redis_options){0}, 5000);
  run_until_answered(2000);
  assert_int_equal(count_status(STATUS_OK), 2000);
  assert_false(bench.out_of_order);
  assert_int_equal(bench.changes, 1);
}

/* Arms the next cut when the one before has happened and calls flow again. */
static void cut_now_and_then(void) {
  static const size_t bytes[] = {1, 10, 100, 1000};
  size_t cuts = proxy_cuts(bench.proxy);
  if (cuts < bench.cuts_armed || cuts >= 2 * LENGTH(bytes) || bench.answered < (cuts + 1) * 200) return;
  if (!redis_link_ready(bench.link, 0)) return;
  if (cuts % 2 == 0) {
    proxy_cut_after_answers(bench.proxy, bytes[cuts / 2]);
  } else {
    proxy_cut_after_requests(bench.proxy, bytes[cuts / 2]);
  }
  bench.cuts_armed++;
}

static void test_cut_in_mid_pipeline(void **state) {
  (void)state;
  open_all(&(struct redis_options){0}, 5000);
  bench.each_pass = cut_now_and_then;
  run_until_answered(CALLS_MAX);
  assert_true(proxy_cuts(bench.proxy) >= 8);
  assert_true(count_status(STATUS_CLOSED) > 0);
  assert_int_equal(count_status(STATUS_OK) + count_status(STATUS_CLOSED), CALLS_MAX);
  assert_int_equal(bench.statuses[CALLS_MAX - 1], STATUS_OK);
}

static void flush_scripts(void) {
  if (bench.answered % 5 == 0) freeReplyObject(redis_command(&bench.redis, "SCRIPT FLUSH"));
}

static void test_script_flush_under_load(void **state) {
  (void)state;
  open_all(&(struct redis_options){0}, 5000);
  bench.each_pass = flush_scripts;
  run_until_answered(1000);
  assert_int_equal(count_status(STATUS_OK), 1000);
  assert_int_equal(bench.changes, 1);
}

static void hold_back(void) {
  if (bench.answered == 100) proxy_blackhole(bench.proxy, true);
  if (bench.answered > 100) proxy_blackhole(bench.proxy, false);
}

static void test_no_answer_in_time(void **state) {
  (void)state;
  open_all(&(struct redis_options){0}, 300);
  run_until_answered(100);
  int64_t before = wait_now_ms();
  bench.each_pass = hold_back;
  run_until_answered(200);
  assert_true(count_status(STATUS_CLOSED) >= 1);
  assert_int_equal(bench.statuses[199], STATUS_OK);
  assert_true(wait_now_ms() - before >= 300);
}

static void test_client_pause(void **state) {
  (void)state;
  open_all(&(struct redis_options){0}, 300);
  run_until_answered(100);
  assert_string_equal(redis_text(&bench.redis, "CLIENT PAUSE 1000"), "OK");
  run_until_answered(200);
  assert_true(count_status(STATUS_CLOSED) >= 1);
  assert_int_equal(bench.statuses[199], STATUS_OK);
}

static void test_restarted_server_is_not_adopted(void **state) {
  (void)state;
  open_all(&(struct redis_options){.appendonly = true}, 5000);
  run_until_answered(10);
  redis_server_kill(&bench.redis);
  redis_server_restart(&bench.redis);
  run_until_answered(100);
  assert_int_equal(bench.statuses[99], STATUS_INITIALISING);
  adopt();
  run_until_answered(200);
  assert_int_equal(bench.statuses[199], STATUS_OK);
}

static void test_server_that_comes_late(void **state) {
  (void)state;
  redis_server_start(&bench.redis, &(struct redis_options){0});
  const char *path = scratch_path("proxy");
  bench.proxy = proxy_start(path, bench.redis.socket);
  proxy_refuse(bench.proxy, true);
  open_link(path, CONFIG_REDIS_AUTO, 1000);
  bench.wanted = 1;
  bench.deadline_ms = wait_now_ms() + 200;
  assert_int_equal(loop_run(bench.loop), STATUS_OK);
  assert_true(bench.refused > 0);
  assert_false(redis_link_ready(bench.link, 0));
  proxy_refuse(bench.proxy, false);
  adopt();
  run_until_answered(10);
  assert_int_equal(count_status(STATUS_OK), 10);
}

static void test_replica_is_left(void **state) {
  (void)state;
  open_all(&(struct redis_options){0}, 5000);
  run_until_answered(10);
  assert_string_equal(redis_text(&bench.redis, "REPLICAOF 127.0.0.1 1"), "OK");
  bench.wanted = 50;
  bench.deadline_ms = wait_now_ms() + 500;
  assert_int_equal(loop_run(bench.loop), STATUS_OK);
  assert_false(redis_link_ready(bench.link, 0));
  assert_int_equal(bench.answered, bench.sent);
  assert_true(bench.sent < 50);
  assert_int_equal(count_status(STATUS_OK), 10);
  assert_string_equal(redis_text(&bench.redis, "REPLICAOF NO ONE"), "OK");
  run_until_answered(100);
  assert_int_equal(bench.statuses[99], STATUS_OK);
}

static void test_full_server_refuses(void **state) {
  (void)state;
  open_all(&(struct redis_options){0}, 5000);
  run_until_answered(10);
  assert_string_equal(redis_text(&bench.redis, "CONFIG SET maxmemory 1"), "OK");
  run_until_answered(20);
  assert_int_equal(count_status(STATUS_UNAVAILABLE), 10);
  assert_true(redis_link_ready(bench.link, 0));
  assert_string_equal(redis_text(&bench.redis, "CONFIG SET maxmemory 0"), "OK");
  run_until_answered(30);
  assert_int_equal(bench.statuses[29], STATUS_OK);
}

static void test_free_answers_what_is_outstanding(void **state) {
  (void)state;
  open_all(&(struct redis_options){0}, 5000);
  run_until_answered(10);
  for (size_t i = 10; i < 20; i++) {
    encode_tick();
    assert_int_equal(redis_link_send(bench.link, 0, bench.call, on_reply, &bench.answers[i]), STATUS_OK);
  }
  redis_link_free(bench.link);
  bench.link = NULL;
  assert_int_equal(bench.answered, 20);
  for (size_t i = 10; i < 20; i++) {
    assert_int_equal(bench.answers[i], 1);
    assert_int_equal(bench.statuses[i], STATUS_CLOSED);
  }
}

static void test_free_while_connecting(void **state) {
  (void)state;
  redis_server_start(&bench.redis, &(struct redis_options){0});
  const char *path = scratch_path("proxy");
  bench.proxy = proxy_start(path, bench.redis.socket);
  proxy_blackhole(bench.proxy, true);
  for (int i = 0; i < 20; i++) {
    open_link(path, CONFIG_REDIS_AUTO, 400);
    redis_link_free(bench.link); /* the thread is still waiting */
    loop_free(bench.loop);
    redis_call_free(bench.call);
    redis_target_free(bench.target);
  }
  proxy_blackhole(bench.proxy, false);
  for (int i = 0; i < 50; i++) { /* and at any moment of a connect that succeeds */
    open_link(path, CONFIG_REDIS_AUTO, 400);
    for (int j = 0; j < i * 100; j++) __asm__ volatile("");
    redis_link_free(bench.link);
    loop_free(bench.loop);
    redis_call_free(bench.call);
    redis_target_free(bench.target);
  }
  bench.link = NULL;
  bench.loop = NULL;
  bench.call = NULL;
  bench.target = NULL;
  wait_pause();
  WAIT_UNTIL(proxy_connections(bench.proxy) == 0, 5000); /* the abandoned threads have closed theirs */
}

static void test_forced_dialect_that_the_server_cannot_do(void **state) {
  (void)state;
  if (!dialect_is_here(DIALECT_COMPAT_OLD)) skip();
  redis_server_start(&bench.redis, &(struct redis_options){.dialect = DIALECT_COMPAT_OLD});
  open_link(bench.redis.socket, CONFIG_REDIS_NATIVE, 1000);
  bench.wanted = 1;
  bench.deadline_ms = wait_now_ms() + 200;
  assert_int_equal(loop_run(bench.loop), STATUS_OK);
  assert_false(redis_link_ready(bench.link, 0));
  struct redis_conn *conn;
  char run_id[REDIS_RUN_ID_LEN + 1];
  assert_int_equal(redis_conn_new(bench.target, clock_system(), 1000, &conn), STATUS_OK);
  assert_int_equal(redis_conn_run_id(conn, 0, run_id), STATUS_UNAVAILABLE);
  assert_string_equal(redis_conn_error(conn), "redis-mode native is asked for, but this server can only do compat");
  redis_conn_free(conn);
}

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_answers_in_order, close_all),
      cmocka_unit_test_teardown(test_cut_in_mid_pipeline, close_all),
      cmocka_unit_test_teardown(test_script_flush_under_load, close_all),
      cmocka_unit_test_teardown(test_no_answer_in_time, close_all),
      cmocka_unit_test_teardown(test_client_pause, close_all),
      cmocka_unit_test_teardown(test_restarted_server_is_not_adopted, close_all),
      cmocka_unit_test_teardown(test_server_that_comes_late, close_all),
      cmocka_unit_test_teardown(test_replica_is_left, close_all),
      cmocka_unit_test_teardown(test_full_server_refuses, close_all),
      cmocka_unit_test_teardown(test_free_answers_what_is_outstanding, close_all),
      cmocka_unit_test_teardown(test_free_while_connecting, close_all),
      cmocka_unit_test_teardown(test_forced_dialect_that_the_server_cannot_do, close_all),
  };
  if (metrics_init()) return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
