#include "support/test.h"

#include "support/forked.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

pid_t forked_start(void (*run)(const char *argument), const char *argument) {
  pid_t parent = getpid(), pid = fork();
  assert_true(pid >= 0);
  if (pid != 0) return pid;
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(1);
  run(argument);
  _exit(1);
}

void forked_kill(pid_t pid) {
  int status;
  (void)kill(pid, SIGKILL);
  assert_int_equal(waitpid(pid, &status, 0), pid);
  if (!WIFSIGNALED(status)) fail_msg("a process met an error and left");
}
