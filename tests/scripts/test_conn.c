/* A thread's connection: authentication, TLS, reconnecting, scripts that went away, and the checks of a server at start. */
#include "support/test.h"

#include "metrics.h"
#include "store.h"
#include "support/child.h"
#include "support/proxy.h"
#include "support/redis_server.h"
#include "support/scratch.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
  struct redis_server redis;
  struct proxy *proxy;
  struct redis_target *target;
  struct redis_conn *conn;
  struct redis_call *calls[4];
} at;

static void open_conn(const char *url) {
  char env[] = "test", none[] = "", *error = NULL;
  struct config config = {.env = env,
                          .redis_url = text_format("%s", url),
                          .redis_tls_ca = none,
                          .redis_tls_cert = none,
                          .redis_tls_key = none,
                          .partitions = 8,
                          .redis_mode = CONFIG_REDIS_AUTO};
  if (redis_target_new(&config, &at.target, &error)) fail_msg("%s", error);
  assert_int_equal(redis_conn_new(at.target, clock_system(), 1000, &at.conn), STATUS_OK);
  for (size_t i = 0; i < LENGTH(at.calls); i++) assert_int_equal(redis_call_new(&at.calls[i]), STATUS_OK);
}

static void close_conn(void) {
  for (size_t i = 0; i < LENGTH(at.calls); i++) redis_call_free(at.calls[i]);
  redis_conn_free(at.conn);
  redis_target_free(at.target);
  at.conn = NULL;
  at.target = NULL;
  memset(at.calls, 0, sizeof at.calls);
}

static int close_all(void **state) {
  (void)state;
  close_conn();
  proxy_stop(at.proxy);
  if (at.redis.socket) redis_server_stop(&at.redis);
  memset(&at, 0, sizeof at);
  return 0;
}

static enum status ask(void) {
  redisReply *reply = NULL;
  assert_int_equal(store_lease_encode(at.calls[0], at.target, 0, STR_LIT("me"), 1000, LEASE_ONLY_MARK), STATUS_OK);
  enum status status = redis_conn_call(at.conn, 0, at.calls[0], &reply);
  assert_int_equal(reply != NULL, status == STATUS_OK);
  freeReplyObject(reply);
  return status;
}

static void start(const struct redis_options *options) {
  redis_server_start(&at.redis, options);
  const char *path = scratch_path("proxy");
  at.proxy = proxy_start(path, at.redis.socket);
  open_conn(text_format("unix://%s", path));
}

static void test_scripts_that_went_away(void **state) {
  (void)state;
  start(&(struct redis_options){0});
  assert_int_equal(ask(), STATUS_OK);
  redis_text(&at.redis, "SCRIPT FLUSH");
  assert_int_equal(ask(), STATUS_OK);
  enum status statuses[LENGTH(at.calls)];
  redisReply *replies[LENGTH(at.calls)];
  const uint32_t partitions[LENGTH(at.calls)] = {0, 1, 2, 3};
  redis_text(&at.redis, "SCRIPT FLUSH");
  for (size_t i = 0; i < LENGTH(at.calls); i++) { /* one that is answered, one that is refused, in turn */
    assert_int_equal(i % 2 == 0 ? store_lease_encode(at.calls[i], at.target, partitions[i], STR_LIT("me"), 1000, LEASE_ONLY_MARK)
                                : store_adopted_encode(at.calls[i], at.target, partitions[i]),
                     STATUS_OK);
  }
  redis_conn_pipeline(at.conn, partitions, at.calls, LENGTH(at.calls), statuses, replies);
  for (size_t i = 0; i < LENGTH(at.calls); i++) {
    assert_int_equal(statuses[i], i % 2 == 0 ? STATUS_OK : STATUS_INITIALISING);
    assert_int_equal(replies[i] != NULL, i % 2 == 0);
    freeReplyObject(replies[i]);
  }
}

static void test_cut_and_back(void **state) {
  (void)state;
  start(&(struct redis_options){0});
  assert_int_equal(ask(), STATUS_OK);
  proxy_cut(at.proxy);
  assert_int_equal(ask(), STATUS_CLOSED);
  assert_int_equal(ask(), STATUS_OK);
  proxy_refuse(at.proxy, true);
  assert_int_equal(ask(), STATUS_CLOSED);
  assert_int_equal(ask(), STATUS_UNAVAILABLE);
  assert_int_equal(ask(), STATUS_UNAVAILABLE); /* not even tried: the next attempt is not due */
  assert_string_not_equal(redis_conn_error(at.conn), "");
  proxy_refuse(at.proxy, false);
  WAIT_UNTIL(ask() == STATUS_OK, 5000);
}

