/* judge.h: compares the outbox with what the devices know.
 *
 *   lost     heartbeats that were accepted and lie in no session (those shortly before Redis was emptied left out: a session that
 *            had not yet reached PostgreSQL is gone with Redis), and sessions that never ended
 *   doubled  breaches of support/invariants.sql: rows twice, out of order, that belong to no history
 *   early    timeouts although a heartbeat was accepted within the ttl before; or the service cannot have listened for a whole
 *            ttl since the last one, as Redis was surely out of reach for the rest (promise P1)
 *   false    timeouts although the device tried all the time and the service heard others for less than a ttl, or answered it and
 *            took others' heartbeats at that moment, but not its own; disconnects that nobody asked for
 *
 * A device that reaches no process while the service hears others looks dead: a limit of the design, counted apart (unreached).
 */
#ifndef PRESENCE_TEST_FAULTS_JUDGE_H
#define PRESENCE_TEST_FAULTS_JUDGE_H

#include "faults/devices.h"
#include "support/postgres_server.h"

#define PARTITIONS 4
#define STEPS_MAX 4000

/* What was done to Redis, and when. */
struct timeline {
  /* Since when its clock is how far off; the first from before the start. */
  struct {
    int64_t from_ms, offset_ms;
  } steps[STEPS_MAX];
  size_t step_count;
  int64_t flushes[STEPS_MAX];
  size_t flush_count;
  /* When nobody can have recorded a heartbeat; in order, none overlaps the next. */
  struct {
    int64_t from_ms, to_ms;
  } deaf[STEPS_MAX];
  size_t deaf_count;
};

/* Ends what began before it. */
void timeline_deaf(struct timeline *timeline, int64_t from_ms, int64_t to_ms);

struct verdict {
  int sessions, lost, doubled, early, untrue;
  int judged;    /* timeouts whose time is known on the real clock */
  int unreached; /* of these, of devices that reached nobody while others were heard */
  /* From deadline to detection at worst: in time in which the service heard others, and with all outages. */
  int64_t latest_heard_ms, latest_ms;
};

struct verdict judge(const struct timeline *timeline, const struct devices *devices, struct database *database);

#endif
