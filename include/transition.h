/* transition.h: a session's start or end, as it travels from a stream entry to an outbox row. */
#ifndef PRESENCE_TRANSITION_H
#define PRESENCE_TRANSITION_H

#include "session.h"

enum transition_type { TRANSITION_ONLINE, TRANSITION_OFFLINE };
enum transition_reason { REASON_NONE, REASON_TIMEOUT, REASON_DISCONNECT, REASON_STATE_LOST };

#define TIME_MS_LOST INT64_C(-1) /* a time that was lost with Redis: null outside */

/* All times are milliseconds since 1970 on Redis's clock. The strings are borrowed. */
struct transition {
  enum transition_type type;
  enum transition_reason reason; /* REASON_NONE for online */
  struct str tenant;
  struct str device;
  struct session_id session;
  int64_t online_since_ms;
  int64_t ttl_ms;
  int64_t last_seen_ms;   /* TIME_MS_LOST where unknown; for online: the heartbeat that opened */
  int64_t offline_at_ms;  /* offline only */
  int64_t detected_at_ms; /* when the script that wrote it ran */
  struct str meta;        /* the bytes sent; len 0: none */
};

const char *transition_type_name(enum transition_type type);       /* "presence.device.online" */
const char *transition_reason_name(enum transition_reason reason); /* "timeout"; NULL for none */

#endif
