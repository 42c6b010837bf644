#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/options.h"
#include "config.h"
#include "support/alloc_fail.h"

static struct config config;
static struct config_command_line line;
static char *error;
static char *arguments[32];

static int clean(void **state) {
  (void)state;
  config_free(&config);
  free(error);
  error = NULL;
  for (int id = 0; id < OPTION_COUNT; id++) {
    char name[OPTION_VARIABLE_BYTES];
    option_variable(&OPTIONS[id], name);
    unsetenv(name);
  }
  unsetenv("PRESENCE_CONFIG");
  return 0;
}

/* config_load with these arguments after the program's name. */
static enum status load(const char *const *given, struct config_flag *flags, size_t flag_count) {
  config_free(&config);
  free(error);
  int argc = 1;
  static char program[] = "presenced";
  arguments[0] = program;
  static char copies[32][256];
  for (; given[argc - 1] != NULL; argc++) {
    snprintf(copies[argc], sizeof copies[argc], "%s", given[argc - 1]);
    arguments[argc] = copies[argc];
  }
  line = (struct config_command_line){.argc = argc, .argv = arguments, .flags = flags, .flag_count = flag_count};
  return config_load(&config, &line, &error);
}

static enum status read_lines(struct str text) {
  free(error);
  return config_read_text(&config, "f", text, &error);
}
#define LOAD(...) load((const char *const[]){__VA_ARGS__, NULL}, NULL, 0)
#define LOAD_NOTHING() load((const char *const[]){NULL}, NULL, 0)
#define assert_refused(message, call)                                                                                            \
  do {                                                                                                                           \
    assert_status(STATUS_INVALID, call);                                                                                         \
    assert_string_equal(error, message);                                                                                         \
  } while (0)

static void defaults_are_those_of_the_contract(void **state) {
  (void)state;
  assert_status(STATUS_OK, LOAD_NOTHING());
  assert_string_equal(config.listen, "127.0.0.1:8080");
  assert_string_equal(config.redis_url, "redis://127.0.0.1:6379/0");
  assert_string_equal(config.postgres_url, "");
  assert_int_equal(config.roles, CONFIG_ROLE_API | CONFIG_ROLE_WORKER);
  assert_int_equal(config.threads, 0);
  assert_string_equal(config.env, "prod");
  assert_int_equal(config.partitions, 8);
  assert_int_equal(config.redis_mode, CONFIG_REDIS_AUTO);
  assert_int_equal(config.outage_ms, 200);
  assert_int_equal(config.settle_ms, 5000);
  assert_int_equal(config.recalibrate_ms, 60000);
  assert_int_equal(config.retention_days, 7);
  assert_int_equal(config.forget_days, 0);
  assert_int_equal(config.request_timeout_ms, 10000);
  assert_int_equal(config.drain_ms, 0);
  assert_string_equal(config.cors_origin, "");
  assert_string_equal(config.tls_cert, "");
  assert_string_equal(config.tls_key, "");
  assert_string_equal(config.redis_tls_ca, "");
  assert_string_equal(config.redis_tls_cert, "");
  assert_string_equal(config.redis_tls_key, "");
  assert_int_equal(config.idle_timeout_ms, 75000);
  assert_int_equal(config.max_connections, 20000);
  assert_int_equal(config.startup_wait_ms, 10000);
  assert_int_equal(config.log_level, LOG_LEVEL_INFO);
  assert_int_equal(config.log_format, LOG_FORMAT_LOGFMT);
}

static void every_option_can_be_given_in_every_place(void **state) {
  (void)state;
  for (int id = 0; id < OPTION_COUNT; id++) {
    char flag[96], variable[OPTION_VARIABLE_BYTES], text[96];
    const char *value = OPTIONS[id].default_value;
    option_variable(&OPTIONS[id], variable);
    snprintf(flag, sizeof flag, "--%s=%s", OPTIONS[id].name, value);
    assert_status(STATUS_OK, LOAD(flag));
    snprintf(flag, sizeof flag, "--%s", OPTIONS[id].name);
    assert_status(STATUS_OK, LOAD(flag, value));
    assert_int_equal(line.argc, 1);
    assert_int_equal(setenv(variable, OPTIONS[id].type->text ? value : "?", 1), 0);
    assert_status(OPTIONS[id].type->text ? STATUS_OK : STATUS_INVALID, LOAD_NOTHING());
    unsetenv(variable);
    snprintf(text, sizeof text, "%s = %s", variable + strlen("PRESENCE_"), value);
    for (char *at = text; *at != ' '; at++)
      if (*at >= 'A' && *at <= 'Z') *at = (char)(*at - 'A' + 'a');
    assert_status(STATUS_OK, read_lines(str_from(text)));
  }
}

