/* host_clock.h: the wall clock of the host that a program under test believes to run on, in the test's hands. */
#ifndef PRESENCE_TEST_HOST_CLOCK_H
#define PRESENCE_TEST_HOST_CLOCK_H

#include "support/timeshim.h"

struct host_clock {
  struct timeshim *shim;      /* timeshim_offset and the like move it, also before the program starts */
  const char *environment[4]; /* for whoever lives by it; NULL-terminated */
};

void host_clock_open(struct host_clock *clock, const char *file); /* shows the real time */
void host_clock_close(struct host_clock *clock);                  /* also when it was never opened */

#endif
