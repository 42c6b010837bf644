/* HTTP by the contract: which status, in which order; ids as sent; framing; keep-alive. The server alone, with simple handlers.
 */
#include "support/test.h"

#include <stdlib.h>
#include <string.h>

#include "metrics.h"
#include "support/client.h"
#include "support/http_stand.h"

static struct http_stand *stand;

static int with_stand(void **state) {
  (void)state;
  if (metrics_init() != STATUS_OK) return -1;
  stand = http_stand_start(NULL);
  return 0;
}
static int without_stand(void **state) {
  (void)state;
  http_stand_stop(stand, 2000);
  stand = NULL;
  metrics_free();
  return 0;
}

static struct client *open_as(const char *token) { return client_open_as(http_stand_address(stand), token); }

static char *filled(size_t length) {
  char *text = malloc(length + 1);
  assert_non_null(text);
  memset(text, 'x', length);
  text[length] = '\0';
  return text;
}

/* Sends raw text on a connection of its own; the status, 0 where it was closed without one. */
static int status_of_raw(const char *text) {
  struct client *client = client_open(http_stand_address(stand));
  client_send_text(client, text);
  const struct response *response = client_read_or_end(client);
  int status = response != NULL ? response->status : 0;
  client_close(client);
  return status;
}

/* What a heartbeat needs is there from the one before: pools, the connection's memory, the prepared answer. */
static void a_heartbeat_allocates_nothing(void **state) {
  (void)state;
  static const char *const bodies[] = {NULL, "{\"ttl_ms\":90000,\"meta\":{\"a\":1}}"};
  struct client *clients[] = {open_as(DEVICE_TOKEN), open_as(DEVICE_TOKEN)};
  size_t before = 0;
  for (int i = 0; i < 300; i++) {
    if (i == 100) before = http_stand_allocations(stand);
    for (size_t c = 0; c < LENGTH(clients); c++)
      expect_status(clients[c], 204, "POST", "/v1/tenants/t/devices/d/heartbeat", bodies[(size_t)i % LENGTH(bodies)]);
  }
  assert_int_equal(http_stand_allocations(stand), before);
  for (size_t c = 0; c < LENGTH(clients); c++) client_close(clients[c]);
}

/* The page is for anybody, its policy lets nothing in, and a browser that has it is told so. */
static void the_page_and_its_files(void **state) {
  (void)state;
  struct client *client = open_as(NULL);
  const struct response *response = client_call(client, "GET", "/", NULL);
  assert_int_equal(response->status, 200);
  assert_string_equal(response_header(response, "Content-Type"), "text/html; charset=utf-8");
  assert_non_null(strstr(response_header(response, "Content-Security-Policy"), "default-src 'none'; script-src 'self'"));
  assert_null(strstr(response_header(response, "Content-Security-Policy"), "unsafe"));
  const char *etag = text_format("If-None-Match: %s\r\n", response_header(response, "ETag"));
  client->headers = etag;
  response = client_call(client, "GET", "/", NULL);
  assert_int_equal(response->status, 304);
  assert_int_equal(response->body_length, 0);
  assert_int_equal(client_call(client, "GET", "/assets/page.css", NULL)->status, 200); /* other bytes */
  client->headers = NULL;
  response = client_call(client, "GET", "/assets/chart.min.js", NULL);
  assert_int_equal(response->status, 200);
  assert_string_equal(response_header(response, "Content-Type"), "text/javascript; charset=utf-8");
  assert_true(response->body_length > 100000);
  expect_error(client, 404, "not_found", "GET", "/assets/nothing.js", NULL);
  expect_error(client, 404, "not_found", "GET", "/assets/a_name_that_is_longer_than_any_file_of_the_page_has.js", NULL);
  expect_error(client, 404, "not_found", "GET", "/assets/", NULL);
  client_close(client);
}

