/* The programs as an operator meets them: options and where they come from, where it listens, an orderly end. What ends a start
 * is in test_app.c. */
#include "support/test.h"

#include "support/scratch.h"
#include "support/world.h"

#include <ctype.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static struct world *world;

static int start(void **state) {
  world = world_start(state, &(struct world_options){.no_service = true});
  world->begun = 0;
  return 0;
}

/* One more variable (or two, or three) over the world's. */
static const char *const *with(const char *first, const char *second, const char *third) {
  static const char *all[48];
  size_t count = 0;
  for (const char *const *each = world_environment(world); *each != NULL; each++) all[count++] = *each;
  all[count++] = "PRESENCE_LISTEN=127.0.0.1:0";
  all[count++] = first;
  all[count] = second;
  all[count + 1] = second != NULL ? third : NULL;
  all[count + 2] = NULL;
  return all;
}

static int lines(const char *text) {
  int count = 0;
  for (; *text != '\0'; text++) count += *text == '\n';
  return count;
}

static const char *last_line(const char *text) {
  size_t end = strlen(text);
  while (end > 0 && text[end - 1] == '\n') end--;
  size_t from = end;
  while (from > 0 && text[from - 1] != '\n') from--;
  return text_format("%.*s", (int)(end - from), text + from);
}

/* presenced must end with this code; its last line on stderr names this word (for usage it is the only line). */
static void expect_end(int code, const char *word, const char *const *environment, const char *const *arguments) {
  static const char *const none[] = {NULL};
  struct outcome outcome = run_program("presenced", environment, arguments != NULL ? arguments : none);
  if (outcome.code != code || strstr(last_line(outcome.err), word) == NULL || (code == 2 && lines(outcome.err) != 1))
    fail_msg("exit code %d with '%s' wanted, got %d:\n%s", code, word, outcome.code, outcome.err);
  assert_string_equal(outcome.out, "");
}

static const char *option_variable(const char *name) {
  char *text = strdup(text_format("PRESENCE_%s", name));
  for (char *at = text; *at != '\0'; at++) *at = (char)(*at == '-' ? '_' : toupper((unsigned char)*at));
  const char *kept = text_format("%s", text);
  free(text);
  return kept;
}

static const struct {
  const char *name, *fallback;
} options[] = {
#define OPTION(field, name, type, fallback, least, most, unit, meaning) {name, fallback},
#include "options.def"
#undef OPTION
};

static void test_help_lists_every_option(void **state) {
  (void)state;
  static const char *const arguments[] = {"--help", NULL};
  static const char *const programs[] = {"presenced", "presencectl"};
  for (size_t p = 0; p < LENGTH(programs); p++) {
    struct outcome outcome = run_program(programs[p], NULL, arguments);
    assert_int_equal(outcome.code, 0);
    assert_string_equal(outcome.err, "");
    for (size_t i = 0; i < LENGTH(options); i++) {
      if (strstr(outcome.out, text_format("--%s", options[i].name)) == NULL)
        fail_msg("%s --help does not list --%s", programs[p], options[i].name);
      if (p == 0 && strstr(outcome.out, options[i].fallback) == NULL)
        fail_msg("--help does not tell the default of --%s: %s", options[i].name, options[i].fallback);
    }
  }
}

