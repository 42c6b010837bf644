#include "support/test.h"

#include "support/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static char *folder;
static unsigned paths;

static int remove_one(const char *path, const struct stat *status, int kind, struct FTW *walk) {
  (void)status, (void)kind, (void)walk;
  return remove(path);
}

/* Servers may still be writing while they end: try again until it is gone. */
static void remove_folder(const char *path) {
  for (int tries = 0; tries < 200; tries++) {
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    if (access(path, F_OK) != 0 && errno == ENOENT) return;
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
  }
}

/* A process that outlives this one, however it ends (the pipe closes then), and cleans up after it. */
static void start_janitor(void) {
  int pipe_ends[2];
  assert_int_equal(pipe2(pipe_ends, O_CLOEXEC), 0);
  pid_t middle = fork();
  assert_true(middle >= 0);
  if (middle > 0) {
    close(pipe_ends[0]);
    waitpid(middle, NULL, 0);
    return;
  }
  if (fork() != 0) _exit(0);
  setsid();
  for (int fd = 0; fd < 256; fd++)
    if (fd != pipe_ends[0]) close(fd);
  char byte;
  while (read(pipe_ends[0], &byte, 1) < 0 && errno == EINTR)
    ;
  remove_folder(folder);
  _exit(0);
}

/* Memory, where there is plenty: PostgreSQL makes hundreds of files for each database, which costs ten times as much on a disk.
 */
static const char *base_folder(void) {
  static const char memory[] = "/dev/shm";
  struct statvfs room;
  if (access(memory, W_OK) == 0 && statvfs(memory, &room) == 0 && room.f_bavail * room.f_frsize >= (1UL << 30)) return memory;
  const char *given = getenv("TMPDIR");
  return given != NULL && *given != '\0' ? given : "/tmp";
}

static void make_folder(void) {
  const char *base = base_folder();
  /* PostgreSQL does not run as root: its user must reach its folder below ours. */
  if (geteuid() == 0 && getenv("TMPDIR") == base) (void)chmod(base, 0711);
  assert_true(asprintf(&folder, "%s/presence.XXXXXX", base) > 0);
  if (mkdtemp(folder) == NULL) fail_msg("no folder can be made in %s: %s", base, strerror(errno));
  assert_int_equal(chmod(folder, 0711), 0);
  start_janitor();
}

const char *scratch_path(const char *name) {
  if (folder == NULL) make_folder();
  return text_format("%s/%u-%s", folder, paths++, name);
}

const char *scratch_folder(const char *name) {
  const char *path = scratch_path(name);
  if (mkdir(path, 0711) != 0) fail_msg("%s: %s", path, strerror(errno));
  return path;
}

/* The folder of the build: what stands before "/tests/" in the program's own path. */
static const char *build_folder(void) {
  static char path[PATH_MAX];
  if (*path != '\0') return path;
  ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
  assert_true(length > 0);
  path[length] = '\0';
  for (char *at = path + length; at > path; at--) {
    if (strncmp(at, "/tests/", 7) == 0) {
      *at = '\0';
      return path;
    }
  }
  fail_msg("this program does not lie below a build's tests folder: %s", path);
  return NULL;
}

const char *place_root(void) {
  static char path[PATH_MAX];
  if (*path != '\0') return path;
  const char *given = getenv("PRESENCE_ROOT");
  snprintf(path, sizeof path, "%s", given != NULL ? given : build_folder());
  if (given != NULL) return path;
  for (;;) {
    if (access(text_format("%s/Makefile", path), F_OK) == 0) return path;
    char *slash = strrchr(path, '/');
    if (slash == NULL || slash == path)
      fail_msg("no checkout above %s", build_folder());
    else
      *slash = '\0';
  }
}

const char *place_built(const char *name) {
  const char *path = text_format("%s/%s", build_folder(), name);
  if (access(path, R_OK) != 0) fail_msg("%s is not built", path);
  return path;
}

const char *place_server(const char *name) {
  const char *dependencies = getenv("PRESENCE_DEPS_DIR");
  if (dependencies == NULL) dependencies = text_format("%s/.local/deps", place_root());
  const char *path = text_format("%s/bin/%s", dependencies, name);
  return access(path, X_OK) == 0 ? path : NULL;
}

const char *place_shared(const char *name) {
  const char *shared = getenv("PRESENCE_SHARED");
  if (shared == NULL) shared = text_format("%s/../shared", place_root());
  const char *path = text_format("%s/%s", shared, name);
  return access(path, R_OK) == 0 ? path : NULL;
}

char *place_read(const char *path, size_t *length) {
  FILE *file = fopen(path, "re");
  if (file == NULL) fail_msg("%s: %s", path, strerror(errno));
  size_t used = 0, room = 4096;
  char *data = malloc(room);
  for (;;) {
    assert_non_null(data);
    used += fread(data + used, 1, room - used - 1, file);
    if (used + 1 < room) break;
    room *= 2;
    data = realloc(data, room);
  }
  fclose(file);
  data[used] = '\0';
  if (length != NULL) *length = used;
  return data;
}

const char *place_text(const char *path) {
  char *data = place_read(path, NULL);
  const char *kept = text_format("%s", data);
  free(data);
  return kept;
}

int free_port(void) {
  static int next;
  if (next == 0) next = (int)(getpid() % 10000);
  for (int tries = 0; tries < 1000; tries++) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    address.sin_port = htons((uint16_t)(20000 + next++ % 10000));
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    bool is_free = bind(fd, (const struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    if (is_free) return ntohs(address.sin_port);
  }
  fail_msg("no free port");
  return 0;
}
