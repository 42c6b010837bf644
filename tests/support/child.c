#include "support/test.h"

#include "support/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Options of the service and of libpq stay outside; the set-up's place and the sanitizers' options go through. */
static bool is_handed_on(const char *variable) {
  return strncmp(variable, "PRESENCE_", 9) != 0 && strncmp(variable, "PG", 2) != 0;
}

/* Is the variable of this line among the additions? */
static bool is_replaced(const char *line, const char *const *added) {
  size_t name = strcspn(line, "=") + 1;
  for (; added != NULL && *added != NULL; added++)
    if (strncmp(*added, line, name) == 0) return true;
  return false;
}

static const char **make_environment(const char *const *added) {
  size_t count = 0, used = 0;
  for (char **each = environ; *each != NULL; each++) count++;
  for (const char *const *each = added; each != NULL && *each != NULL; each++) count++;
  const char **all = calloc(count + 1, sizeof *all);
  assert_non_null(all);
  /* Each name once, the later addition: with a name twice getenv takes the first, the dynamic loader (LD_PRELOAD) the last. */
  for (const char *const *each = added; each != NULL && *each != NULL; each++)
    if (!is_replaced(*each, each + 1)) all[used++] = *each;
  for (char **each = environ; *each != NULL; each++)
    if (is_handed_on(*each) && !is_replaced(*each, added)) all[used++] = *each;
  return all;
}

static int open_output(const char *path) {
  int fd = open(path != NULL ? path : "/dev/null", O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (fd < 0) fail_msg("%s: %s", path, strerror(errno));
  return fd;
}

/* Between fork and exec: system calls only, as other threads may hold locks. */
static void become(const struct child_options *options, int out, int log, const char **environment) {
  if (prctl(PR_SET_PDEATHSIG, options->death_signal != 0 ? options->death_signal : SIGKILL) != 0) _exit(127);
  int nothing = open("/dev/null", O_RDONLY);
  if (dup2(nothing, 0) < 0 || dup2(out, 1) < 0 || dup2(log, 2) < 0) _exit(127);
  if (close_range(3, ~0U, 0) != 0) _exit(127); /* the test's own connections are not the program's */
  signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  execve(options->argv[0], (char *const *)options->argv, (char *const *)environment);
  dprintf(2, "%s: %s\n", options->argv[0], strerror(errno));
  _exit(127);
}

struct child child_start(const struct child_options *options) {
  const char **environment = make_environment(options->environment);
  int log = open_output(options->log);
  int out = options->out != NULL ? open_output(options->out) : dup(log);
  struct child child = {.pid = fork(), .log = options->log};
  if (child.pid == 0) become(options, out, log, environment);
  close(log);
  close(out);
  free(environment);
  if (child.pid < 0) fail_msg("fork: %s", strerror(errno));
  return child;
}

/* True when it has ended; then *code is what child_wait gives. */
static bool has_ended(struct child *child, int *code) {
  int status;
  pid_t pid = waitpid(child->pid, &status, WNOHANG);
  if (pid == 0) return false;
  if (pid < 0) fail_msg("waitpid: %s", strerror(errno));
  child->pid = 0;
  *code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return true;
}

int child_wait(struct child *child, int64_t timeout_ms) {
  int code = 0;
  assert_true(child->pid > 0);
  WAIT_UNTIL(has_ended(child, &code), timeout_ms);
  return code;
}

bool child_is_running(struct child *child) {
  int code;
  return child->pid > 0 && !has_ended(child, &code);
}

void child_signal(const struct child *child, int signal_number) {
  assert_true(child->pid > 0);
  if (kill(child->pid, signal_number) != 0) fail_msg("kill: %s", strerror(errno));
}

int child_stop(struct child *child, int signal_number, int64_t timeout_ms) {
  if (child->pid == 0) return 0;
  child_signal(child, signal_number);
  return child_wait(child, timeout_ms);
}

void child_kill(struct child *child) {
  if (child->pid == 0) return;
  kill(child->pid, SIGKILL);
  waitpid(child->pid, NULL, 0);
  child->pid = 0;
}

#define SHOWN_BYTES 4000

void child_show_log(const char *title, const char *log) {
  FILE *file = log != NULL ? fopen(log, "re") : NULL;
  if (file == NULL) return;
  if (fseek(file, -SHOWN_BYTES, SEEK_END) != 0) rewind(file);
  char text[SHOWN_BYTES + 1];
  text[fread(text, 1, SHOWN_BYTES, file)] = '\0';
  fclose(file);
  fprintf(stderr, "---- the end of %s's log\n%s----\n", title, text);
}