static void test_pipeline_cut_between_two_answers(void **state) {
  (void)state;
  start(&(struct redis_options){0});
  assert_int_equal(ask(), STATUS_OK);
  enum status statuses[LENGTH(at.calls)];
  redisReply *replies[LENGTH(at.calls)];
  const uint32_t partitions[LENGTH(at.calls)] = {0, 0, 0, 0};
  for (size_t i = 0; i < LENGTH(at.calls); i++) {
    assert_int_equal(store_lease_encode(at.calls[i], at.target, 0, STR_LIT("me"), 1000, LEASE_ONLY_MARK), STATUS_OK);
  }
  proxy_cut_after_answers(at.proxy, 30); /* an answer has 20 bytes */
  redis_conn_pipeline(at.conn, partitions, at.calls, LENGTH(at.calls), statuses, replies);
  for (size_t i = 0; i < LENGTH(at.calls); i++) {
    assert_int_equal(statuses[i], i == 0 ? STATUS_OK : STATUS_CLOSED);
    assert_int_equal(replies[i] != NULL, i == 0);
    freeReplyObject(replies[i]);
  }
  assert_int_equal(ask(), STATUS_OK);
}

static void test_no_answer_in_time(void **state) {
  (void)state;
  start(&(struct redis_options){0});
  assert_int_equal(ask(), STATUS_OK);
  proxy_blackhole(at.proxy, true);
  int64_t before = wait_now_ms();
  assert_int_equal(ask(), STATUS_CLOSED);
  assert_string_equal(redis_conn_error(at.conn), "no answer in time");
  assert_in_range(wait_now_ms() - before, 900, 900 + wait_limit_ms(2000));
  proxy_blackhole(at.proxy, false);
  WAIT_UNTIL(ask() == STATUS_OK, 5000);
}

static void test_run_id(void **state) {
  (void)state;
  char before[REDIS_RUN_ID_LEN + 1], after[REDIS_RUN_ID_LEN + 1];
  start(&(struct redis_options){0});
  assert_int_equal(redis_conn_run_id(at.conn, 3, before), STATUS_OK);
  assert_int_equal(strlen(before), REDIS_RUN_ID_LEN);
  redis_server_kill(&at.redis);
  redis_server_restart(&at.redis);
  assert_int_equal(ask(), STATUS_CLOSED);
  WAIT_UNTIL(redis_conn_run_id(at.conn, 3, after) == STATUS_OK, 5000);
  assert_string_not_equal(before, after);
}

static void test_password(void **state) {
  (void)state;
  redis_server_start(&at.redis, &(struct redis_options){0});
  redis_text(&at.redis, "ACL SETUSER me on >pw@1 ~* +@all");
  redis_text(&at.redis, "CONFIG SET requirepass top:secret");
  static const struct {
    const char *credentials;
    enum status status;
    const char *error;
  } cases[] = {
      {"", STATUS_UNAVAILABLE, "NOAUTH"},
      {":top%3Asecret@", STATUS_OK, ""},
      {":wrong-secret@", STATUS_UNAVAILABLE, "WRONGPASS"},
      {"me:pw%401@", STATUS_OK, ""},
      {"me:wrong-secret@", STATUS_UNAVAILABLE, "WRONGPASS"},
  };
  for (size_t i = 0; i < LENGTH(cases); i++) {
    open_conn(text_format("unix://%s%s?db=3", cases[i].credentials, at.redis.socket));
    assert_int_equal(ask(), cases[i].status);
    assert_non_null(strstr(redis_conn_error(at.conn), cases[i].error));
    assert_null(strstr(redis_conn_error(at.conn), "secret"));
    close_conn();
  }
  redis_text(&at.redis, "SELECT 3");
  assert_int_equal(redis_integer(&at.redis, "EXISTS test:presence:clock:v1:{0}"), 1);
}

/* ---- TLS */

static const char *tls_folder;

/* A certificate authority of our own and a certificate for `name`, made by openssl(1); false where that is missing. */
static bool make_certificates(const char *name) {
  tls_folder = scratch_folder("tls");
  const char *script = text_format(
      "cd %s && openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -subj /CN=test -days 2 &&"
      " openssl req -newkey rsa:2048 -nodes -keyout key -out csr -subj /CN=redis &&"
      " printf 'subjectAltName=%s' >ext && openssl x509 -req -in csr -CA ca.crt -CAkey ca.key -CAcreateserial -out crt"
      " -days 2 -extfile ext",
      tls_folder, name);
  const char *argv[] = {"/bin/sh", "-c", script, NULL};
  struct child child = child_start(&(struct child_options){.argv = argv, .log = text_format("%s/log", tls_folder)});
  return child_wait(&child, 30000) == 0;
}