static void each_path_and_method_has_its_status(void **state) {
  (void)state;
  struct client *client = open_as(ADMIN_TOKEN);
  expect_status(client, 204, "POST", "/v1/tenants/t/devices/d/heartbeat", "");
  expect_error(client, 404, "not_found", "GET", "/nothing", NULL);
  expect_error(client, 404, "not_found", "GET", "/v1", NULL);
  expect_error(client, 404, "not_found", "GET", "/healthz/", NULL);
  expect_error(client, 404, "not_found", "POST", "/v1/tenants/t/devices/d/heartbeat/", NULL);
  expect_error(client, 404, "not_found", "POST", "/v1/tenants/t/devices/d/heart", NULL);
  expect_error(client, 404, "not_found", "GET", "/v1/tenants/t/devices/d/a/b/c/d/e/f", NULL);
  expect_error(client, 503, "postgres_unavailable", "GET", "/v1/tenants/nobody/devices/d", NULL); /* might be new */
  expect_error(client, 405, "method_not_allowed", "GET", "/v1/tenants/t/heartbeats", NULL);
  const struct response *response = client_call(client, "PUT", "/healthz", NULL);
  assert_int_equal(response->status, 405);
  assert_string_equal(response_header(response, "Allow"), "GET, HEAD");
  response = client_call(client, "BREW", "/healthz", NULL);
  assert_int_equal(response->status, 405);
  assert_false(response->close);
  client_close(client);
}

static void tokens_and_scopes(void **state) {
  (void)state;
  static const struct {
    const char *token, *method, *path, *word;
    int status;
  } cases[] = {
      {NULL, "POST", "/v1/tenants/t/devices/d/heartbeat", "unauthorized", 401},
      {REVOKED_TOKEN, "POST", "/v1/tenants/t/devices/d/heartbeat", "unauthorized", 401},
      {EXPIRED_TOKEN, "POST", "/v1/tenants/t/devices/d/heartbeat", "unauthorized", 401},
      /* nobody refreshes this directory: whether the token exists cannot be told */
      {"unknown", "POST", "/v1/tenants/t/devices/d/heartbeat", "postgres_unavailable", 503},
      {OTHER_TOKEN, "POST", "/v1/tenants/t/devices/d/heartbeat", "forbidden", 403},
      {DEVICE_TOKEN, "POST", "/v1/tenants/nobody/devices/d/heartbeat", "forbidden", 403},
      {DEVICE_TOKEN, "POST", "/v1/tenants/T/devices/d/heartbeat", "forbidden", 403},
      {DEVICE_TOKEN, "POST", "/v1/tenants//devices/d/heartbeat", "forbidden", 403},
      {DEVICE_TOKEN, "POST", "/v1/tenants/%zz/devices/d/heartbeat", "forbidden", 403},
      {DEVICE_TOKEN, "GET", "/v1/tenants/t/devices/d", "missing_scope", 403},
      {READ_TOKEN, "POST", "/v1/tenants/t/devices/d/heartbeat", "missing_scope", 403},
      {READ_TOKEN, "GET", "/v1/tenants/t/devices/d", NULL, 200},
      {DEVICE_TOKEN, "POST", "/v1/tenants/%74/devices/d/heartbeat", NULL, 204},
      {NULL, "GET", "/healthz", NULL, 200},
      {NULL, "GET", "/metrics", NULL, 200},
  };
  for (size_t i = 0; i < LENGTH(cases); i++) {
    struct client *client = open_as(cases[i].token);
    if (cases[i].word != NULL)
      expect_error(client, cases[i].status, cases[i].word, cases[i].method, cases[i].path, NULL);
    else
      assert_int_equal(client_call(client, cases[i].method, cases[i].path, NULL)->status, cases[i].status);
    client_close(client);
  }
  struct client *client = open_as(NULL);
  const struct response *response = client_call(client, "POST", "/v1/tenants/t/heartbeats", "[]");
  assert_int_equal(response->status, 401);
  assert_string_equal(response_header(response, "WWW-Authenticate"), "Bearer");
  assert_false(response->close);
  client->headers = "authorization: bEARER  " DEVICE_TOKEN " \r\n";
  expect_status(client, 204, "POST", "/v1/tenants/t/devices/d/heartbeat", NULL);
  client->headers = "Authorization: Basic " DEVICE_TOKEN "\r\n";
  expect_status(client, 401, "POST", "/v1/tenants/t/devices/d/heartbeat", NULL);
  client_close(client);
}