/* The contract's table, by hand: what others rely on. */
static void test_the_options_of_the_contract(void **state) {
  (void)state;
  static const struct {
    const char *variable, *fallback;
  } contract[] = {
      {"PRESENCE_LISTEN", "127.0.0.1:8080"},
      {"PRESENCE_REDIS_URL", "redis://127.0.0.1:6379/0"},
      {"PRESENCE_POSTGRES_URL", ""},
      {"PRESENCE_ROLES", "api,worker"},
      {"PRESENCE_THREADS", "0"},
      {"PRESENCE_ENV", "prod"},
      {"PRESENCE_PARTITIONS", "8"},
      {"PRESENCE_REDIS_MODE", "auto"},
      {"PRESENCE_OUTAGE_MS", "200"},
      {"PRESENCE_SETTLE_MS", "5000"},
      {"PRESENCE_RECALIBRATE_MS", "60000"},
      {"PRESENCE_RETENTION_DAYS", "7"},
      {"PRESENCE_FORGET_DAYS", "0"},
      {"PRESENCE_REQUEST_TIMEOUT_MS", "10000"},
      {"PRESENCE_DRAIN_MS", "0"},
      {"PRESENCE_CORS_ORIGIN", ""},
      {"PRESENCE_TLS_CERT", ""},
      {"PRESENCE_TLS_KEY", ""},
      {"PRESENCE_IDLE_TIMEOUT_MS", "75000"},
      {"PRESENCE_MAX_CONNECTIONS", "20000"},
      {"PRESENCE_STARTUP_WAIT_MS", "10000"},
      {"PRESENCE_LOG_LEVEL", "info"},
      {"PRESENCE_LOG_FORMAT", "logfmt"},
  };
  for (size_t i = 0; i < LENGTH(contract); i++) {
    size_t found = LENGTH(options);
    for (size_t k = 0; k < LENGTH(options); k++)
      if (strcmp(option_variable(options[k].name), contract[i].variable) == 0) found = k;
    if (found == LENGTH(options))
      fail_msg("there is no option %s", contract[i].variable);
    else
      assert_string_equal(options[found].fallback, contract[i].fallback);
  }
}

static void test_bad_usage_ends_with_2(void **state) {
  (void)state;
  static const struct {
    const char *argument, *word;
  } cases[] = {
      {"--no-such-option=1", "no-such-option"},
      {"--outage-ms=x", "outage-ms"},
      {"--outage-ms=-1", "outage-ms"},
      {"--outage-ms=", "outage-ms"},
      {"--outage-ms=1.5", "outage-ms"},
      {"--outage-ms=99999999999999999999", "outage-ms"},
      {"--partitions=0", "partitions"},
      {"--roles=cook", "roles"},
      {"--roles=", "roles"},
      {"--redis-mode=fast", "redis-mode"},
      {"--redis-url=http://x", "redis-url"},
      {"--redis-url=redis://127.0.0.1:99999", "port must be"},
      {"--postgres-url=no_such_word=1", "no connection string"},
      {"--listen=nowhere", "listen"},
      {"--listen=127.0.0.1:70000", "listen"},
      {"--log-level=loud", "log-level"},
      {"--log-format=xml", "log-format"},
      {"--env=A:B", "env"},
      {"--config=/nonexistent/file", "/nonexistent/file"},
      {"stray", "stray"},
      {"--outage-ms", "outage-ms"},
  };
  for (size_t i = 0; i < LENGTH(cases); i++) {
    const char *const arguments[] = {cases[i].argument, NULL};
    expect_end(2, cases[i].word, world_environment(world), arguments);
  }
  expect_end(2, "PRESENCE_THREADS", with("PRESENCE_THREADS=many", NULL, NULL), NULL);
}

static const char *write_file(const char *text) {
  const char *path = scratch_path("config");
  FILE *file = fopen(path, "we");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
  return path;
}

static void test_bad_config_files_end_with_2(void **state) {
  (void)state;
  static const struct {
    const char *text, *word;
  } cases[] = {
      {"nonsense\n", "1"},
      {"outage_ms = 500\nno_such = 1\n", "no_such"},
      {"outage_ms = soon\n", "outage"},
      {"= 5\n", "1"},
  };
  for (size_t i = 0; i < LENGTH(cases); i++) {
    const char *const arguments[] = {"--config", write_file(cases[i].text), NULL};
    expect_end(2, cases[i].word, NULL, arguments);
  }
}

/* Whose value wins shows in the complaint about it. */
static void test_flags_win_over_environment_over_file(void **state) {
  (void)state;
  const char *file = write_file("# a comment\n\npartitions = 11\nlog-format = json\n");
  const char *const from_file[] = {"--config", file, NULL};
  const char *const from_flag[] = {"--config", file, "--partitions", "13", NULL};
  struct presenced first = {0};
  presenced_start(&first, world_environment(world)); /* made with 8 */
  assert_int_equal(presenced_stop(&first), 0);
  expect_end(1, "not 11", world_environment(world), from_file);
  expect_end(1, "not 12", with("PRESENCE_PARTITIONS=12", NULL, NULL), from_file);
  expect_end(1, "not 13", with("PRESENCE_PARTITIONS=12", NULL, NULL), from_flag);
}

