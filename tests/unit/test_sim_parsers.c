/* presence-sim's parts that have no sockets: URLs, answers, requests, traces, flags, latencies. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include "support/alloc_fail.h"
#include "tools/sim_http.h"
#include "tools/sim_options.h"
#include "tools/sim_request.h"
#include "tools/sim_stats.h"
#include "tools/sim_trace.h"

/* URL */

static void urls_come_apart(void **state) {
  (void)state;
  static const struct {
    const char *url, *authority, *host, *path;
    int port;
  } good[] = {{"http://127.0.0.1:8080", "127.0.0.1:8080", "127.0.0.1", "", 8080},
              {"http://h", "h", "h", "", 80},
              {"HTTP://h/", "h", "h", "", 80},
              {"http://h:1/a/b/", "h:1", "h", "/a/b", 1},
              {"http://[::1]:65535/x", "[::1]:65535", "::1", "/x", 65535},
              {"http://[::1]", "[::1]", "::1", "", 80}};
  static const char *const bad[] = {
      "",           "http://",        "https://h",   "h:80",         "http://:80",      "http://h:",
      "http://h:0", "http://h:65536", "http://h:x",  "http://[::1",  "http://[::1]x:8", "http://[]:8",
      "http://u@h", "http://h/?q",    "http://h/#f", "http://h/a b", "http://h\r\nX: y"};
  struct sim_url parts;
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    assert_status(STATUS_OK, sim_url_parse(str_from(good[i].url), &parts));
    assert_true(str_equal(parts.authority, str_from(good[i].authority)));
    assert_true(str_equal(parts.host, str_from(good[i].host)));
    assert_true(str_equal(parts.path, str_from(good[i].path)));
    assert_int_equal(parts.port, good[i].port);
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_status(STATUS_INVALID, sim_url_parse(str_from(bad[i]), &parts));
}

static void segments_are_percent_encoded(void **state) {
  (void)state;
  struct buf out = {0};
  assert_status(STATUS_OK, sim_append_segment(&out, STR_LIT("aZ9-._~/:%+ é\0")));
  assert_string_equal(buf_text(&out), "aZ9-._~%2F%3A%25%2B%20%C3%A9%00");
  buf_free(&out);
}

/* Answers */

static void answers_are_taken_at_any_cut(void **state) {
  (void)state;
  static const struct {
    const char *bytes, *body;
    int status;
    bool close;
  } cases[] = {
      {"HTTP/1.1 204 No Content\r\n\r\n", "", 204, false},
      {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "hello", 200, false},
      {"HTTP/1.1 503 \r\ncontent-length:\t2 \r\nCONNECTION: Close\r\n\r\nno", "no", 503, true},
      {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 413 X\r\nContent-Length: 0\r\n\r\n", "", 413, false},
      {"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx", "x", 200, true},
      {"HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n", "", 204, false},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "", 200, false},
      {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0A;x=y\r\n0123456789\r\n0\r\nTrailer: 1\r\n\r\n", "",
       200, false},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    size_t len = strlen(cases[i].bytes);
    struct sim_answer answer;
    for (size_t cut = 0; cut < len; cut++)
      assert_int_equal(sim_answer_parse((struct str){cases[i].bytes, cut}, &answer), SIM_PARSE_MORE);
    assert_int_equal(sim_answer_parse((struct str){cases[i].bytes, len}, &answer), SIM_PARSE_DONE);
    assert_int_equal(answer.status, cases[i].status);
    assert_int_equal(answer.close, cases[i].close);
    assert_int_equal(answer.size, len);
    assert_true(str_equal(answer.body, str_from(cases[i].body)));
  }
}

