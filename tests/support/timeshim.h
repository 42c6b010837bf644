/* timeshim.h: moves the wall clock of a server under test. Start the server with LD_PRELOAD=build/…/timeshim.so and
 * PRESENCE_TIMESHIM_FILE=FILE; whoever maps FILE sets its clock. Only CLOCK_REALTIME is moved (clock_gettime, gettimeofday,
 * time); monotonic clocks, and so the server's timers, run on. */
#ifndef PRESENCE_TIMESHIM_H
#define PRESENCE_TIMESHIM_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

enum timeshim_mode { TIMESHIM_OFF, TIMESHIM_OFFSET, TIMESHIM_FIXED };

/* The whole file. Mode and value share one word, so that no reader ever sees the one without the other. */
struct timeshim {
  _Atomic int64_t setting; /* value_ms * 4 + mode */
};

/* The real time again. */
static inline void timeshim_off(struct timeshim *shim) { atomic_store(&shim->setting, TIMESHIM_OFF); }
/* The real time plus offset_ms (which may be negative); the clock runs. */
static inline void timeshim_offset(struct timeshim *shim, int64_t offset_ms) {
  atomic_store(&shim->setting, offset_ms * 4 + TIMESHIM_OFFSET);
}
/* Stands still at exactly now_ms since 1970. */
static inline void timeshim_fix(struct timeshim *shim, int64_t now_ms) {
  atomic_store(&shim->setting, now_ms * 4 + TIMESHIM_FIXED);
}

/* Makes the file where it is missing (clock off) and maps it; NULL with errno set on failure. Unmap with timeshim_close. */
static inline struct timeshim *timeshim_open(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (fd < 0) return NULL;
  void *map = MAP_FAILED;
  if (ftruncate(fd, sizeof(struct timeshim)) == 0)
    map = mmap(NULL, sizeof(struct timeshim), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  return map == MAP_FAILED ? NULL : map;
}

static inline void timeshim_close(struct timeshim *shim) { munmap(shim, sizeof *shim); }

#endif
