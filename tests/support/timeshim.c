/* timeshim: a library to preload into a server under test, see timeshim.h. It allocates nothing and looks up no symbol (the
 * server's allocator may ask for the time while it starts), and is linked without libc, so that it loads beside any libc. */
#include "timeshim.h"

#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

static const struct timeshim *shim; /* NULL: the real time */

static const char *environment_value(char *const *environment, const char *name) {
  for (; *environment; environment++) {
    size_t i = 0;
    while (name[i] && (*environment)[i] == name[i]) i++;
    if (!name[i] && (*environment)[i] == '=') return *environment + i + 1;
  }
  return NULL;
}

/* The dynamic loader calls constructors with the arguments of main. */
__attribute__((constructor)) static void timeshim_start(int argc, char **argv, char **environment) {
  (void)argc;
  (void)argv;
  const char *path = environment_value(environment, "PRESENCE_TIMESHIM_FILE");
  if (!path) return;
  long fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  long map = syscall(SYS_mmap, NULL, sizeof *shim, PROT_READ, MAP_SHARED, fd, 0L);
  syscall(SYS_close, fd);
  if (map != -1) shim = (const struct timeshim *)map; // NOLINT(performance-no-int-to-ptr): an address from the kernel
}

static void move(struct timespec *now) {
  int64_t setting = shim ? atomic_load(&shim->setting) : TIMESHIM_OFF;
  int64_t value_ms = setting >> 2;
  if ((setting & 3) == TIMESHIM_FIXED) {
    now->tv_sec = value_ms / 1000;
    now->tv_nsec = value_ms % 1000 * 1000000;
  } else if ((setting & 3) == TIMESHIM_OFFSET) {
    int64_t nsec = now->tv_nsec + value_ms % 1000 * 1000000;
    int64_t carry = nsec >= 1000000000 ? 1 : nsec < 0 ? -1 : 0;
    now->tv_sec += value_ms / 1000 + carry;
    now->tv_nsec = nsec - carry * 1000000000;
  }
}

int clock_gettime(clockid_t id, struct timespec *now) {
  long failed = syscall(SYS_clock_gettime, id, now);
  if (!failed && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) move(now);
  return (int)failed;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone) {
  (void)zone; /* obsolete; no caller passes one */
  struct timespec spec;
  int failed = clock_gettime(CLOCK_REALTIME, &spec);
  if (!failed) *now = (struct timeval){.tv_sec = spec.tv_sec, .tv_usec = spec.tv_nsec / 1000};
  return failed;
}

time_t time(time_t *seconds) {
  struct timespec spec;
  if (clock_gettime(CLOCK_REALTIME, &spec) != 0) return -1;
  if (seconds) *seconds = spec.tv_sec;
  return spec.tv_sec;
}
