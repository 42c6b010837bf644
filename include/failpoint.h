/* failpoint.h: named places at which a test can kill, pause or end the process, one between every two systems.
 *
 *   FAILPOINT(publisher_committed);
 *
 * service/failpoints.def lists the names; a name that is not there does not compile. In builds with -DPRESENCE_FAILPOINTS=1 the
 * environment chooses one: PRESENCE_FAILPOINT=name[:count] (acts at the count-th hit, default 1, and only then) and
 * PRESENCE_FAILPOINT_ACTION=kill (default: SIGKILL to itself), pause (SIGSTOP to itself), exit (status 70) or cut: the next
 * request on each connection to a server reaches it and takes effect, its reply is lost with the connection (Unix sockets only).
 * Other builds have no failure points: FAILPOINT is nothing. */
#ifndef PRESENCE_FAILPOINT_H
#define PRESENCE_FAILPOINT_H

#include "status.h"

enum failpoint_id {
#define FAILPOINT_NAME(name, where) FAILPOINT_##name,
#include "../service/failpoints.def"
#undef FAILPOINT_NAME
  FAILPOINT_COUNT
};

#if PRESENCE_FAILPOINTS
#define FAILPOINT(name) failpoint_hit(FAILPOINT_##name)
#else
#define FAILPOINT(name) ((void)FAILPOINT_##name)
#endif

/* Reads the environment; once, before other threads. STATUS_INVALID: it asks for what is not there (also: any failure point of
 * a build without them); *error is one clear line (malloc'd, the caller frees), NULL where memory is short. */
enum status failpoint_init(char **error) MUST_CHECK;

/* The names, FAILPOINT_COUNT of them, for tests that go through all. Static storage. */
const char *const *failpoint_names(void);

void failpoint_hit(enum failpoint_id id); /* any thread; use FAILPOINT */

#endif
