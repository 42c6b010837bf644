/* TLS on every road, with the programs as they are installed: HTTPS with a certificate that is replaced, Redis and PostgreSQL
 * behind certificates of a private authority, Redis asking for one of ours. */
#include "support/test.h"

#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "support/pki.h"
#include "support/postgres_server.h"
#include "support/presenced.h"
#include "support/redis_server.h"
#include "support/scratch.h"

static struct {
  struct certified authority, stranger, server, client, https;
  struct redis_server redis;
  struct database database;
  struct presenced process;
  const char *redis_url, *postgres_url, *token;
} at;

#define OPTIONS_MAX 16

/* The options of a process that fits, then what the test adds; a later line wins. */
static const char *const *with(const char *first, const char *second) {
  static const char *all[OPTIONS_MAX];
  const char *given[OPTIONS_MAX] = {
      text_format("PRESENCE_REDIS_URL=%s", at.redis_url),
      text_format("PRESENCE_REDIS_TLS_CA=%s", at.authority.cert),
      text_format("PRESENCE_REDIS_TLS_CERT=%s", at.client.cert),
      text_format("PRESENCE_REDIS_TLS_KEY=%s", at.client.key),
      text_format("PRESENCE_POSTGRES_URL=%s", at.postgres_url),
      text_format("PRESENCE_TLS_CERT=%s", at.https.cert),
      text_format("PRESENCE_TLS_KEY=%s", at.https.key),
      "PRESENCE_OUTAGE_MS=5000",
      "PRESENCE_SETTLE_MS=0",
      "PRESENCE_THREADS=2",
      "PRESENCE_STARTUP_WAIT_MS=2000",
      first,
      second,
      NULL,
  };
  memcpy(all, given, sizeof all);
  return all;
}

static void start_redis(void) {
  int port = free_port();
  const char *config[] = {"tls-port",    text_format("%d", port), "tls-cert-file",   at.server.cert,     "tls-key-file",
                          at.server.key, "tls-ca-cert-file",      at.authority.cert, "tls-auth-clients", "yes",
                          NULL};
  redis_server_start(&at.redis, &(struct redis_options){.config = config});
  at.redis_url = text_format("rediss://127.0.0.1:%d/0", port);
}

static void start_postgres(void) {
  int port = postgres_server_speak_tls(at.server.cert, at.server.key);
  database_create(&at.database, true);
  at.postgres_url =
      text_format("host=localhost hostaddr=127.0.0.1 port=%d user=presence dbname=%s sslmode=verify-full sslrootcert=%s", port,
                  at.database.name, at.authority.cert);
}

static int start(void **state) {
  (void)state;
  if (!pki_is_here()) {
    print_message("skipped: no openssl command\n");
    return -1;
  }
  at.authority = pki_authority("Presence test authority");
  at.stranger = pki_authority("Somebody else");
  at.server = pki_issue(&at.authority, "servers", "IP:127.0.0.1,DNS:localhost", 2);
  at.client = pki_issue(&at.authority, "presenced", "DNS:presenced", 2);
  at.https = pki_issue(&at.authority, "first", "IP:127.0.0.1", 2);
  start_redis();
  start_postgres();
  return curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? 0 : -1;
}

static int stop(void **state) {
  (void)state;
  curl_global_cleanup();
  presenced_kill(&at.process);
  redis_server_stop(&at.redis);
  database_drop(&at.database);
  return 0;
}

static const char *control(const char *const *environment, int code, const char *const *words) {
  struct outcome outcome = run_program("presencectl", environment, words);
  if (outcome.code != code) fail_msg("presencectl %s: exit code %d, wanted %d: %s", words[0], outcome.code, code, outcome.err);
  return code == 0 ? outcome.out : outcome.err;
}

static size_t take(char *data, size_t size, size_t count, void *context) {
  const char **body = context;
  *body = text_format("%s%.*s", *body, (int)(size * count), data);
  return size * count;
}