static int start_tls_server(void) {
  const char *config[] = {"tls-cert-file",
                          text_format("%s/crt", tls_folder),
                          "tls-key-file",
                          text_format("%s/key", tls_folder),
                          "tls-ca-cert-file",
                          text_format("%s/ca.crt", tls_folder),
                          "tls-auth-clients",
                          "no",
                          NULL};
  redis_server_start(&at.redis, &(struct redis_options){.config = config});
  for (int port = 20000 + getpid() % 20000, end = port + 100; port < end; port++) {
    redisReply *reply = redisCommand(at.redis.context, "CONFIG SET tls-port %d", port);
    bool taken = reply->type == REDIS_REPLY_ERROR;
    freeReplyObject(reply);
    if (!taken) return port;
  }
  fail_msg("no free port");
  return 0;
}

static void test_tls(void **state) {
  (void)state;
  if (!make_certificates("DNS:localhost")) skip();
  int port = start_tls_server();
  assert_int_equal(setenv("SSL_CERT_FILE", text_format("%s/ca.crt", tls_folder), 1), 0);
  open_conn(text_format("rediss://localhost:%d", port));
  assert_int_equal(ask(), STATUS_OK);
  close_conn();
  open_conn(text_format("rediss://127.0.0.1:%d", port)); /* not what the certificate names */
  assert_int_equal(ask(), STATUS_UNAVAILABLE);
  assert_non_null(strstr(redis_conn_error(at.conn), "TLS failed"));
  close_conn();
  assert_int_equal(setenv("SSL_CERT_FILE", "/dev/null", 1), 0); /* nobody is trusted */
  open_conn(text_format("rediss://localhost:%d", port));
  assert_int_equal(ask(), STATUS_UNAVAILABLE);
  assert_non_null(strstr(redis_conn_error(at.conn), "TLS failed"));
  assert_int_equal(unsetenv("SSL_CERT_FILE"), 0);
}

struct over_link {
  struct loop *loop;
  struct redis_link *link;
  size_t sent, answered, fine;
  int64_t deadline_ms;
};

static void on_link_reply(void *context, enum status status, const redisReply *reply) {
  struct over_link *over = context;
  over->answered++;
  over->fine += status == STATUS_OK && reply;
}

static int64_t send_over_link(void *context) {
  struct over_link *over = context;
  while (over->sent < 500 && redis_link_ready(over->link, 0) && redis_link_outstanding(over->link, 0) < 50) {
    assert_int_equal(redis_link_send(over->link, 0, at.calls[0], on_link_reply, over), STATUS_OK);
    over->sent++;
  }
  redis_link_flush(over->link);
  if (over->answered == 500 || wait_now_ms() > over->deadline_ms) loop_stop(over->loop);
  return 5000;
}

static void test_tls_link(void **state) {
  (void)state;
  struct over_link over = {.deadline_ms = wait_now_ms() + wait_limit_ms(60000)};
  if (!make_certificates("IP:127.0.0.1")) skip();
  int port = start_tls_server();
  assert_int_equal(setenv("SSL_CERT_FILE", text_format("%s/ca.crt", tls_folder), 1), 0);
  open_conn(text_format("rediss://127.0.0.1:%d", port));
  assert_int_equal(store_lease_encode(at.calls[0], at.target, 0, STR_LIT("me"), 1000, LEASE_ONLY_MARK), STATUS_OK);
  assert_int_equal(loop_new(clock_system(), &over.loop), STATUS_OK);
  assert_int_equal(redis_link_new(at.target, over.loop, 5000, &over.link), STATUS_OK);
  loop_set_after_pass(over.loop, send_over_link, &over);
  assert_int_equal(loop_run(over.loop), STATUS_OK);
  assert_int_equal(over.answered, 500);
  assert_int_equal(over.fine, 500);
  redis_link_free(over.link);
  loop_free(over.loop);
  assert_int_equal(unsetenv("SSL_CERT_FILE"), 0);
}

/* ---- checks at start */

static const char *loses; /* as the last check found it */