static void write_file(char path[64], const char *text) {
  snprintf(path, 64, "/tmp/presence-options-XXXXXX");
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
  close(fd);
}

static void flags_win_over_environment_over_file(void **state) {
  (void)state;
  char path[64];
  write_file(path, "# a comment\n\noutage_ms = 300 # why\r\n  settle-ms=400\nthreads = 3\nredis_url = redis://:a#b@h/1\n");
  setenv("PRESENCE_SETTLE_MS", "500", 1);
  setenv("PRESENCE_THREADS", "4", 1);
  setenv("PRESENCE_ENV", "", 1); /* set to nothing is not set */
  assert_status(STATUS_OK, LOAD("--config", path, "--threads=5"));
  assert_int_equal(config.outage_ms, 300);
  assert_int_equal(config.settle_ms, 500);
  assert_int_equal(config.threads, 5);
  assert_string_equal(config.redis_url, "redis://:a#b@h/1");
  assert_string_equal(config.env, "prod");
  setenv("PRESENCE_CONFIG", path, 1);
  assert_status(STATUS_OK, LOAD_NOTHING());
  assert_int_equal(config.outage_ms, 300);
  setenv("PRESENCE_CONFIG", "/nonexistent/x", 1);
  assert_status(STATUS_OK, LOAD("--config", path)); /* the flag wins here as well */
  unlink(path);
}

static void words_and_own_flags_are_left_to_the_caller(void **state) {
  (void)state;
  struct config_flag flags[] = {
      {.name = "max-devices", .takes_value = true}, {.name = "json"}, {.name = "after", .takes_value = true}};
  const char *const given[] = {"tenant", "--json",          "create", "--max-devices", "-5", "t1", "--env=dev",
                               "-",      "--max-devices=7", "--",     "--env",         "-x", NULL};
  assert_status(STATUS_OK, load(given, flags, 3));
  assert_int_equal(line.argc, 7);
  static const char *const words[] = {"presenced", "tenant", "create", "t1", "-", "--env", "-x"};
  for (int i = 0; i < 7; i++) assert_string_equal(line.argv[i], words[i]);
  assert_true(flags[0].given && flags[1].given && !flags[2].given);
  assert_string_equal(flags[0].value, "7");
  assert_null(flags[1].value);
  assert_null(flags[2].value);
  assert_string_equal(config.env, "dev");
}

static void bad_flags_are_refused(void **state) {
  (void)state;
  struct config_flag flags[] = {{.name = "json"}};
  assert_refused("unknown flag --bogus; allowed: those that --help lists", LOAD("--bogus=1"));
  assert_refused("unknown flag -x; allowed: those that --help lists", LOAD("-x"));
  assert_refused("unknown flag --Listen; allowed: those that --help lists", LOAD("--Listen=1"));
  assert_refused("unknown flag --json; allowed: those that --help lists", LOAD("--json"));
  assert_refused("--json takes no value", load((const char *const[]){"--json=1", NULL}, flags, 1));
  assert_refused("--listen needs a value", LOAD("--listen"));
  assert_refused("--config needs a value", LOAD("--config"));
  assert_refused("--help takes no value", LOAD("--help=yes"));
}

static void bad_values_are_refused_wherever_they_stand(void **state) {
  (void)state;
  assert_refused("--outage-ms = 49: not allowed; allowed: 50 to 315360000000 ms", LOAD("--outage-ms", "49"));
  assert_refused("--outage-ms = : not allowed; allowed: 50 to 315360000000 ms", LOAD("--outage-ms="));
  assert_refused("--partitions = 8x: not allowed; allowed: 1 to 1024", LOAD("--partitions", "8x"));
  assert_refused("--redis-mode = fast: not allowed; allowed: auto, native, hpexpire, compat", LOAD("--redis-mode", "fast"));
  assert_refused("--roles = api,: not allowed; allowed: api, worker or api,worker", LOAD("--roles", "api,"));
  assert_refused("--env = A?b: not allowed; allowed: 1 to 32 of a-z 0-9 _ -", LOAD("--env", "A\nb"));
  assert_refused("tls-cert alone: tls-cert and tls-key go together", LOAD("--tls-cert", "c.pem"));
  assert_refused("tls-key alone: tls-cert and tls-key go together", LOAD("--tls-key", "k.pem"));
  assert_refused("redis-tls-key alone: redis-tls-cert and redis-tls-key go together", LOAD("--redis-tls-key", "k.pem"));
  assert_refused("redis-tls-ca: redis-url asks for no TLS; it is rediss:// then", LOAD("--redis-tls-ca", "ca.pem"));
  assert_refused("redis-tls-cert: redis-url asks for no TLS; it is rediss:// then",
                 LOAD("--redis-tls-cert", "c.pem", "--redis-tls-key", "k.pem", "--redis-url", "redis://h"));
  setenv("PRESENCE_THREADS", "-1", 1);
  assert_refused("PRESENCE_THREADS = -1: not allowed; allowed: 0 to 256", LOAD("--threads=1"));
}

