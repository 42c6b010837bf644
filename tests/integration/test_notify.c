/* A service manager is told when the process serves and when it stops, over the socket that it names. */
#include "support/test.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "notify.h"
#include "support/world.h"

/* A datagram socket as systemd has one. name: a path, or '@' and a name of the abstract namespace. */
static int open_manager(const char *name) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  size_t len = strlen(name);
  assert_true(len < sizeof address.sun_path);
  memcpy(address.sun_path, name, len);
  if (name[0] == '@') address.sun_path[0] = '\0';
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  assert_true(fd >= 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&address, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)), 0);
  return fd;
}

/* Has the manager been told exactly this? Nothing yet: false. */
static bool was_told(int fd, const char *state) {
  char told[64];
  ssize_t len = recv(fd, told, sizeof told - 1, 0);
  if (len < 0) {
    assert_int_equal(errno, EAGAIN);
    return false;
  }
  told[len] = '\0';
  assert_string_equal(told, state);
  return true;
}

static void the_socket_may_have_a_path_or_a_name(void **state) {
  (void)state;
  const char *const names[] = {text_format("%s/notify", getenv("TMPDIR")), text_format("@presence-test-%d", (int)getpid())};
  for (size_t i = 0; i < LENGTH(names); i++) {
    int manager = open_manager(names[i]);
    setenv("NOTIFY_SOCKET", names[i], 1);
    notify_service_manager("READY=1");
    assert_true(was_told(manager, "READY=1"));
    close(manager);
    notify_service_manager("READY=1"); /* nobody listens any more */
  }
}

static void nothing_is_sent_where_nobody_asked(void **state) {
  (void)state;
  char *long_name = text_format("/%0200d", 0);
  const char *const names[] = {"", "relative", long_name};
  unsetenv("NOTIFY_SOCKET");
  notify_service_manager("READY=1");
  for (size_t i = 0; i < LENGTH(names); i++) {
    setenv("NOTIFY_SOCKET", names[i], 1);
    notify_service_manager("READY=1");
  }
  unsetenv("NOTIFY_SOCKET");
}

static void presenced_tells_that_it_serves_and_that_it_stops(void **state) {
  const char *name = text_format("%s/manager", getenv("TMPDIR"));
  int manager = open_manager(name);
  struct world *world = world_start(state, &(struct world_options){0});
  const char *const environment[] = {text_format("NOTIFY_SOCKET=%s", name), NULL};
  struct presenced *process = world_process(world, "api", environment);
  WAIT_UNTIL(was_told(manager, "READY=1"), 10000);
  assert_true(client_try(process->address));
  assert_int_equal(presenced_stop(process), 0);
  assert_true(was_told(manager, "STOPPING=1"));
  close(manager);
  world_end(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_socket_may_have_a_path_or_a_name),
      cmocka_unit_test(nothing_is_sent_where_nobody_asked),
      cmocka_unit_test_teardown(presenced_tells_that_it_serves_and_that_it_stops, world_teardown),
  };
  return cmocka_run_group_tests_name("notify", tests, NULL, NULL);
}