/* GET (POST where there is a token) over HTTPS on a connection that trusts only this authority; 0: it did not come about. */
static long ask(const char *authority, const char *path, const char **body) {
  const char *nowhere = "";
  long status = 0;
  CURL *curl = curl_easy_init();
  assert_non_null(curl);
  body = body != NULL ? body : &nowhere;
  *body = "";
  curl_easy_setopt(curl, CURLOPT_URL, text_format("https://%s%s", at.process.address, path));
  curl_easy_setopt(curl, CURLOPT_CAINFO, authority);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, 30L);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, take);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, body);
  struct curl_slist *headers = NULL;
  if (strncmp(path, "/v1/", 4) == 0) {
    headers = curl_slist_append(NULL, text_format("Authorization: Bearer %s", at.token));
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, "");
    curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  }
  if (curl_easy_perform(curl) == CURLE_OK) curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  curl_slist_free_all(headers);
  curl_easy_cleanup(curl);
  return status;
}

static void serve(const char *const *environment) {
  presenced_spawn(&at.process, environment);
  presenced_wait_listening(&at.process);
  WAIT_UNTIL(ask(at.authority.cert, "/readyz", NULL) == 200, 15000);
}

static void end(void) {
  int code = presenced_stop(&at.process);
  if (code != 0) {
    child_show_log("presenced", at.process.log);
    fail_msg("presenced ended with %d on SIGTERM", code);
  }
}

static void a_life_over_tls(void **state) {
  (void)state;
  serve(with(NULL, NULL));
  control(with(NULL, NULL), 0, (const char *const[]){"tenant", "create", "t", NULL});
  const char *made = control(with(NULL, NULL), 0,
                             (const char *const[]){"token", "create", "--tenant", "t", "--scope", "device", "--json", NULL});
  const char *secret = strstr(made, "\"secret\":");
  assert_non_null(secret);
  secret = strchr(secret + 9, '"') + 1;
  at.token = text_format("%.*s", (int)strcspn(secret, "\""), secret);
  WAIT_UNTIL(ask(at.authority.cert, "/v1/tenants/t/devices/d/heartbeat", NULL) == 204, 15000);
  assert_int_equal(ask(at.stranger.cert, "/readyz", NULL), 0);
  control(with(NULL, NULL), 0, (const char *const[]){"counts", NULL}); /* asks Redis */
  WAIT_UNTIL(sql_integer(&at.database, "SELECT count(*) FROM presence.outbox", NULL) == 1, 15000);
  assert_int_equal(sql_integer(&at.database,
                               "SELECT count(*) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid)"
                               " WHERE a.application_name LIKE 'presence%' AND NOT s.ssl",
                               NULL),
                   0);
  end();
}

static void the_certificate_is_replaced(void **state) {
  (void)state;
  const char *body;
  struct certified next = pki_issue(&at.stranger, "second", "IP:127.0.0.1", 30);
  serve(with(NULL, NULL));
  assert_int_equal(ask(at.stranger.cert, "/readyz", NULL), 0);
  pki_replace(next.cert, at.https.cert, true);
  child_signal(&at.process.child, SIGHUP); /* a certificate without its key */
  WAIT_UNTIL(presenced_logged(&at.process, "tls_reload_failed"), 15000);
  assert_true(presenced_logged(&at.process, "does not belong to the certificate"));
  WAIT_UNTIL(ask(at.authority.cert, "/readyz", NULL) == 200, 15000); /* a busy machine may have it say no for a moment */
  pki_replace(next.key, at.https.key, true);                         /* no signal: it looks by itself */
  WAIT_UNTIL(ask(at.stranger.cert, "/readyz", NULL) == 200, 15000);
  assert_int_equal(ask(at.authority.cert, "/readyz", NULL), 0);
  assert_int_equal(ask(at.stranger.cert, "/metrics", &body), 200);
  assert_non_null(strstr(body, "presence_tls_reloads_total{result=\"failed\"} "));
  assert_non_null(strstr(body, "presence_tls_reloads_total{result=\"ok\"} 1\n"));
  end();
}

static void a_start_that_cannot_be_ends_with_2(const char *first, const char *second, const char *why) {
  static const char *const none[] = {NULL};
  struct outcome outcome = run_program("presenced", with(first, second), none);
  const char *end = strchr(outcome.err, '\n');
  if (outcome.code != 2 || strstr(outcome.err, why) == NULL || end == NULL || end[1] != '\0')
    fail_msg("one line with '%s' and exit code 2 wanted, got %d: %s", why, outcome.code, outcome.err);
}

