/* presenced.h: processes of the service, and calls of presencectl. */
#ifndef PRESENCE_TEST_PRESENCED_H
#define PRESENCE_TEST_PRESENCED_H

#include "support/child.h"

struct presenced {
  struct child child;
  const char *address; /* "127.0.0.1:port"; NULL until it listens */
  const char *log;
};

/* environment: "PRESENCE_…=…" (NULL-terminated); a later line wins. It listens on a free port unless told otherwise. */
void presenced_start(struct presenced *process, const char *const *environment); /* listens when it returns */
void presenced_spawn(struct presenced *process, const char *const *environment); /* does not wait: it may be meant to fail */
void presenced_wait_listening(struct presenced *process);
void presenced_wait_ready(struct presenced *process); /* readyz says 200 */
int presenced_stop(struct presenced *process);        /* SIGTERM; the exit code; at most 6 s */
void presenced_kill(struct presenced *process);       /* kill -9; also when it is not running */
void presenced_pause(struct presenced *process);      /* SIGSTOP, and waits until it stands */
void presenced_resume(struct presenced *process);
bool presenced_logged(const struct presenced *process, const char *text); /* does its log hold this text? */

/* A program run to its end. */
struct outcome {
  int code;
  const char *out, *err; /* live as long as the test program */
};
/* argv without the program; NULL-terminated. program: "presencectl", "presenced", "presence-sim". */
struct outcome run_program(const char *program, const char *const *environment, const char *const *arguments);

#endif
