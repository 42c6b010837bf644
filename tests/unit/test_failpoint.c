#include "support/unit.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "failpoint.h"

#if PRESENCE_FAILPOINTS

/* What became of a child that runs with this environment and passes two failure points five times each. */
static int outcome(const char *place, const char *action) {
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    setenv("PRESENCE_FAILPOINT", place, 1);
    if (action != NULL) setenv("PRESENCE_FAILPOINT_ACTION", action, 1);
    char *error = NULL;
    close(STDERR_FILENO);
    if (failpoint_init(&error) != STATUS_OK) _exit(2);
    for (int i = 1; i <= 5; i++) {
      FAILPOINT(detector_expired);
      FAILPOINT(publisher_committed);
    }
    _exit(0);
  }
  int status = 0;
  assert_int_equal(waitpid(child, &status, WUNTRACED), child);
  if (WIFSTOPPED(status)) {
    int after = 0;
    assert_int_equal(kill(child, SIGCONT), 0);
    assert_int_equal(waitpid(child, &after, 0), child);
    assert_true(WIFEXITED(after) && WEXITSTATUS(after) == 0); /* once continued it goes on */
  }
  return status;
}

static void kills_by_default(void **state) {
  (void)state;
  int status = outcome("publisher_committed", NULL);
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
  status = outcome("publisher_committed:5", "kill");
  assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void counts_hits(void **state) {
  (void)state;
  int status = outcome("publisher_committed:6", NULL);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void pauses_or_exits_on_demand(void **state) {
  (void)state;
  int status = outcome("detector_expired:2", "pause");
  assert_true(WIFSTOPPED(status) && WSTOPSIG(status) == SIGSTOP);
  status = outcome("detector_expired", "exit");
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 70);
}

/* The request arrives, the answer does not: neither one that is sent later, nor is there an error before it is. */
static void cuts_the_way_back_on_demand(void **state) {
  (void)state;
  int pair[2];
  char byte = 0;
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  pid_t child = fork();
  assert_true(child >= 0);
  if (child == 0) {
    setenv("PRESENCE_FAILPOINT", "publisher_read", 1);
    setenv("PRESENCE_FAILPOINT_ACTION", "cut", 1);
    char *error = NULL;
    close(STDERR_FILENO);
    close(pair[1]);
    if (failpoint_init(&error) != STATUS_OK) _exit(2);
    FAILPOINT(publisher_read);
    if (write(pair[0], "?", 1) != 1) _exit(3);
    _exit(read(pair[0], &byte, 1) == 0 ? 0 : 4);
  }
  close(pair[0]);
  assert_int_equal(read(pair[1], &byte, 1), 1);
  assert_int_equal(byte, '?');
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  close(pair[1]);
}

static void without_a_choice_nothing_happens(void **state) {
  (void)state;
  int status = outcome("", "kill");
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void a_wrong_choice_is_refused(void **state) {
  (void)state;
  static const char *const bad[] = {"bogus",
                                    "publisher_committe",
                                    "publisher_committed:",
                                    "publisher_committed:0",
                                    "publisher_committed:x",
                                    "publisher_committed:-1",
                                    ":1"};
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    int status = outcome(bad[i], NULL);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 2);
  }
  int status = outcome("publisher_committed", "explode");
  assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 2);
  char *error = NULL;
  setenv("PRESENCE_FAILPOINT", "bogus", 1);
  assert_status(STATUS_INVALID, failpoint_init(&error));
  assert_string_equal(error, "PRESENCE_FAILPOINT: not allowed; allowed: name[:count], a name of failpoints.def, count from 1");
  free(error);
  unsetenv("PRESENCE_FAILPOINT");
}

static void every_name_can_be_chosen(void **state) {
  (void)state;
  const char *const *names = failpoint_names();
  for (int id = 0; id < FAILPOINT_COUNT; id++) {
    char *error = NULL;
    setenv("PRESENCE_FAILPOINT", names[id], 1);
    assert_status(STATUS_OK, failpoint_init(&error));
    assert_null(error);
  }
  unsetenv("PRESENCE_FAILPOINT");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(kills_by_default),
      cmocka_unit_test(counts_hits),
      cmocka_unit_test(pauses_or_exits_on_demand),
      cmocka_unit_test(cuts_the_way_back_on_demand),
      cmocka_unit_test(without_a_choice_nothing_happens),
      cmocka_unit_test(a_wrong_choice_is_refused),
      cmocka_unit_test(every_name_can_be_chosen),
  };
  return cmocka_run_group_tests_name("failpoint", tests, NULL, NULL);
}

#else

static void this_build_refuses_any(void **state) {
  (void)state;
  char *error = NULL;
  setenv("PRESENCE_FAILPOINT", failpoint_names()[0], 1);
  assert_status(STATUS_INVALID, failpoint_init(&error));
  assert_string_equal(error, "PRESENCE_FAILPOINT: not allowed; allowed: nothing in a build without failure points");
  free(error);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(this_build_refuses_any)};
  return cmocka_run_group_tests_name("failpoint", tests, NULL, NULL);
}

#endif