static void test_a_port_in_use_ends_with_1(void **state) {
  (void)state;
  int other = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t length = sizeof address;
  /* Also where the other one would share it. */
  assert_int_equal(setsockopt(other, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on), 0);
  assert_int_equal(bind(other, (struct sockaddr *)&address, length), 0);
  assert_int_equal(listen(other, 1), 0);
  assert_int_equal(getsockname(other, (struct sockaddr *)&address, &length), 0);
  const char *taken = text_format("127.0.0.1:%d", ntohs(address.sin_port));
  expect_end(1, taken, with(text_format("PRESENCE_LISTEN=%s", taken), "PRESENCE_THREADS=2", NULL), NULL);
  close(other);
}

static void test_a_replica_ends_with_1(void **state) {
  (void)state;
  struct redis_server replica;
  static const char *const config[] = {"replicaof", "127.0.0.1 1", NULL};
  redis_server_start(&replica, &(struct redis_options){.config = config});
  expect_end(1, "replica", with(text_format("PRESENCE_REDIS_URL=%s", replica.url), "PRESENCE_STARTUP_WAIT_MS=500", NULL), NULL);
  redis_server_stop(&replica);
}

static void test_it_listens_where_it_is_told(void **state) {
  (void)state;
  struct presenced process = {0};
  presenced_start(&process, with("PRESENCE_LISTEN=[::1]:0", "PRESENCE_THREADS=2", "PRESENCE_LOG_FORMAT=json"));
  const char *address = text_format("[::1]%s", strrchr(process.address, ':'));
  struct client *client = client_open(address);
  expect_status(client, 200, "GET", "/healthz", NULL);
  client_close(client);
  char *log = place_read(process.log, NULL);
  for (char *line = strtok(log, "\n"); line != NULL; line = strtok(NULL, "\n")) {
    json_t *json = json_loads(line, JSON_REJECT_DUPLICATES, NULL);
    if (!json_is_object(json)) fail_msg("no JSON line in the log: %s", line);
    json_decref(json);
  }
  free(log);
  assert_int_equal(presenced_stop(&process), 0);
}

/* An address of this machine that is not loopback; NULL: it has none. */
static const char *outer_address(void) {
  const char *found = NULL;
  struct ifaddrs *all = NULL;
  assert_int_equal(getifaddrs(&all), 0);
  for (const struct ifaddrs *each = all; each != NULL && found == NULL; each = each->ifa_next) {
    char host[NI_MAXHOST];
    if (each->ifa_addr == NULL || each->ifa_addr->sa_family != AF_INET || (each->ifa_flags & IFF_LOOPBACK) != 0) continue;
    if (getnameinfo(each->ifa_addr, sizeof(struct sockaddr_in), host, sizeof host, NULL, 0, NI_NUMERICHOST) == 0)
      found = text_format("%s", host);
  }
  freeifaddrs(all);
  return found;
}

static void test_metrics_are_for_admins_where_others_can_reach_them(void **state) {
  (void)state;
  const char *host = outer_address();
  if (host == NULL) {
    print_message("skipped: this machine has no address but loopback\n");
    skip();
  }
  struct presenced process = {0};
  presenced_start(&process, with(text_format("PRESENCE_LISTEN=%s:0", host), NULL, NULL));
  struct client *client = client_open(text_format("%s%s", host, strrchr(process.address, ':')));
  expect_error(client, 401, NULL, "GET", "/metrics", NULL);
  client->token = world->token;
  expect_error(client, 403, NULL, "GET", "/metrics", NULL);
  client->token = world_token(world, NULL, NULL);
  assert_int_equal(client_call(client, "GET", "/metrics", NULL)->status, 200);
  client->token = NULL;
  expect_status(client, 200, "GET", "/healthz", NULL);
  client_close(client);
  assert_int_equal(presenced_stop(&process), 0);
}