/* Contract: 404 path, 405, 401/403, 413, 400, 429. Each request breaks two rules; the first one is told. */
static void the_first_broken_rule_is_told(void **state) {
  (void)state;
  char *large = filled(8193);
  struct client *client = open_as(NULL);
  expect_status(client, 404, "POST", "/nothing", NULL);
  expect_status(client, 405, "DELETE", "/v1/tenants/t/devices/d/heartbeat", NULL);
  assert_int_equal(client_call(client, "POST", "/v1/tenants/t/devices/%00/heartbeat", "{}")->status, 401);
  client->token = OTHER_TOKEN;
  assert_int_equal(client_call(client, "POST", "/v1/tenants/t/devices/%00/heartbeat", "{}")->status, 403);
  assert_int_equal(client_call(client, "POST", "/v1/tenants/t/devices/d/heartbeat", large)->status, 403);
  client_close(client);

  client = open_as(DEVICE_TOKEN);
  expect_error(client, 413, "body_too_large", "POST", "/v1/tenants/t/devices/%00/heartbeat", large);
  client_close(client);
  client = open_as(DEVICE_TOKEN);
  client_send_text(client, "POST /v1/tenants/t/devices/%00/heartbeat HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " DEVICE_TOKEN
                           "\r\nTransfer-Encoding: chunked\r\n\r\n2001\r\n");
  client_send(client, large, 8193);
  client_send_text(client, "\r\n0\r\n\r\n");
  assert_int_equal(client_read(client)->status, 413);
  expect_error(client, 400, "bad_id", "POST", "/v1/tenants/t/devices/%00/heartbeat", "{}");
  client_close(client);
  free(large);
}

static void assert_device(struct client *client, const char *path, const char *device) {
  json_t *answer = expect(client, 200, "GET", path, NULL);
  assert_string_equal(json_string_value(json_object_get(answer, "device")), device);
  assert_string_equal(json_string_value(json_object_get(answer, "tenant")), "t");
  json_decref(answer);
}

static void ids_are_decoded_once_and_never_normalised(void **state) {
  (void)state;
  struct client *client = open_as(READ_TOKEN);
  assert_device(client, "/v1/tenants/t/devices/a%2Fb", "a/b");
  assert_device(client, "/v1/tenants/t/devices/a%252Fb", "a%2Fb");
  assert_device(client, "/v1/tenants/t/devices/.", ".");
  assert_device(client, "/v1/tenants/t/devices/..", "..");
  assert_device(client, "/v1/tenants/t/devices/%2e%2E", "..");
  assert_device(client, "/v1/tenants/t/devices/a+b", "a+b");
  assert_device(client, "/v1/tenants/t/devices/a:b%23%7Bt%7D|c;d=e&f", "a:b#{t}|c;d=e&f");
  assert_device(client, "/v1/tenants/t/devices/%F0%9F%A4%96", "\xF0\x9F\xA4\x96");
  assert_device(client, "/v1/tenants/t/devices/\xC3\xA4", "\xC3\xA4");
  assert_device(client, "/v1/tenants/t/devices/heartbeat", "heartbeat");
  assert_device(client, "/v1/tenants/t/devices/d%3Fq", "d?q");
  assert_device(client, "/v1/tenants/t/devices/d?q=1", "d");
  static const char *const bad[] = {"",    "%",      "%4",  "%zz",    "%00",       "a%00b", "%7F",
                                    "%1F", "%C2%80", "%FF", "%C0%AF", "%ED%A0%80", "a%0Ab", "x%g1"};
  for (size_t i = 0; i < LENGTH(bad); i++)
    expect_error(client, 400, "bad_id", "GET", text_format("/v1/tenants/t/devices/%s", bad[i]), NULL);
  char *longest = filled(128);
  assert_device(client, text_format("/v1/tenants/t/devices/%s", longest), longest);
  expect_error(client, 400, "bad_id", "GET", text_format("/v1/tenants/t/devices/%sx", longest), NULL);
  expect_error(client, 400, "bad_id", "GET", text_format("/v1/tenants/t/devices/%s%s%s", longest, longest, longest), NULL);
  free(longest);
  client_close(client);
}

static void queries(void **state) {
  (void)state;
  static const struct {
    const char *query, *value;
  } cases[] = {{"?q=a+b%2Bc", "a b+c"}, {"?x=1&q=%26%3D", "&="}, {"?q", ""},     {"?q=", ""}, {"?", NULL},
               {"?Q=1", NULL},          {"?&&q=a=b&", "a=b"},    {"?%71=7", "7"}};
  struct client *client = open_as(READ_TOKEN);
  for (size_t i = 0; i < LENGTH(cases); i++) {
    json_t *answer = expect(client, 200, "GET", text_format("/v1/tenants/t/devices/d%s", cases[i].query), NULL);
    const char *value = json_string_value(json_object_get(answer, "query"));
    if (cases[i].value == NULL)
      assert_null(value);
    else
      assert_string_equal(value, cases[i].value);
    json_decref(answer);
  }
  expect_error(client, 400, "bad_query", "GET", "/v1/tenants/t/devices/d?q=1&q=2", NULL);
  expect_error(client, 400, "bad_query", "GET", "/v1/tenants/t/devices/d?q=%2", NULL);
  expect_error(client, 400, "bad_query", "GET", "/v1/tenants/t/devices/d?a&b&c&d&e&f&g&h&i&j&k&l&m&n&o&p&q", NULL);
  client_close(client);
}