static void broken_answers_are_refused(void **state) {
  (void)state;
  static const char *const bad[] = {"HTTP/2 200 OK\r\n\r\n",
                                    "HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\n",
                                    "HTTP/1.1 099 OK\r\nContent-Length: 0\r\n\r\n",
                                    "HTTP/1.1\r\n\r\n",
                                    "\r\n\r\n",
                                    "HTTP/1.1 200 OK\r\n\r\n",
                                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nhello\r\n",
                                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
                                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n100001\r\n",
                                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n",
                                    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
                                    "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
                                    "HTTP/1.1 200 OK\r\nContent-Length: 1e3\r\n\r\n",
                                    "HTTP/1.1 200 OK\r\nContent-Length: 1048577\r\n\r\n",
                                    "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n",
                                    "HTTP/1.1 200 OK\r\nno colon\r\n\r\n"};
  struct sim_answer answer;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
    assert_int_equal(sim_answer_parse(str_from(bad[i]), &answer), SIM_PARSE_BAD);
  static char endless[SIM_HEAD_MAX + 10];
  memset(endless, 'a', sizeof endless);
  assert_int_equal(sim_answer_parse((struct str){endless, sizeof endless}, &answer), SIM_PARSE_BAD);
}

/* Requests */

static struct sim_request_form form_of(struct sim_options *options, const char *url) {
  struct sim_url parts;
  struct sim_request_form form;
  assert_status(STATUS_OK, sim_url_parse(str_from(url), &parts));
  assert_status(STATUS_OK, sim_request_form_new(&form, options, &parts));
  return form;
}

static void requests_carry_the_devices(void **state) {
  (void)state;
  struct sim_options options = {
      .request = "", .body = "", .tenant = "t1", .token = "s3", .prefix = "a/", .ttl_ms = 500, .devices = 1000};
  struct sim_request_form form = form_of(&options, "http://[::1]:8/base");
  struct buf out = {0};
  assert_status(STATUS_OK, sim_request_single(&form, 7, &out));
  assert_string_equal(buf_text(&out), "POST /base/v1/tenants/t1/devices/a%2F007/heartbeat HTTP/1.1\r\nHost: [::1]:8\r\n"
                                      "Authorization: Bearer s3\r\nContent-Length: 14\r\n\r\n{\"ttl_ms\":500}");
  assert_status(STATUS_OK, sim_request_named(&form, STR_LIT("x y"), &out));
  assert_non_null(strstr(buf_text(&out), "/devices/a%2Fx%20y/heartbeat "));
  const uint32_t devices[] = {0, 999, 42};
  for (size_t count = 0; count <= 3; count++) {
    assert_status(STATUS_OK, sim_request_batch(&form, devices, count, &out));
    const char *body = strstr(buf_text(&out), "\r\n\r\n") + 4;
    char header[40];
    snprintf(header, sizeof header, "Content-Length: %zu\r\n", strlen(body));
    assert_non_null(strstr(out.data, header));
  }
  assert_non_null(strstr(out.data, "POST /base/v1/tenants/t1/heartbeats HTTP/1.1\r\n"));
  assert_non_null(strstr(out.data, "\r\n\r\n[{\"device\":\"a/000\",\"ttl_ms\":500},{\"device\":\"a/999\",\"ttl_ms\":500},"
                                   "{\"device\":\"a/042\",\"ttl_ms\":500}]"));
  sim_request_form_free(&form);

  options.ttl_ms = 0;
  options.devices = 1;
  form = form_of(&options, "http://h");
  assert_status(STATUS_OK, sim_request_single(&form, 0, &out));
  assert_non_null(strstr(buf_text(&out), "/devices/a%2F0/heartbeat HTTP/1.1\r\n"));
  assert_non_null(strstr(out.data, "Content-Length: 0\r\n\r\n"));
  assert_status(STATUS_OK, sim_request_batch(&form, devices, 1, &out));
  assert_non_null(strstr(buf_text(&out), "Content-Length: 18\r\n\r\n[{\"device\":\"a/0\"}]"));
  sim_request_form_free(&form);
  buf_free(&out);
}

