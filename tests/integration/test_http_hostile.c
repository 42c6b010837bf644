/* Slow, hostile and careless clients: total deadlines, limits, and that others are served meanwhile. */
#include "support/test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "metrics.h"
#include "support/client.h"
#include "support/http_stand.h"

#define HEARTBEAT "POST /v1/tenants/t/devices/d/heartbeat HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " DEVICE_TOKEN "\r\n"
#define DISCONNECT "POST /v1/tenants/t/devices/d/disconnect HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " DEVICE_TOKEN "\r\n"
#define NO_BODY "Content-Length: 0\r\n\r\n"

static struct http_stand *stand;

static void start(struct http_stand_options options) { stand = http_stand_start(&options); }
static int stop(void **state) {
  (void)state;
  http_stand_stop(stand, 2000);
  return 0;
}

static int raw_open(void) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  address.sin_port = htons((uint16_t)strtol(strrchr(http_stand_address(stand), ':') + 1, NULL, 10));
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
  return fd;
}

static bool raw_send(int fd, const char *text) { return send(fd, text, strlen(text), MSG_NOSIGNAL) == (ssize_t)strlen(text); }

/* Has the server closed it? Reads what is there. */
static bool has_ended(int fd) {
  char data[65536];
  ssize_t got = recv(fd, data, sizeof data, MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN);
}

static int64_t ms_until_end(int fd, int64_t since_ms) {
  WAIT_UNTIL(has_ended(fd), 10000);
  return wait_now_ms() - since_ms;
}

/* Drips text, a byte each 20 ms, round and round, until the server closes. */
static int64_t ms_until_drip_ends(int fd, const char *text) {
  int64_t since_ms = wait_now_ms();
  for (size_t i = 0; !has_ended(fd); i++) {
    if (wait_now_ms() - since_ms > wait_limit_ms(10000)) fail_msg("a dripping client is served for ever");
    (void)send(fd, text + i % strlen(text), 1, MSG_NOSIGNAL);
    poll(NULL, 0, 20);
  }
  return wait_now_ms() - since_ms;
}

static void assert_between(int64_t value, int64_t low, int64_t high) {
  if (value < low || value > wait_limit_ms(high))
    fail_msg("%lld ms, not %lld to %lld", (long long)value, (long long)low, (long long)high);
}

static void slow_headers_and_bodies_meet_the_deadline(void **state) {
  (void)state;
  start((struct http_stand_options){.request_timeout_ms = 400});
  int fd = raw_open();
  assert_true(raw_send(fd, "GET /"));
  assert_between(ms_until_drip_ends(fd, "a"), 350, 1500);
  close(fd);
  fd = raw_open();
  assert_true(raw_send(fd, HEARTBEAT));
  assert_between(ms_until_drip_ends(fd, "X-Header: yes\r\n"), 350, 1500);
  close(fd);
  fd = raw_open();
  assert_true(raw_send(fd, HEARTBEAT "Content-Length: 1000\r\n\r\n"));
  assert_between(ms_until_drip_ends(fd, "x"), 350, 1500);
  close(fd);
  fd = raw_open(); /* sends nothing at all */
  assert_between(ms_until_end(fd, wait_now_ms()), 350, 1500);
  close(fd);
}

static void a_body_without_end_is_cut(void **state) {
  (void)state;
  start((struct http_stand_options){.request_timeout_ms = 2000});
  int fd = raw_open();
  size_t sent = 0;
  char chunk[10007];
  memset(chunk, 'x', sizeof chunk);
  memcpy(chunk, "2710\r\n", 6); /* 10000 bytes */
  memcpy(chunk + 6 + 9999, "\r\n", 2);
  memcpy(chunk, "270f\r\n", 6); /* 9999 bytes */
  assert_true(raw_send(fd, HEARTBEAT "Transfer-Encoding: chunked\r\n\r\n"));
  int64_t since_ms = wait_now_ms();
  while (!has_ended(fd) && send(fd, chunk, sizeof chunk, MSG_NOSIGNAL) > 0) sent += sizeof chunk;
  assert_between(wait_now_ms() - since_ms, 0, 4000);
  assert_true(sent > 8192);
  close(fd);
}

/* One answered request; then the connection is idle. */
static void ask_once(int fd, const char *rest) {
  char answer[1024];
  assert_true(raw_send(fd, rest));
  ssize_t got = recv(fd, answer, sizeof answer - 1, 0);
  assert_true(got > 0);
  answer[got] = '\0';
  assert_non_null(strstr(answer, "HTTP/1.1 204"));
}