static void assert_sum(const struct response *response, size_t length) {
  assert_int_equal(response->status, 200);
  json_t *answer = json_loads(response->body, 0, NULL);
  assert_non_null(answer);
  assert_int_equal(json_integer_value(json_object_get(answer, "length")), length);
  assert_int_equal(json_integer_value(json_object_get(answer, "sum")), length * 'x');
  json_decref(answer);
}

static void bodies_arrive_whole(void **state) {
  (void)state;
  static const size_t sizes[] = {0, 1, 4095, 8192, 8193, 100000, 1048575, 1048576};
  struct client *client = open_as(DEVICE_TOKEN);
  for (size_t i = 0; i < LENGTH(sizes); i++) {
    char *body = filled(sizes[i]);
    assert_sum(client_call(client, "POST", "/v1/tenants/t/heartbeats", body), sizes[i]);
    client_send_text(client, "POST /v1/tenants/t/heartbeats HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n"
                             "Authorization: Bearer " DEVICE_TOKEN "\r\n\r\n");
    for (size_t at = 0; at < sizes[i];) {
      size_t piece = sizes[i] - at < 30000 ? sizes[i] - at : 30000;
      client_send_text(client, text_format("%zx;ext=1\r\n", piece));
      client_send(client, body + at, piece);
      client_send_text(client, "\r\n");
      at += piece;
    }
    client_send_text(client, "0\r\nTrailer: ignored\r\n\r\n");
    assert_sum(client_read(client), sizes[i]);
    free(body);
  }
  client_close(client);
}

static void a_body_over_its_limit_is_told_even_while_it_is_sent(void **state) {
  (void)state;
  char *body = filled(1048577);
  struct client *client = open_as(DEVICE_TOKEN);
  const struct response *response = client_call(client, "POST", "/v1/tenants/t/heartbeats", body);
  assert_int_equal(response->status, 413);
  assert_true(response->close);
  client_close(client);
  /* Only announced: the answer does not wait for it. */
  assert_int_equal(status_of_raw("POST /v1/tenants/t/heartbeats HTTP/1.1\r\nHost: x\r\nContent-Length: 5000000000\r\n"
                                 "Authorization: Bearer " DEVICE_TOKEN "\r\n\r\n"),
                   413);
  assert_int_equal(status_of_raw("GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\nabc"), 413);
  free(body);
}

static void expect_continue(void **state) {
  (void)state;
  struct client *client = open_as(DEVICE_TOKEN);
  client_send_text(client, "POST /v1/tenants/t/heartbeats HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n"
                           "Authorization: Bearer " DEVICE_TOKEN "\r\n\r\n");
  assert_int_equal(client_read(client)->status, 100);
  client_send_text(client, "xxx");
  assert_sum(client_read(client), 3);
  client_send_text(client,
                   "POST /v1/tenants/t/heartbeats HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n");
  assert_int_equal(client_read(client)->status, 401);
  client_close(client);
}

static void pipelined_requests_are_answered_in_order(void **state) {
  (void)state;
  struct client *client = open_as(READ_TOKEN);
  for (int i = 0; i < 50; i++) client_ask(client, "GET", text_format("/v1/tenants/t/devices/d%d", i), NULL);
  for (int i = 0; i < 50; i++) {
    const struct response *response = client_read(client);
    assert_int_equal(response->status, 200);
    assert_non_null(strstr(response->body, text_format("\"d%d\"", i)));
  }
  client_close(client);
}