static void test_a_worker_alone_serves_health_and_metrics_only(void **state) {
  (void)state;
  struct presenced process = {0};
  presenced_start(&process, with("PRESENCE_ROLES=worker", NULL, NULL));
  presenced_wait_ready(&process);
  struct client *client = client_open_as(process.address, world->token);
  expect_status(client, 200, "GET", "/healthz", NULL);
  assert_int_equal(client_call(client, "GET", "/metrics", NULL)->status, 200);
  expect_error(client, 404, NULL, "GET", device_path(world, "d", ""), NULL);
  expect_error(client, 404, NULL, "POST", device_path(world, "d", "/heartbeat"), NULL);
  client_close(client);
  assert_int_equal(presenced_stop(&process), 0);
}

static void test_sigterm_with_idle_and_busy_connections(void **state) {
  (void)state;
  struct presenced process = {0};
  presenced_start(&process, world_environment(world));
  presenced_wait_ready(&process);
  struct client *idle = client_open_as(process.address, world->token);
  expect_status(idle, 204, "POST", device_path(world, "d", "/heartbeat"), NULL);
  struct client *halfway = client_open_as(process.address, world->token);
  client_send_text(halfway, "POST /v1/tenants/x/devices/d/heartbeat HTTP/1.1\r\nHost: x\r\nContent-Le");
  struct client *waiting = client_open_as(process.address, world->token);
  redis_text(&world->redis, "CLIENT PAUSE 1000 ALL");
  client_ask(waiting, "POST", device_path(world, "d", "/heartbeat"), NULL);
  expect_status(idle, 200, "GET", "/healthz", NULL); /* the one loop has read the other one, too */
  int64_t start_ms = wait_now_ms();
  child_signal(&process.child, SIGTERM);
  int status = client_read(waiting)->status; /* what is in flight gets its answer */
  assert_true(status == 204 || status == 503);
  assert_int_equal(child_wait(&process.child, 6000), 0);
  assert_true(wait_now_ms() - start_ms < wait_limit_ms(5000));
  assert_true(client_sees_end(idle, 1000));
  client_close(idle);
  client_close(halfway);
  client_close(waiting);
}

static void test_sigterm_drains_first_where_told(void **state) {
  (void)state;
  struct presenced process = {0};
  presenced_start(&process, with("PRESENCE_DRAIN_MS=1000", NULL, NULL));
  presenced_wait_ready(&process);
  child_signal(&process.child, SIGTERM);
  struct client *client = client_open_as(process.address, world->token);
  WAIT_UNTIL(client_call(client, "GET", "/readyz", NULL)->status == 503, 900);
  expect_status(client, 204, "POST", device_path(world, "d", "/heartbeat"), NULL); /* still served meanwhile */
  assert_int_equal(child_wait(&process.child, 6000), 0);
  assert_false(client_try(process.address));
  client_close(client);
}

static void test_sigterm_while_the_servers_are_away(void **state) {
  (void)state;
  struct presenced process = {0};
  presenced_start(&process, world_environment(world));
  presenced_wait_ready(&process);
  child_signal(&world->redis.child, SIGSTOP);
  int code = presenced_stop(&process);
  child_signal(&world->redis.child, SIGCONT);
  assert_int_equal(code, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_help_lists_every_option),
      cmocka_unit_test(test_the_options_of_the_contract),
      cmocka_unit_test(test_bad_usage_ends_with_2),
      cmocka_unit_test(test_bad_config_files_end_with_2),
      cmocka_unit_test(test_flags_win_over_environment_over_file),
      cmocka_unit_test(test_a_port_in_use_ends_with_1),
      cmocka_unit_test(test_a_replica_ends_with_1),
      cmocka_unit_test(test_it_listens_where_it_is_told),
      cmocka_unit_test(test_metrics_are_for_admins_where_others_can_reach_them),
      cmocka_unit_test(test_a_worker_alone_serves_health_and_metrics_only),
      cmocka_unit_test(test_sigterm_with_idle_and_busy_connections),
      cmocka_unit_test(test_sigterm_drains_first_where_told),
      cmocka_unit_test(test_sigterm_while_the_servers_are_away),
  };
  return cmocka_run_group_tests(tests, start, world_teardown);
}
