/* fleet.h: many devices at once, by batches over one connection. Device i is called "d<i>". */
#ifndef PRESENCE_TEST_FLEET_H
#define PRESENCE_TEST_FLEET_H

#include "support/world.h"

#define FLEET_BATCH 1000

/* Heartbeats of the devices from first on, all of which must be accepted. */
void fleet_beat(struct world *world, int first, int count, int64_t ttl_ms);
/* One heartbeat; the answer's status. */
int fleet_try_beat(struct world *world, const char *device, int64_t ttl_ms);
/* Heartbeats of the first devices, each of which must be taken or refused with 503, until a whole round is taken. */
void fleet_beat_until_taken(struct world *world, int count, int64_t ttl_ms);
/* How many devices of the world's tenant have exactly this history ("online offline(timeout)"). */
int64_t fleet_with_history(struct world *world, const char *history);
/* Fails, and says what the others have, unless so many devices, from the first on, have exactly this history. */
void fleet_expect(struct world *world, int count, const char *history);
/* Waits until all of this many devices have it, and checks that no other device has any row. */
void fleet_wait(struct world *world, int count, const char *history, int64_t timeout_ms);

#endif
