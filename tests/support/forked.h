/* forked.h: parts of the test program that run as processes of their own and are killed. */
#ifndef PRESENCE_TEST_FORKED_H
#define PRESENCE_TEST_FORKED_H

#include <sys/types.h>

/* A process that runs `run`, which never returns (it leaves by _exit(1) where something is wrong). It dies with the test program.
 */
pid_t forked_start(void (*run)(const char *argument), const char *argument);
/* kill -9; fails the test where it had left by itself. */
void forked_kill(pid_t pid);

#endif