static void files_that_cannot_be_used_end_the_start(void **state) {
  (void)state;
  a_start_that_cannot_be_ends_with_2("PRESENCE_TLS_CERT=/nowhere/crt", NULL, "tls-cert /nowhere/crt: No such file");
  a_start_that_cannot_be_ends_with_2("PRESENCE_TLS_KEY=/nowhere/key", NULL, "tls-key /nowhere/key: No such file");
  a_start_that_cannot_be_ends_with_2("PRESENCE_TLS_KEY=/dev/null", NULL, "tls-key /dev/null: ");
  a_start_that_cannot_be_ends_with_2(text_format("PRESENCE_TLS_KEY=%s", at.client.key), NULL,
                                     "does not belong to the certificate");
}

static void files_towards_redis_end_the_start(void **state) {
  (void)state;
  static const char *const status[] = {"status", NULL};
  static const struct {
    const char *option, *why;
  } cases[] = {
      {"PRESENCE_REDIS_TLS_CA=/nowhere/ca", "redis-tls-ca /nowhere/ca: No such file"},
      {"PRESENCE_REDIS_TLS_CERT=/nowhere/crt", "redis-tls-cert /nowhere/crt: No such file"},
      {"PRESENCE_REDIS_TLS_KEY=/nowhere/key", "redis-tls-key /nowhere/key: No such file"},
      {"PRESENCE_REDIS_TLS_CA=/dev/null", "redis-tls-ca /dev/null: "},
      {"PRESENCE_REDIS_URL=redis://127.0.0.1:1", "redis-tls-ca: redis-url asks for no TLS"},
  };
  for (size_t i = 0; i < LENGTH(cases); i++) {
    const char *said = control(with(cases[i].option, NULL), 2, status);
    if (strstr(said, cases[i].why) == NULL) fail_msg("'%s' wanted, got: %s", cases[i].why, said);
  }
}

/* Redis has to show a certificate of the authority, for the right host, and to be content with ours. */
static void whom_we_do_not_trust_gets_nothing(void **state) {
  (void)state;
  const char *foreign = text_format("PRESENCE_REDIS_TLS_CA=%s", at.stranger.cert);
  const char *elsewhere = text_format("PRESENCE_REDIS_URL=rediss://127.0.0.2:%s", strrchr(at.redis_url, ':') + 1);
  static const char *const counts[] = {"counts", NULL};
  assert_non_null(strstr(control(with(foreign, NULL), 1, counts), "certificate verify failed"));
  assert_non_null(strstr(control(with(elsewhere, NULL), 1, counts), "Redis"));
  control(with("PRESENCE_REDIS_TLS_CERT=", "PRESENCE_REDIS_TLS_KEY="), 1, counts);
  const char *no_root = text_format("PRESENCE_POSTGRES_URL=%s sslrootcert=%s", at.postgres_url, at.stranger.cert);
  assert_non_null(strstr(control(with(no_root, NULL), 1, counts), "certificate verify failed"));
}

static void a_key_for_everybody_is_warned_of(void **state) {
  (void)state;
  assert_int_equal(chmod(at.https.key, 0644), 0);
  presenced_spawn(&at.process, with(NULL, NULL));
  presenced_wait_listening(&at.process);
  assert_true(presenced_logged(&at.process, "tls_key_exposed"));
  end();
  assert_int_equal(chmod(at.https.key, 0600), 0);
  presenced_spawn(&at.process, with(NULL, NULL));
  presenced_wait_listening(&at.process);
  assert_false(presenced_logged(&at.process, "tls_key_exposed"));
  end();
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_life_over_tls),
      cmocka_unit_test(the_certificate_is_replaced),
      cmocka_unit_test(files_that_cannot_be_used_end_the_start),
      cmocka_unit_test(files_towards_redis_end_the_start),
      cmocka_unit_test(whom_we_do_not_trust_gets_nothing),
      cmocka_unit_test(a_key_for_everybody_is_warned_of),
  };
  return cmocka_run_group_tests(tests, start, stop);
}