static void a_given_request_names_the_device_where_it_is_told_to(void **state) {
  (void)state;
  struct sim_options options = {
      .request = "GET /HSET/{device}/{device}/1", .body = "", .tenant = "t", .token = "s", .prefix = "a ", .devices = 100};
  struct sim_request_form form = form_of(&options, "http://h:7");
  struct buf out = {0};
  assert_status(STATUS_OK, sim_request_given(&form, 42, &out));
  assert_string_equal(buf_text(&out), "GET /HSET/a%2042/a%2042/1 HTTP/1.1\r\nHost: h:7\r\nAuthorization: Bearer s\r\n\r\n");
  sim_request_form_free(&form);

  options.request = "POST /x";
  options.body = "[\"{device}\"]";
  options.token = "";
  form = form_of(&options, "http://h:7");
  assert_status(STATUS_OK, sim_request_given(&form, 1, &out));
  assert_string_equal(buf_text(&out), "POST /x HTTP/1.1\r\nHost: h:7\r\nContent-Length: 8\r\n\r\n[\"a 01\"]");
  sim_request_form_free(&form);
  buf_free(&out);

  struct sim_url parts;
  options.request = "GET {device}{device}{device}{device}{device}{device}{device}{device}{device}";
  assert_status(STATUS_OK, sim_url_parse(STR_LIT("http://h"), &parts));
  assert_status(STATUS_TOO_LARGE, sim_request_form_new(&form, &options, &parts));
}

static bool make_form(void *context) {
  struct sim_options *options = context;
  struct sim_url parts;
  struct sim_request_form form;
  assert_status(STATUS_OK, sim_url_parse(STR_LIT("http://h"), &parts));
  if (sim_request_form_new(&form, options, &parts) != STATUS_OK) return false;
  sim_request_form_free(&form);
  return true;
}

static void requests_survive_failed_allocations(void **state) {
  (void)state;
  struct sim_options options = {
      .request = "GET /{device}", .body = "b", .tenant = "t1", .token = "s3", .prefix = "a", .ttl_ms = 500, .devices = 1000};
  assert_true(alloc_fail_sweep(make_form, &options) >= 6);
}

/* Traces */

static void times_keep_their_milliseconds(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int64_t ms;
  } good[] = {
      {"0", 0},    {"1163438041.250", 1163438041250},    {"1163438041.2", 1163438041200}, {"1163438041.0019", 1163438041001},
      {"7", 7000}, {"253402300799.999", 253402300799999}};
  static const char *const bad[] = {"",      ".",    "1.",      ".5", "-1",           "1e3",
                                    "1.2.3", "1.2x", "1.2345x", "x",  "253402300800", "9223372036854775807"};
  int64_t ms = 0;
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
    assert_status(STATUS_OK, sim_trace_time(str_from(good[i].text), &ms));
    assert_true(ms == good[i].ms);
  }
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_status(STATUS_INVALID, sim_trace_time(str_from(bad[i]), &ms));
}