static void a_later_request_has_its_deadline_from_its_first_byte(void **state) {
  (void)state;
  start((struct http_stand_options){.request_timeout_ms = 500});
  int fd = raw_open();
  ask_once(fd, HEARTBEAT NO_BODY);
  int64_t since_ms = wait_now_ms();
  assert_true(raw_send(fd, "POST /v1/ten"));
  assert_between(ms_until_end(fd, since_ms), 450, 2000);
  close(fd);

  fd = raw_open();
  ask_once(fd, HEARTBEAT "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n");
  since_ms = wait_now_ms();
  assert_true(raw_send(fd, "P"));
  assert_between(ms_until_end(fd, since_ms), 450, 2000);
  close(fd);

  fd = raw_open(); /* in the same piece as the request before it */
  since_ms = wait_now_ms();
  ask_once(fd, HEARTBEAT "Content-Length: 2\r\n\r\n{}" HEARTBEAT "Content-Length: 0\r\n");
  assert_between(ms_until_end(fd, since_ms), 450, 2000);
  close(fd);

  fd = raw_open();
  ask_once(fd, HEARTBEAT NO_BODY);
  assert_true(raw_send(fd, "GET /"));
  assert_between(ms_until_drip_ends(fd, "a"), 450, 2000);
  close(fd);
}

static void idle_connections_have_their_own_limit(void **state) {
  (void)state;
  start((struct http_stand_options){.request_timeout_ms = 200, .idle_timeout_ms = 1500});
  int fd = raw_open();
  for (int i = 0; i < 3; i++) { /* longer than a request may take, shorter than idle */
    ask_once(fd, HEARTBEAT NO_BODY);
    ask_once(fd, HEARTBEAT "Content-Length: 2\r\n\r\n{}");
    int64_t until_ms = wait_now_ms() + 700;
    WAIT_UNTIL(wait_now_ms() >= until_ms, 5000);
  }
  assert_false(has_ended(fd));
  int64_t since_ms = wait_now_ms();
  ask_once(fd, HEARTBEAT NO_BODY);
  assert_between(ms_until_end(fd, since_ms), 1450, 3000);
  close(fd);
}

static void slow_clients_do_not_slow_others(void **state) {
  (void)state;
  enum { SLOW = 100 };
  int slow[SLOW];
  start((struct http_stand_options){.request_timeout_ms = 3000});
  for (int i = 0; i < SLOW; i++) {
    slow[i] = raw_open();
    assert_true(raw_send(slow[i], i % 2 == 0 ? "POST /v1/tenants" : HEARTBEAT "Content-Length: 8000\r\n\r\n{"));
  }
  struct client *client = client_open_as(http_stand_address(stand), DEVICE_TOKEN);
  int64_t since_ms = wait_now_ms();
  int64_t slowest_ms = 0;
  for (int i = 0; i < 1000; i++) {
    int64_t asked_ms = wait_now_ms();
    (void)send(slow[i % SLOW], "x", 1, MSG_NOSIGNAL);
    expect_status(client, 204, "POST", "/v1/tenants/t/devices/d/heartbeat", "{}");
    if (wait_now_ms() - asked_ms > slowest_ms) slowest_ms = wait_now_ms() - asked_ms;
  }
  assert_between(slowest_ms, 0, 500);
  for (int i = 0; i < SLOW; i++) {
    WAIT_UNTIL(has_ended(slow[i]), 10000);
    close(slow[i]);
  }
  assert_between(wait_now_ms() - since_ms, 0, 8000);
  client_close(client);
}

static void the_connection_idle_the_longest_makes_room(void **state) {
  (void)state;
  enum { MAX = 20 };
  int fds[MAX + 5];
  start((struct http_stand_options){.max_connections = MAX});
  for (int i = 0; i < MAX + 5; i++) {
    fds[i] = raw_open();
    ask_once(fds[i], HEARTBEAT NO_BODY);
  }
  WAIT_UNTIL(has_ended(fds[0]) && has_ended(fds[1]) && has_ended(fds[2]), 5000);
  ask_once(fds[MAX + 4], HEARTBEAT NO_BODY);
  for (int i = 0; i < MAX + 5; i++) close(fds[i]);
}

static void over_the_limit_clients_wait_for_a_place(void **state) {
  (void)state;
  enum { MAX = 10 };
  int fds[MAX];
  start((struct http_stand_options){.max_connections = MAX});
  for (int i = 0; i < MAX; i++) {
    fds[i] = raw_open();
    assert_true(raw_send(fds[i], DISCONNECT NO_BODY));
  }
  WAIT_UNTIL(http_stand_held(stand) == MAX, 5000);
  int late = raw_open();
  assert_true(raw_send(late, HEARTBEAT NO_BODY));
  assert_int_equal(http_stand_connections(stand), MAX);
  http_stand_hold(stand, false);
  char answer[256];
  assert_true(recv(late, answer, sizeof answer, 0) > 0);
  close(late);
  for (int i = 0; i < MAX; i++) close(fds[i]);
}

