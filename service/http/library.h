/* library.h: libmicrohttpd, and for SYSTEM_LIBS=1 on an old distribution (0.9.75) what that lacks under the newer names. */
#ifndef PRESENCE_HTTP_LIBRARY_H
#define PRESENCE_HTTP_LIBRARY_H

#include <microhttpd.h>
#include <stdint.h>

#if MHD_VERSION < 0x00097707
#define MHD_USE_NO_THREAD_SAFETY 0 /* only slower */
#endif

#if MHD_VERSION < 0x00097701
#define MHD_OPTION_CLIENT_DISCIPLINE_LVL MHD_OPTION_STRICT_FOR_CLIENT
#define MHD_RF_NONE 0

static inline struct MHD_Response *library_create_response_empty(void) {
  static char nothing[1];
  return MHD_create_response_from_buffer(0, nothing, MHD_RESPMEM_PERSISTENT);
}
#define MHD_create_response_empty(flags) library_create_response_empty()

/* In ms; -1 where nothing waits for time. */
static inline int64_t library_get_timeout(struct MHD_Daemon *daemon) {
  MHD_UNSIGNED_LONG_LONG wait_ms = 0;
  if (MHD_get_timeout(daemon, &wait_ms) != MHD_YES) return -1;
  return wait_ms > INT64_MAX ? INT64_MAX : (int64_t)wait_ms;
}
#define MHD_get_timeout64s(daemon) library_get_timeout(daemon)
#endif

#endif