static void fields_follow_rfc_4180(void **state) {
  (void)state;
  static const struct {
    const char *line;
    const char *fields[4]; /* NULL: refused */
    size_t count;
  } cases[] = {{"a,b", {"a", "b"}, 2},
               {"", {""}, 1},
               {",", {"", ""}, 2},
               {"\"a,b\",c", {"a,b", "c"}, 2},
               {"\"say \"\"x\"\"\",", {"say \"x\"", ""}, 2},
               {"\"\"", {""}, 1},
               {"a\"b,c", {"a\"b", "c"}, 2},
               {"\"a", {NULL}, 0},
               {"\"a\"b", {NULL}, 0},
               {"\"", {NULL}, 0},
               {"a,b,c,d", {NULL}, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char line[64];
    struct str fields[3];
    size_t count = 0;
    size_t len = strlen(cases[i].line);
    memcpy(line, cases[i].line, len);
    enum status status = sim_trace_fields(line, len, fields, 3, &count);
    if (cases[i].fields[0] == NULL) {
      assert_int_not_equal(status, STATUS_OK);
      continue;
    }
    assert_status(STATUS_OK, status);
    assert_int_equal(count, cases[i].count);
    for (size_t k = 0; k < count; k++) assert_true(str_equal(fields[k], str_from(cases[i].fields[k])));
  }
}

static void write_trace(char path[64], const char *text, bool compressed) {
  snprintf(path, 64, "/tmp/presence-trace-XXXXXX");
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  gzFile file = gzopen(path, compressed ? "wb" : "wbT");
  assert_non_null(file);
  assert_int_equal(gzwrite(file, text, (unsigned)strlen(text)), (int)strlen(text));
  assert_int_equal(gzclose(file), Z_OK);
}

static void traces_are_read_plain_and_compressed(void **state) {
  (void)state;
  for (int compressed = 0; compressed <= 1; compressed++) {
    char path[64];
    struct sim_trace *trace = NULL;
    struct sim_message message;
    char *error = NULL;
    write_trace(path, "x,when,\"who\"\r\n1,10.5,a\r\n2,10.5,\"b,c\"\n3,11,d", compressed);
    assert_status(STATUS_OK, sim_trace_open(path, "when", "who", &trace, &error));
    assert_status(STATUS_OK, sim_trace_next(trace, &message, &error));
    assert_int_equal(message.time_ms, 10500);
    assert_true(str_equal(message.node, STR_LIT("a")));
    assert_status(STATUS_OK, sim_trace_next(trace, &message, &error));
    assert_true(str_equal(message.node, STR_LIT("b,c")));
    assert_status(STATUS_OK, sim_trace_next(trace, &message, &error));
    assert_int_equal(message.time_ms, 11000);
    assert_status(STATUS_NOT_FOUND, sim_trace_next(trace, &message, &error));
    assert_null(error);
    sim_trace_close(trace);
    unlink(path);
  }
}

/* Opens the trace and reads it to its end or its first error. */
static enum status read_all(const char *path, char **error) {
  struct sim_trace *trace = NULL;
  struct sim_message message;
  enum status status = sim_trace_open(path, "t", "n", &trace, error);
  while (status == STATUS_OK) status = sim_trace_next(trace, &message, error);
  sim_trace_close(trace);
  return status;
}

static void bad_traces_are_refused_with_the_line(void **state) {
  (void)state;
  static char wide[70000];
  memset(wide, 'a', sizeof wide - 1);
  wide[0] = 't', wide[1] = ',', wide[2] = 'n', wide[3] = '\n';
  const struct {
    const char *text, *message;
  } cases[] = {{"", ":0: the file is empty"},
               {"a,n\n", ":1: no column called as --column-time says"},
               {"t,b\n", ":1: no column called as --column-node says"},
               {"t,n\n1,a\nx,b\n", ":3: the time is no number of seconds since 1970"},
               {"t,n\n2,a\n1,b\n", ":3: the time goes backward"},
               {"t,n\n2\n", ":2: a column is missing"},
               {"t,n\n\"2\n", ":2: not CSV, or more than 64 columns"},
               {wide, ":2: a line over 64 KiB, or with a NUL"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    char path[64], expected[160];
    char *error = NULL;
    write_trace(path, cases[i].text, false);
    assert_status(STATUS_INVALID, read_all(path, &error));
    snprintf(expected, sizeof expected, "%s%s", path, cases[i].message);
    assert_string_equal(error, expected);
    free(error);
    unlink(path);
  }
  char *error = NULL;
  assert_status(STATUS_INVALID, read_all("/nonexistent/x", &error));
  assert_string_equal(error, "/nonexistent/x:0: the file cannot be opened");
  free(error);
}

static void a_cut_off_gzip_file_is_damaged(void **state) {
  (void)state;
  char path[64];
  char *error = NULL;
  struct buf text = {0};
  assert_status(STATUS_OK, buf_append_str(&text, STR_LIT("t,n\n")));
  for (int i = 0; i < 5000; i++) assert_status(STATUS_OK, buf_printf(&text, "%d.%d,%d\n", i, i * 7919 % 1000, i * 31 % 977));
  write_trace(path, buf_text(&text), true);
  buf_free(&text);
  assert_int_equal(truncate(path, 2000), 0);
  assert_status(STATUS_INVALID, read_all(path, &error));
  assert_non_null(strstr(error, "the file is damaged or cannot be read"));
  free(error);
  unlink(path);
}

/* Flags */

static enum status read_flags(struct sim_options *options, char **error, const char *const *words) {
  static char copies[16][128];
  static char *argv[17];
  int argc = 1;
  argv[0] = copies[0];
  for (; words[argc - 1] != NULL; argc++) {
    snprintf(copies[argc], sizeof copies[argc], "%s", words[argc - 1]);
    argv[argc] = copies[argc];
  }
  return sim_options_read(options, argc, argv, error);
}
#define READ(options, error, ...) read_flags(options, error, (const char *const[]){__VA_ARGS__, NULL})

static void flags_are_read(void **state) {
  (void)state;
  struct sim_options options;
  char *error = NULL;
  assert_status(STATUS_OK, READ(&options, &error, "--tenant", "t", "--token=s", "--devices", "5", "--json", "--interval-ms=0"));
  assert_int_equal(options.mode, SIM_FLEET);
  assert_string_equal(options.tenant, "t");
  assert_string_equal(options.token, "s");
  assert_string_equal(options.prefix, "sim-");
  assert_int_equal(options.devices, 5);
  assert_int_equal(options.interval_ms, 0);
  assert_int_equal(options.connections, 16);
  assert_true(options.json);
  assert_status(STATUS_OK, READ(&options, &error, "replay", "--tenant=t", "f.csv", "--token=s", "--prefix="));
  assert_int_equal(options.mode, SIM_REPLAY);
  assert_string_equal(options.file, "f.csv");
  assert_string_equal(options.prefix, "");
  setenv("PRESENCE_SIM_TOKEN", "from-environment", 1);
  assert_status(STATUS_OK, READ(&options, &error, "--tenant=t"));
  assert_string_equal(options.token, "from-environment");
  unsetenv("PRESENCE_SIM_TOKEN");
  assert_status(STATUS_OK, READ(&options, &error, "--help"));
  assert_true(options.help);
}

static void bad_flags_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *words[5];
    const char *message;
  } cases[] = {
      {{"--token=s"}, "--tenant is missing"},
      {{"--tenant=t"}, "--token is missing"},
      {{"--tenant=t", "--token=a b"}, "--token: a blank or control character in it"},
      {{"--bogus"}, "unknown flag --bogus; allowed: those that --help lists"},
      {{"--devices", "0"}, "--devices = 0: not allowed; allowed: 1 to 10000000"},
      {{"--devices"}, "--devices needs a value"},
      {{"--json=1"}, "--json takes no value"},
      {{"word"}, "unexpected word word; allowed: replay FILE, flags"},
      {{"replay", "--tenant=t", "--token=s"}, "replay needs a file"},
      {{"replay", "a", "b"}, "unexpected word b; allowed: replay FILE, flags"},
      {{"replay", "--churn=1"}, "--churn goes with the fleet, not with replay, only"},
      {{"--speed=1"}, "--speed goes with replay only"},
      {{"--tenant=t", "--token=s", "--interval-ms=0", "--churn=1"}, "--churn needs an interval over 0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct sim_options options;
    char *error = NULL;
    assert_status(STATUS_INVALID, read_flags(&options, &error, cases[i].words));
    assert_string_equal(error, cases[i].message);
    free(error);
  }
}

static void help_lists_every_flag(void **state) {
  (void)state;
  struct buf help = {0};
  assert_status(STATUS_OK, sim_options_help(&help));
  const char *text = buf_text(&help);
#define SIM_INT(field, name, ...) assert_non_null(strstr(text, "\n  --" name " "));
#define SIM_TEXT(field, name, ...) assert_non_null(strstr(text, "\n  --" name " "));
#define SIM_SWITCH(field, name, ...) assert_non_null(strstr(text, "\n  --" name " "));
#include "tools/sim_options.def"
#undef SIM_INT
#undef SIM_TEXT
#undef SIM_SWITCH
  buf_free(&help);
}

/* Statistics */

static void quantiles_are_right_to_three_percent(void **state) {
  (void)state;
  static struct sim_latency latency;
  assert_int_equal(sim_latency_quantile(&latency, 0.5), 0);
  for (int64_t us = 1; us <= 100000; us++) sim_latency_add(&latency, us);
  static const double shares[] = {0.001, 0.01, 0.1, 0.5, 0.9, 0.99, 0.999, 1};
  for (size_t i = 0; i < sizeof shares / sizeof shares[0]; i++) {
    double exact = shares[i] * 100000, got = (double)sim_latency_quantile(&latency, shares[i]);
    assert_true(got >= exact && got <= exact * 1.035);
  }
  assert_int_equal(latency.max_us, 100000);
  sim_latency_clear(&latency);
  sim_latency_add(&latency, -5);
  assert_int_equal(sim_latency_quantile(&latency, 1), 0);
  sim_latency_add(&latency, INT64_MAX);
  assert_true(sim_latency_quantile(&latency, 1) > 1000000000);
}

static void summaries_say_what_happened(void **state) {
  (void)state;
  static struct sim_stats stats;
  struct buf text = {0};
  struct sim_summary summary = {.seconds = 2, .online = 3, .missed = 4};
  assert_status(STATUS_OK, sim_stats_summary(&text, &stats, &summary, false));
  assert_non_null(strstr(buf_text(&text), "not 2xx: none\n"));
  buf_clear(&text);
  stats.requests = 5;
  stats.heartbeats_ok = 2;
  sim_stats_answer(&stats, 204, 1000);
  sim_stats_answer(&stats, 200, 3000);
  sim_stats_answer(&stats, 503, 2000);
  sim_stats_failure(&stats, "reset", true);
  sim_stats_failure(&stats, "connect", false);
  sim_stats_failure(&stats, "reset", true);
  assert_int_equal(sim_stats_ok(&stats), 2);
  assert_status(STATUS_OK, sim_stats_summary(&text, &stats, &summary, true));
  assert_string_equal(buf_text(&text),
                      "{\"seconds\":2.000,\"requests\":5,\"ok\":2,\"lost\":2,\"heartbeats_ok\":2,\"heartbeats_rejected\":0,"
                      "\"heartbeats_per_second\":1.0,\"missed\":4,\"online\":3,\"latency_ms\":{\"p50\":2.015,\"p90\":3.000,"
                      "\"p99\":3.000,\"p999\":3.000,\"max\":3.000},\"statuses\":{\"200\":1,\"204\":1,\"503\":1},"
                      "\"failures\":{\"reset\":2,\"connect\":1}}\n");
  buf_clear(&text);
  assert_status(STATUS_OK, sim_stats_append_errors(&text, &stats));
  assert_string_equal(buf_text(&text), " 503:1 reset:2 connect:1");
  buf_free(&text);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(urls_come_apart),
      cmocka_unit_test(segments_are_percent_encoded),
      cmocka_unit_test(answers_are_taken_at_any_cut),
      cmocka_unit_test(broken_answers_are_refused),
      cmocka_unit_test(requests_carry_the_devices),
      cmocka_unit_test(a_given_request_names_the_device_where_it_is_told_to),
      cmocka_unit_test(requests_survive_failed_allocations),
      cmocka_unit_test(times_keep_their_milliseconds),
      cmocka_unit_test(fields_follow_rfc_4180),
      cmocka_unit_test(traces_are_read_plain_and_compressed),
      cmocka_unit_test(bad_traces_are_refused_with_the_line),
      cmocka_unit_test(a_cut_off_gzip_file_is_damaged),
      cmocka_unit_test(flags_are_read),
      cmocka_unit_test(bad_flags_are_refused),
      cmocka_unit_test(help_lists_every_flag),
      cmocka_unit_test(quantiles_are_right_to_three_percent),
      cmocka_unit_test(summaries_say_what_happened),
  };
  return cmocka_run_group_tests_name("sim_parsers", tests, NULL, NULL);
}