/* What is logged while check runs, and its status. */
static const char *logged_by_check(enum status *status, char **message) {
  fflush(stderr);
  int kept = dup(STDERR_FILENO);
  const char *path = scratch_path("log");
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  assert_true(dup2(fileno(file), STDERR_FILENO) >= 0);
  *status = redis_conn_check_servers(at.conn, &loses, message);
  assert_true(dup2(kept, STDERR_FILENO) >= 0);
  close(kept);
  fclose(file);
  char *text = place_read(path, NULL);
  const char *log = text_format("%s", text);
  free(text);
  return log;
}

static void test_shipped_settings_are_fine(void **state) {
  (void)state;
  enum status status;
  char *message;
  start(&(struct redis_options){.appendonly = true});
  const char *log = logged_by_check(&status, &message);
  assert_int_equal(status, STATUS_OK);
  assert_null(message);
  assert_null(strstr(log, "check=maxmemory-policy"));
  assert_null(strstr(log, "check=persistence"));
  assert_null(strstr(log, "listpack"));
  assert_null(loses);
}

static void test_eviction_is_refused(void **state) {
  (void)state;
  enum status status;
  char *message;
  start(&(struct redis_options){0});
  redis_text(&at.redis, "CONFIG SET maxmemory-policy allkeys-lru");
  (void)logged_by_check(&status, &message);
  assert_int_equal(status, STATUS_REFUSED);
  assert_non_null(strstr(message, "has maxmemory-policy allkeys-lru; it must be noeviction, since an evicted key loses events"));
  free(message);
}

static void test_settings_that_are_warned_of(void **state) {
  (void)state;
  enum status status;
  char *message;
  start(&(struct redis_options){0});
  redis_text(&at.redis, "CONFIG SET hash-max-listpack-value 64");
  redis_text(&at.redis, "CONFIG SET zset-max-listpack-entries 10");
  const char *log = logged_by_check(&status, &message);
  assert_int_equal(status, STATUS_OK);
  assert_non_null(strstr(log, "check=persistence found=none"));
  assert_non_null(strstr(loses, "a restart loses all open sessions"));
  assert_non_null(strstr(log, "check=hash-max-listpack-value found=64"));
  assert_non_null(strstr(log, "check=zset-max-listpack-entries found=10"));
  assert_null(strstr(log, "hash-max-listpack-entries"));
  redis_text(&at.redis, "CONFIG SET save %s", "3600 1");
  log = logged_by_check(&status, &message);
  assert_non_null(strstr(log, "found=\"snapshots only\""));
}

static void test_config_that_may_not_be_asked(void **state) {
  (void)state;
  enum status status;
  char *message;
  redis_server_start(&at.redis, &(struct redis_options){0});
  redis_text(&at.redis, "ACL SETUSER me on >pw ~* +@all -config");
  open_conn(text_format("unix://me:pw@%s", at.redis.socket));
  const char *log = logged_by_check(&status, &message);
  assert_int_equal(status, STATUS_OK);
  assert_non_null(strstr(log, "check=maxmemory-policy found=\"CONFIG GET is not allowed\""));
}

static void test_replica(void **state) {
  (void)state;
  enum status status;
  char *message;
  start(&(struct redis_options){0});
  redis_text(&at.redis, "REPLICAOF 127.0.0.1 1");
  (void)logged_by_check(&status, &message);
  assert_int_equal(status, STATUS_UNAVAILABLE);
  assert_string_equal(redis_conn_error(at.conn), "this server is a replica, a primary is needed");
}

int main(void) {
  signal(SIGPIPE, SIG_IGN);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_scripts_that_went_away, close_all),
      cmocka_unit_test_teardown(test_cut_and_back, close_all),
      cmocka_unit_test_teardown(test_pipeline_cut_between_two_answers, close_all),
      cmocka_unit_test_teardown(test_no_answer_in_time, close_all),
      cmocka_unit_test_teardown(test_run_id, close_all),
      cmocka_unit_test_teardown(test_password, close_all),
      cmocka_unit_test_teardown(test_tls, close_all),
      cmocka_unit_test_teardown(test_tls_link, close_all),
      cmocka_unit_test_teardown(test_shipped_settings_are_fine, close_all),
      cmocka_unit_test_teardown(test_eviction_is_refused, close_all),
      cmocka_unit_test_teardown(test_settings_that_are_warned_of, close_all),
      cmocka_unit_test_teardown(test_config_that_may_not_be_asked, close_all),
      cmocka_unit_test_teardown(test_replica, close_all),
  };
  if (metrics_init()) return 1;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
