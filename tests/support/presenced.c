#include "support/test.h"

#include "support/client.h"
#include "support/presenced.h"
#include "support/scratch.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define ENVIRONMENT_MAX 48

void presenced_spawn(struct presenced *process, const char *const *environment) {
  const char *all[ENVIRONMENT_MAX] = {"PRESENCE_LISTEN=127.0.0.1:0"};
  size_t count = 1;
  for (const char *const *each = environment; each != NULL && *each != NULL; each++) {
    assert_true(count + 1 < LENGTH(all));
    all[count++] = *each;
  }
  const char *argv[] = {place_built("presenced"), NULL};
  process->address = NULL;
  process->log = scratch_path("presenced.log");
  process->child = child_start(&(struct child_options){.argv = argv, .environment = all, .log = process->log});
}

/* "… listening … address=127.0.0.1 port=40123" or "address=127.0.0.1:40123", in logfmt or JSON. */
static const char *listening_port(const char *log) {
  const char *line = strstr(log, "listening");
  if (line == NULL || strchr(line, '\n') == NULL) return NULL;
  const char *port = strstr(line, "port");
  if (port == NULL) port = strstr(line, "address");
  if (port == NULL) return NULL;
  const char *end = strchr(port, '\n');
  const char *digits = NULL;
  for (const char *at = port; at < end; at++) /* the last run of digits after a sign that may stand before a port */
    if ((at[-1] == ':' || at[-1] == '=' || at[-1] == ' ') && *at >= '1' && *at <= '9') digits = at;
  return digits != NULL ? text_format("%ld", strtol(digits, NULL, 10)) : NULL;
}

static bool listens(struct presenced *process) {
  if (!child_is_running(&process->child)) {
    child_show_log("presenced", process->log);
    fail_msg("presenced ended at its start");
  }
  char *log = place_read(process->log, NULL);
  const char *port = listening_port(log);
  free(log);
  if (port != NULL) process->address = text_format("127.0.0.1:%s", port);
  return port != NULL;
}

void presenced_wait_listening(struct presenced *process) { WAIT_UNTIL(listens(process), 15000); }

static bool is_ready(const struct presenced *process) {
  struct client *client = client_open(process->address);
  int status = client_call(client, "GET", "/readyz", NULL)->status;
  client_close(client);
  return status == 200;
}

void presenced_wait_ready(struct presenced *process) { WAIT_UNTIL(is_ready(process), 15000); }

void presenced_start(struct presenced *process, const char *const *environment) {
  presenced_spawn(process, environment);
  presenced_wait_listening(process);
}

int presenced_stop(struct presenced *process) {
  int code = child_stop(&process->child, SIGTERM, 6000);
  process->address = NULL;
  return code;
}

void presenced_kill(struct presenced *process) {
  child_kill(&process->child);
  process->address = NULL;
}

void presenced_pause(struct presenced *process) {
  child_signal(&process->child, SIGSTOP);
  siginfo_t info;
  assert_int_equal(waitid(P_PID, (id_t)process->child.pid, &info, WSTOPPED | WNOWAIT), 0);
}

void presenced_resume(struct presenced *process) { child_signal(&process->child, SIGCONT); }

bool presenced_logged(const struct presenced *process, const char *text) {
  char *log = place_read(process->log, NULL);
  bool found = strstr(log, text) != NULL;
  free(log);
  return found;
}

struct outcome run_program(const char *program, const char *const *environment, const char *const *arguments) {
  const char *argv[32] = {place_built(program)};
  for (size_t i = 0; arguments[i] != NULL; i++) {
    assert_true(i + 2 < LENGTH(argv));
    argv[i + 1] = arguments[i];
  }
  const char *out = scratch_path("out"), *err = scratch_path("err");
  struct child child = child_start(&(struct child_options){.argv = argv, .environment = environment, .log = err, .out = out});
  int code = child_wait(&child, 30000);
  return (struct outcome){.code = code, .out = place_text(out), .err = place_text(err)};
}
