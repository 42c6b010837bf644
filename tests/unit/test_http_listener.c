#include "support/unit.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "http/listener.h"

static void open_or_fail(struct listener *listener, const char *listen) {
  char *error = NULL;
  if (listener_open(listener, listen, &error) != STATUS_OK) fail_msg("%s", error);
}

static void port_zero_is_a_free_port(void **state) {
  (void)state;
  struct listener listener;
  char text[LISTENER_TEXT_MAX];
  open_or_fail(&listener, "127.0.0.1:0");
  listener_format(&listener, text);
  assert_memory_equal(text, "127.0.0.1:", 10);
  assert_true(strtol(text + 10, NULL, 10) > 0);
  listener_close(&listener);
}

static void ipv6(void **state) {
  (void)state;
  struct listener listener;
  char text[LISTENER_TEXT_MAX];
  char *error = NULL;
  if (listener_open(&listener, "[::1]:0", &error) != STATUS_OK) {
    free(error);
    skip(); /* a machine without IPv6 */
  }
  listener_format(&listener, text);
  assert_memory_equal(text, "[::1]:", 6);
  listener_close(&listener);
}

static void what_is_no_address(void **state) {
  (void)state;
  static const char *const bad[] = {"", ":", "8080", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "::1:80", "[::1]", "host:80"};
  struct listener listener;
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    char *error = NULL;
    assert_status(STATUS_INVALID, listener_open(&listener, bad[i], &error));
    assert_non_null(error);
    free(error);
  }
}

/* In a process of its own: what does another program meet on the port? */
static int try_elsewhere(const char *address, bool reuse_port) {
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    struct listener listener;
    char *error = NULL;
    int on = 1;
    if (!reuse_port)
      _exit(listener_open(&listener, address, &error) == STATUS_OK ? 0 : strstr(error, "port in use") != NULL ? 1 : 2);
    struct sockaddr_in other = {.sin_family = AF_INET, .sin_port = htons((uint16_t)strtol(strrchr(address, ':') + 1, NULL, 10))};
    other.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    _exit(bind(fd, (struct sockaddr *)&other, sizeof other) == 0 && listen(fd, 1) == 0 ? 0 : 1);
  }
  int status = 0;
  assert_int_equal(waitpid(pid, &status, 0), pid);
  return WEXITSTATUS(status);
}

static void loops_share_a_port_that_nobody_else_gets(void **state) {
  (void)state;
  enum { LOOPS = 4, CLIENTS = 200 };
  struct listener listener;
  int fds[LOOPS];
  char text[LISTENER_TEXT_MAX];
  open_or_fail(&listener, "127.0.0.1:0");
  listener_format(&listener, text);
  assert_int_equal(try_elsewhere(text, false), 1);
  for (int i = 0; i < LOOPS; i++) assert_status(STATUS_OK, listener_take(&listener, &fds[i]));
  assert_int_equal(try_elsewhere(text, false), 1);
  assert_int_equal(try_elsewhere(text, true), 1);

  for (int i = 0; i < CLIENTS; i++) {
    int client = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(client, (struct sockaddr *)&listener.address, listener.address_len), 0);
    close(client);
  }
  int total = 0;
  for (int i = 0; i < LOOPS; i++) {
    int accepted = 0;
    for (int fd = accept(fds[i], NULL, NULL); fd >= 0; fd = accept(fds[i], NULL, NULL)) {
      close(fd);
      accepted++;
    }
    assert_true(accepted > 0);
    total += accepted;
    close(fds[i]);
  }
  assert_int_equal(total, CLIENTS);
  listener_close(&listener);
  open_or_fail(&listener, text); /* free again at once, in spite of connections in TIME_WAIT */
  listener_close(&listener);
}

static void the_file_limit_is_raised_as_far_as_allowed(void **state) {
  (void)state;
  struct rlimit before;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
  struct rlimit low = {.rlim_cur = 100, .rlim_max = before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
  assert_int_equal(listener_raise_file_limit(500, 50), 500);
  struct rlimit now;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
  assert_true(now.rlim_cur >= 550);
  assert_int_equal(listener_raise_file_limit(INT64_C(1) << 40, 50), (int64_t)before.rlim_max - 50);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(port_zero_is_a_free_port),
      cmocka_unit_test(ipv6),
      cmocka_unit_test(what_is_no_address),
      cmocka_unit_test(loops_share_a_port_that_nobody_else_gets),
      cmocka_unit_test(the_file_limit_is_raised_as_far_as_allowed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