static void clients_that_leave_early_leave_nothing_behind(void **state) {
  (void)state;
  enum { TOTAL = 10000, AT_ONCE = 100 };
  start((struct http_stand_options){.request_timeout_ms = 5000});
  for (int i = 0; i < TOTAL; i++) {
    int fd = raw_open();
    switch (i % 4) {
    case 0: assert_true(raw_send(fd, DISCONNECT NO_BODY)); break;
    case 1: assert_true(raw_send(fd, HEARTBEAT "Content-Length: 100\r\n\r\n{")); break;
    case 2: assert_true(raw_send(fd, "POST /v1/ten")); break;
    default: assert_true(raw_send(fd, "GET /v1/tenants/t/devices/d?q=1 HTTP/1.1\r\nHost: x\r\n\r\nGET /metr")); break;
    }
    struct linger reset = {.l_onoff = 1, .l_linger = 0};
    if (i % 3 == 0) setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(fd);
    if (i % AT_ONCE == 0) { /* what a handler holds goes on without its client */
      http_stand_hold(stand, false);
      WAIT_UNTIL(http_stand_held(stand) == 0, 5000);
      http_stand_hold(stand, true);
    }
  }
  http_stand_hold(stand, false);
  WAIT_UNTIL(http_stand_connections(stand) == 0, 10000);
  WAIT_UNTIL(http_stand_requests(stand) == 0, 10000);
}

static void a_client_that_does_not_read_is_cut(void **state) {
  (void)state;
  start((struct http_stand_options){.request_timeout_ms = 10000, .idle_timeout_ms = 500});
  int fd = raw_open();
  int small = 4096;
  setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &small, sizeof small);
  static const char ask[] = "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n";
  /* Until the server stops reading, since it cannot write. */
  for (int waits = 0; waits < 10;) {
    if (send(fd, ask, sizeof ask - 1, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) continue;
    if (errno != EAGAIN) break;
    poll(NULL, 0, 10);
    waits++;
  }
  WAIT_UNTIL(http_stand_connections(stand) == 0, 5000);
  close(fd);
}

static void a_stop_answers_what_is_in_flight(void **state) {
  (void)state;
  start((struct http_stand_options){0});
  struct client *busy = client_open_as(http_stand_address(stand), DEVICE_TOKEN);
  struct client *idle = client_open_as(http_stand_address(stand), DEVICE_TOKEN);
  expect_status(idle, 204, "POST", "/v1/tenants/t/devices/d/heartbeat", NULL);
  client_ask(busy, "POST", "/v1/tenants/t/devices/d/disconnect", NULL);
  WAIT_UNTIL(http_stand_held(stand) == 1, 5000);
  http_stand_drain(stand);
  assert_true(client_sees_end(idle, 3000));
  assert_false(client_try(http_stand_address(stand)));
  http_stand_hold(stand, false);
  const struct response *response = client_read(busy);
  assert_int_equal(response->status, 204);
  assert_true(response->close);
  assert_true(client_sees_end(busy, 3000));
  client_close(busy);
  client_close(idle);
}

static void a_stop_does_not_wait_for_slow_clients(void **state) {
  (void)state;
  start((struct http_stand_options){0});
  int fd = raw_open();
  assert_true(raw_send(fd, HEARTBEAT));
  WAIT_UNTIL(http_stand_connections(stand) == 1, 5000);
  int64_t since_ms = wait_now_ms();
  http_stand_drain(stand);
  assert_between(ms_until_end(fd, since_ms), 0, 2500);
  close(fd);
}

static int without_metrics(void **state) {
  (void)state;
  metrics_free();
  return 0;
}
static int with_metrics(void **state) {
  (void)state;
  return metrics_init() == STATUS_OK ? 0 : -1;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(slow_headers_and_bodies_meet_the_deadline, stop),
      cmocka_unit_test_teardown(a_body_without_end_is_cut, stop),
      cmocka_unit_test_teardown(a_later_request_has_its_deadline_from_its_first_byte, stop),
      cmocka_unit_test_teardown(idle_connections_have_their_own_limit, stop),
      cmocka_unit_test_teardown(slow_clients_do_not_slow_others, stop),
      cmocka_unit_test_teardown(the_connection_idle_the_longest_makes_room, stop),
      cmocka_unit_test_teardown(over_the_limit_clients_wait_for_a_place, stop),
      cmocka_unit_test_teardown(clients_that_leave_early_leave_nothing_behind, stop),
      cmocka_unit_test_teardown(a_client_that_does_not_read_is_cut, stop),
      cmocka_unit_test_teardown(a_stop_answers_what_is_in_flight, stop),
      cmocka_unit_test_teardown(a_stop_does_not_wait_for_slow_clients, stop),
  };
  return cmocka_run_group_tests(tests, with_metrics, without_metrics);
}