static void a_secret_is_never_repeated(void **state) {
  (void)state;
  assert_refused("--redis-url: not allowed; allowed: redis://[USER:PASSWORD@]HOST[:PORT][/DB],"
                 " redis+sentinel://[USER:PASSWORD@]HOST[:PORT],.../NAME[/DB], redis+cluster://[USER:PASSWORD@]HOST[:PORT],...,"
                 " each also with rediss for TLS, or unix:///PATH",
                 LOAD("--redis-url", "http://:hunter2@h"));
  assert_refused("--postgres-url: not allowed; allowed: text without control characters",
                 LOAD("--postgres-url", "password=hunter2\x01"));
}

static void bad_files_are_refused(void **state) {
  (void)state;
  char path[64], expected[128];
  assert_refused("--config /nonexistent/f: no such file", LOAD("--config=/nonexistent/f"));
  assert_refused("--config /: cannot be read", LOAD("--config", "/"));
  char *huge = malloc(100000);
  assert_non_null(huge);
  memset(huge, '#', 99999);
  huge[99999] = '\0';
  write_file(path, huge);
  free(huge);
  snprintf(expected, sizeof expected, "--config %s: too large; allowed: 65536 bytes", path);
  assert_refused(expected, LOAD("--config", path));
  unlink(path);
}

static void bad_lines_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *text, *message;
  } cases[] = {
      {"\n\nbogus = 1", "f:3: unknown option bogus; allowed: those that --help lists"},
      {"config = x", "f:1: unknown option config; allowed: those that --help lists"},
      {"= 1", "f:1: unknown option ; allowed: those that --help lists"},
      {"listen", "f:1: no = in this line: listen; allowed: lines like listen = 127.0.0.1:8080"},
      {"threads = 1\nthreads = 2", "f:2: threads a second time"},
      {"threads = a\x01\x1b\xff", "f:1: threads = a???: not allowed; allowed: 0 to 256"},
      {"threads = 1 2", "f:1: threads = 1 2: not allowed; allowed: 0 to 256"},
      {"listen =", "f:1: listen = : not allowed; allowed: a numeric IPV4:PORT or [IPV6]:PORT, port 0 to 65535"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    assert_status(STATUS_INVALID, read_lines(str_from(cases[i].text)));
    assert_string_equal(error, cases[i].message);
  }
  struct str with_nul = STR_LIT("env = a\0b");
  assert_status(STATUS_INVALID, read_lines(with_nul));
}

static void messages_are_one_bounded_line(void **state) {
  (void)state;
  char text[5000] = "env = ";
  memset(text + 6, 'A', 4000);
  assert_status(STATUS_INVALID, read_lines(str_from(text)));
  assert_true(strlen(error) < 400);
  assert_non_null(strstr(error, "AAA...: not allowed"));
}

static void listen_takes_numeric_addresses(void **state) {
  (void)state;
  static const char *const good[] = {"0.0.0.0:0", "127.0.0.1:65535", "[::1]:8080", "[::]:1", "[fe80::1]:80"};
  static const char *const bad[] = {"",
                                    ":",
                                    ":80",
                                    "8080",
                                    "127.0.0.1",
                                    "127.0.0.1:",
                                    "127.0.0.1:65536",
                                    "127.0.0.1:-1",
                                    "127.0.0.1:8o",
                                    "::1:80",
                                    "[::1]",
                                    "[::1:80",
                                    "[127.0.0.1]:80",
                                    "localhost:80",
                                    "[]:80",
                                    "127.0.0.1 :80",
                                    "[::1%lo]:80",
                                    "1.2.3.4.5:80",
                                    "[0000:0000:0000:0000:0000:0000:0000:0000:0000:0000:0000]:80"};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    assert_status(STATUS_OK, LOAD("--listen", good[i]));
    assert_string_equal(config.listen, good[i]);
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_status(STATUS_INVALID, LOAD("--listen", bad[i]));
  struct str address = STR_NONE;
  uint16_t port = 0;
  assert_status(STATUS_OK, config_split_listen(STR_LIT("[::1]:8080"), &address, &port));
  assert_true(str_equal(address, STR_LIT("::1")));
  assert_int_equal(port, 8080);
}

