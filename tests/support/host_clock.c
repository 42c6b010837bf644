#include "support/test.h"

#include "support/host_clock.h"
#include "support/scratch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void host_clock_open(struct host_clock *clock, const char *file) {
  clock->shim = timeshim_open(file);
  if (clock->shim == NULL) fail_msg("%s: %s", file, strerror(errno));
  clock->environment[0] = text_format("LD_PRELOAD=%s", place_built("timeshim.so"));
  clock->environment[1] = text_format("PRESENCE_TIMESHIM_FILE=%s", file);
#ifdef __SANITIZE_ADDRESS__ /* which otherwise insists on being the first library */
  const char *options = getenv("ASAN_OPTIONS");
  clock->environment[2] = text_format("ASAN_OPTIONS=%s:verify_asan_link_order=0", options != NULL ? options : "");
#endif
}

void host_clock_close(struct host_clock *clock) {
  if (clock->shim != NULL) timeshim_close(clock->shim);
  clock->shim = NULL;
}
