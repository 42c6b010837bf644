/* child.h: programs that a test starts. Each dies with the test program, however that ends. */
#ifndef PRESENCE_TEST_CHILD_H
#define PRESENCE_TEST_CHILD_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct child {
  pid_t pid;       /* 0: not running */
  const char *log; /* its stdout and stderr (where not given apart) */
};

struct child_options {
  const char *const *argv;        /* argv[0] is a path; NULL-terminated */
  const char *const *environment; /* "NAME=value", added to this process's; NULL-terminated; may be NULL */
  const char *log;                /* appended to; NULL: /dev/null */
  const char *out;                /* stdout on its own; NULL: to log */
  int death_signal;               /* sent to it when this process dies; 0: SIGKILL */
};

/* PRESENCE_* and PG* of this process's environment are not handed on, so that tests depend on nothing outside. */
struct child child_start(const struct child_options *options);
/* The exit code, or 128 + the signal that ended it. Fails the test where it still runs after timeout_ms. */
int child_wait(struct child *child, int64_t timeout_ms);
bool child_is_running(struct child *child); /* false also reaps it */
void child_signal(const struct child *child, int signal_number);
int child_stop(struct child *child, int signal_number, int64_t timeout_ms); /* signal and wait; nothing where it is not running */
void child_kill(struct child *child);                                       /* SIGKILL, also of a stopped one */
/* The last lines of a log, to stderr: for a test that failed. */
void child_show_log(const char *title, const char *log);

#endif