static void texts_are_checked(void **state) {
  (void)state;
  static const char *const good[][2] = {{"--redis-url", "rediss://u:p@h:1/2"},
                                        {"--redis-url", "unix://u:p@/run/redis.sock"},
                                        {"--redis-url", "unix:///run/r.sock"},
                                        {"--cors-origin", "https://a.example:8443"},
                                        {"--cors-origin", "http://[::1]"},
                                        {"--cors-origin", ""},
                                        {"--env", "a-b_9"},
                                        {"--roles", "worker"},
                                        {"--roles", " worker , api "},
                                        {"--log-level", "debug"},
                                        {"--log-format", "json"}};
  static const char *const bad[][2] = {{"--redis-url", "redis://"},
                                       {"--redis-url", "unix://rel"},
                                       {"--redis-url", ""},
                                       {"--cors-origin", "*"},
                                       {"--cors-origin", "https://a/"},
                                       {"--cors-origin", "https://"},
                                       {"--cors-origin", "ftp://a"},
                                       {"--cors-origin", "https://a b"},
                                       {"--env", ""},
                                       {"--env", "a:b"},
                                       {"--env", "a234567890123456789012345678901234"},
                                       {"--roles", ""},
                                       {"--roles", "api;worker"},
                                       {"--roles", "api,,worker"},
                                       {"--log-level", "INFO"},
                                       {"--log-format", "text"}};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) assert_status(STATUS_OK, LOAD(good[i][0], good[i][1]));
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_status(STATUS_INVALID, LOAD(bad[i][0], bad[i][1]));
  assert_status(STATUS_OK, LOAD("--roles", "worker"));
  assert_int_equal(config.roles, CONFIG_ROLE_WORKER);
}

static void help_and_version_do_not_look_further(void **state) {
  (void)state;
  setenv("PRESENCE_THREADS", "bad", 1);
  assert_status(STATUS_OK, LOAD("--help", "--config", "/nonexistent"));
  assert_true(line.help && !line.version);
  assert_status(STATUS_OK, LOAD("--version"));
  assert_true(line.version && !line.help);
}

static void tables_name_every_option(void **state) {
  (void)state;
  struct buf help = {0}, table = {0};
  assert_status(STATUS_OK, config_help(&help));
  assert_status(STATUS_OK, config_markdown(&table));
  for (int id = 0; id < OPTION_COUNT; id++) {
    char needle[96], variable[OPTION_VARIABLE_BYTES];
    option_variable(&OPTIONS[id], variable);
    snprintf(needle, sizeof needle, "\n  --%s ", OPTIONS[id].name);
    assert_non_null(strstr(buf_text(&help), needle));
    snprintf(needle, sizeof needle, "\n| `%s` | ", variable);
    assert_non_null(strstr(buf_text(&table), needle));
  }
  assert_non_null(strstr(help.data, "default: 200 ms; allowed: 50 to 315360000000 ms"));
  buf_free(&help);
  buf_free(&table);
}

static bool load_once(void *context) {
  enum status status = LOAD("--config", context, "--listen=[::1]:1", "--redis-url", "unix:///x");
  if (status == STATUS_INVALID) return false;
  return status == STATUS_OK;
}

static bool refuse_once(void *context) {
  (void)context;
  enum status status = LOAD("--outage-ms", "x");
  return status == STATUS_INVALID && error != NULL;
}

static void failed_allocations_are_reported(void **state) {
  (void)state;
  char path[64];
  write_file(path, "# nothing\nlisten = 127.0.0.1:1\nthreads = 2\n");
  assert_true(alloc_fail_sweep(load_once, path) >= 10);
  assert_true(alloc_fail_sweep(refuse_once, NULL) >= 8);
  unlink(path);
}

int main(void) {
#define CLEANED(test) cmocka_unit_test_setup_teardown(test, clean, clean)
  const struct CMUnitTest tests[] = {
      CLEANED(defaults_are_those_of_the_contract),
      CLEANED(every_option_can_be_given_in_every_place),
      CLEANED(flags_win_over_environment_over_file),
      CLEANED(words_and_own_flags_are_left_to_the_caller),
      CLEANED(bad_flags_are_refused),
      CLEANED(bad_values_are_refused_wherever_they_stand),
      CLEANED(a_secret_is_never_repeated),
      CLEANED(bad_files_are_refused),
      CLEANED(bad_lines_are_refused),
      CLEANED(messages_are_one_bounded_line),
      CLEANED(listen_takes_numeric_addresses),
      CLEANED(texts_are_checked),
      CLEANED(help_and_version_do_not_look_further),
      CLEANED(tables_name_every_option),
      CLEANED(failed_allocations_are_reported),
  };
  return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
