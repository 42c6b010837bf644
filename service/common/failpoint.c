#include "failpoint.h"

#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "log.h"
#include "str.h"

enum action { ACTION_KILL, ACTION_PAUSE, ACTION_EXIT, ACTION_CUT };

enum { FDS_MAX = 4096 };

static struct {
  enum failpoint_id chosen; /* FAILPOINT_COUNT: none */
  enum action action;
  atomic_llong hits_left;
} failpoint = {.chosen = FAILPOINT_COUNT};

static const char *const names[FAILPOINT_COUNT] = {
#define FAILPOINT_NAME(name, where) #name,
#include "../failpoints.def"
#undef FAILPOINT_NAME
};

const char *const *failpoint_names(void) { return names; }

static enum status refuse(const char *variable, const char *allowed, char **error) {
  struct buf message = {0};
  enum status status = buf_printf(&message, "%s: not allowed; allowed: %s", variable, allowed);
  if (status == STATUS_OK) status = buf_append(&message, "", 1);
  if (status == STATUS_OK) {
    *error = message.data;
    return STATUS_INVALID;
  }
  buf_free(&message);
  return status;
}

static enum status read_place(const char *text, char **error) {
  const char *colon = strchrnul(text, ':');
  struct str name = {text, (size_t)(colon - text)};
  int64_t count = 1;
  int id = 0;
  while (id < FAILPOINT_COUNT && !str_equal(name, str_from(names[id]))) id++;
  if (id == FAILPOINT_COUNT || (*colon == ':' && str_to_int64(str_from(colon + 1), &count) != STATUS_OK) || count < 1)
    return refuse("PRESENCE_FAILPOINT", "name[:count], a name of failpoints.def, count from 1", error);
  failpoint.chosen = (enum failpoint_id)id;
  atomic_store(&failpoint.hits_left, count);
  return STATUS_OK;
}

static enum status read_action(const char *text, char **error) {
  static const char *const words[] = {
      [ACTION_KILL] = "kill", [ACTION_PAUSE] = "pause", [ACTION_EXIT] = "exit", [ACTION_CUT] = "cut"};
  for (int action = ACTION_KILL; action <= ACTION_CUT; action++)
    if (strcmp(text, words[action]) == 0) {
      failpoint.action = (enum action)action;
      return STATUS_OK;
    }
  return refuse("PRESENCE_FAILPOINT_ACTION", "kill, pause, exit or cut", error);
}

enum status failpoint_init(char **error) {
  *error = NULL;
  failpoint.chosen = FAILPOINT_COUNT;
  failpoint.action = ACTION_KILL;
  const char *place = getenv("PRESENCE_FAILPOINT");
  const char *action = getenv("PRESENCE_FAILPOINT_ACTION");
  if (place == NULL || place[0] == '\0') return STATUS_OK;
#if !PRESENCE_FAILPOINTS
  return refuse("PRESENCE_FAILPOINT", "nothing in a build without failure points", error);
#endif
  enum status status = read_place(place, error);
  if (status == STATUS_OK && action != NULL) status = read_action(action, error);
  return status;
}

/* What is sent still arrives; the server learns that nobody reads when it answers (unix(7): EPIPE). What has arrived can still be
 * read. */
static void stop_reading(void) {
  for (int fd = STDERR_FILENO + 1; fd < FDS_MAX; fd++) {
    struct sockaddr_un peer = {0};
    socklen_t size = sizeof peer;
    if (getpeername(fd, (struct sockaddr *)&peer, &size) == 0 && peer.sun_family == AF_UNIX) (void)shutdown(fd, SHUT_RD);
  }
}

void failpoint_hit(enum failpoint_id id) {
  if (id != failpoint.chosen || atomic_fetch_sub(&failpoint.hits_left, 1) != 1) return;
  log_warn("failpoint", LOG_STR("name", names[id]));
  switch (failpoint.action) {
  case ACTION_KILL: (void)raise(SIGKILL); break;
  case ACTION_PAUSE:
    (void)kill(getpid(), SIGSTOP); /* the whole process, not this thread: raise() is a thread's */
    break;
  case ACTION_EXIT: _exit(70);
  case ACTION_CUT: stop_reading(); break;
  }
}