static void keep_alive_by_version(void **state) {
  (void)state;
  struct client *client = open_as(NULL);
  const struct response *response = client_call(client, "GET", "/healthz", NULL);
  assert_null(response_header(response, "Connection"));
  assert_string_equal(response_header(response, "Content-Type"), "application/json");
  assert_string_equal(response_header(response, "Cache-Control"), "no-store");
  assert_string_equal(response_header(response, "X-Content-Type-Options"), "nosniff");
  assert_null(response_header(response, "Access-Control-Allow-Origin"));
  client_send_text(client,
                   "HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  client_close(client);

  client = open_as(NULL);
  client_send_text(client, "GET /healthz HTTP/1.0\r\n\r\n");
  response = client_read(client);
  assert_int_equal(response->status, 200);
  assert_true(client_sees_end(client, 2000));
  client_close(client);

  client = open_as(NULL);
  client_send_text(client, "GET http://example.test/healthz HTTP/1.1\r\nHost: example.test\r\nConnection: close\r\n\r\n");
  assert_int_equal(client_read(client)->status, 200);
  assert_true(client_sees_end(client, 2000));
  client_close(client);
}

static void broken_framing_is_refused(void **state) {
  (void)state;
  static const struct {
    const char *text;
    int status, or_status;
  } cases[] = {
      {"POST /v1/tenants/t/heartbeats HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400, 0},
      {"POST /v1/tenants/t/heartbeats HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400, 0},
      {"POST /v1/tenants/t/heartbeats HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
       400, 0},
      {"POST /v1/tenants/t/heartbeats HTTP/1.1\r\nHost: x\r\nContent-Length: +3\r\n\r\nabc", 400, 0},
      {"POST /v1/tenants/t/heartbeats HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n", 400, 0},
      {"POST /v1/tenants/t/heartbeats HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: gzip\r\n\r\n", 501, 0},
      {"GET /healthz HTTP/1.1\r\n\r\n", 400, 0},
      {"GET /healthz HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, 0},
      {"GET /healthz HTTP/3.0\r\nHost: x\r\n\r\n", 505, 0},
      {"GET /healthz\r\n\r\n", 400, 505},
      {"GET /heal thz HTTP/1.1\r\nHost: x\r\n\r\n", 400, 0},
      {"GET /healthz HTTP/1.1\r\nHost: x\r\nBroken header\r\n\r\n", 400, 0},
      {"GET /healthz HTTP/1.1\r\nHost: x\r\n folded: 1\r\n\r\n", 400, 200},
      {"\x16\x03\x01\x02\x01\x01\xfc\x03\x03\r\n\r\n", 400, 0},
  };
  for (size_t i = 0; i < LENGTH(cases); i++) {
    int status = status_of_raw(cases[i].text);
    if (status != cases[i].status && status != cases[i].or_status)
      fail_msg("case %zu: %d instead of %d", i, status, cases[i].status);
  }
  assert_int_equal(status_of_raw("GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"), 200);
}

static void long_lines_and_headers(void **state) {
  (void)state;
  char *large = filled(9000);
  assert_int_equal(status_of_raw(text_format("GET /%s HTTP/1.1\r\nHost: x\r\n\r\n", large)), 414);
  assert_int_equal(status_of_raw(text_format("GET /healthz HTTP/1.1\r\nHost: x\r\nX: %s\r\n\r\n", large)), 431);
  /* Whatever the size, there is an answer, and what fits is served. */
  int last = 200;
  for (int size = 100; size <= 9000; size += 100) {
    int status = status_of_raw(text_format("GET /healthz HTTP/1.1\r\nHost: x\r\nX: %.*s\r\n\r\n", size, large));
    if (status != 200 && status != 431) fail_msg("%d bytes of headers: status %d", size, status);
    if (last == 431) assert_int_equal(status, 431);
    if (size <= 8000) assert_int_equal(status, 200);
    last = status;
  }
  assert_int_equal(last, 431);
  free(large);
}

/* Exactly 8 KiB of request line and headers are served in as many headers as the README says; a byte more is not. Less is served
 * in more headers. */
static void headers_up_to_8_kib(void **state) {
  (void)state;
  enum { LIMIT = 8192 };
  static const struct { int count, size; } cases[] = {{1, LIMIT}, {1, LIMIT + 1}, {11, LIMIT}, {11, LIMIT + 1}, {29, 7000}};
  char text[LIMIT + 2];
  for (size_t i = 0; i < LENGTH(cases); i++) {
    int size = cases[i].size;
    int used = snprintf(text, sizeof text, "GET /healthz HTTP/1.1\r\nHost: x\r\n");
    for (int k = cases[i].count; k > 0; k--) {
      int line = (size - 2 - used) / k; /* the last takes what is left */
      used += snprintf(text + used, sizeof text - (size_t)used, "X-%02d: %0*d\r\n", k, line - 8, 0);
    }
    used += snprintf(text + used, sizeof text - (size_t)used, "\r\n");
    assert_int_equal(used, size);
    int status = status_of_raw(text);
    if (status != (size > LIMIT ? 431 : 200)) fail_msg("%d bytes in %d headers: status %d", size, cases[i].count, status);
  }
}

static void refusals_are_counted(void **state) {
  (void)state;
  struct client *client = open_as(NULL);
  expect_status(client, 404, "GET", "/nothing", NULL);
  expect_status(client, 401, "GET", "/v1/tenants/t/devices/d", NULL);
  assert_int_equal(status_of_raw("GET /healthz HTTP/1.1\r\n\r\n"), 400);
  const char *metrics = client_call(client, "GET", "/metrics", NULL)->body;
  assert_non_null(strstr(metrics, "presence_http_requests_total{route=\"none\",status=\"404\"} 1\n"));
  assert_non_null(strstr(metrics, "presence_http_requests_total{route=\"none\",status=\"400\"} 1\n"));
  assert_non_null(strstr(metrics, "presence_http_requests_total{route=\"device\",status=\"401\"} 1\n"));
  client_close(client);
}

static void cross_origin(void **state) {
  (void)state;
  struct http_stand_options options = {.cors_origin = "https://fleet.example"};
  struct http_stand *open_stand = http_stand_start(&options);
  struct client *client = client_open(http_stand_address(open_stand));
  const struct response *response = client_call(client, "OPTIONS", "/v1/tenants/t/devices/d/heartbeat", NULL);
  assert_int_equal(response->status, 204);
  assert_string_equal(response_header(response, "Access-Control-Allow-Origin"), "https://fleet.example");
  assert_string_equal(response_header(response, "Access-Control-Allow-Methods"), "POST");
  assert_non_null(strstr(response_header(response, "Access-Control-Allow-Headers"), "Authorization"));
  response = client_call(client, "GET", "/v1/tenants/t/devices/d", NULL);
  assert_int_equal(response->status, 401);
  assert_string_equal(response_header(response, "Access-Control-Allow-Origin"), "https://fleet.example");
  expect_status(client, 404, "OPTIONS", "/nothing", NULL);
  client_close(client);
  http_stand_stop(open_stand, 2000);
  client = open_as(NULL);
  expect_status(client, 405, "OPTIONS", "/v1/tenants/t/devices/d", NULL);
  client_close(client);
}

static void a_process_without_api_answers_little(void **state) {
  (void)state;
  struct http_stand_options options = {.only_operational = true};
  struct http_stand *small_stand = http_stand_start(&options);
  struct client *client = client_open_as(http_stand_address(small_stand), ADMIN_TOKEN);
  expect_status(client, 200, "GET", "/healthz", NULL);
  expect_status(client, 503, "GET", "/readyz", NULL);
  expect_error(client, 404, "not_found", "POST", "/v1/tenants/t/devices/d/heartbeat", NULL);
  client_close(client);
  http_stand_stop(small_stand, 2000);
}

int main(void) {
#define WITH_STAND(test) cmocka_unit_test_setup_teardown(test, with_stand, without_stand)
  const struct CMUnitTest tests[] = {
      WITH_STAND(each_path_and_method_has_its_status),
      WITH_STAND(a_heartbeat_allocates_nothing),
      WITH_STAND(the_page_and_its_files),
      WITH_STAND(tokens_and_scopes),
      WITH_STAND(the_first_broken_rule_is_told),
      WITH_STAND(ids_are_decoded_once_and_never_normalised),
      WITH_STAND(queries),
      WITH_STAND(bodies_arrive_whole),
      WITH_STAND(a_body_over_its_limit_is_told_even_while_it_is_sent),
      WITH_STAND(expect_continue),
      WITH_STAND(pipelined_requests_are_answered_in_order),
      WITH_STAND(keep_alive_by_version),
      WITH_STAND(broken_framing_is_refused),
      WITH_STAND(long_lines_and_headers),
      WITH_STAND(headers_up_to_8_kib),
      WITH_STAND(refusals_are_counted),
      WITH_STAND(cross_origin),
      WITH_STAND(a_process_without_api_answers_little),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
