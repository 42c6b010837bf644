/* sim_schedule.h: whose turn it is. Device i of n has the phase i / n of the interval, so heartbeats are spread evenly; in each
 * turn it sends, or is silent (churn). No sockets, no clock: times are passed in. */
#ifndef PRESENCE_SIM_SCHEDULE_H
#define PRESENCE_SIM_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "status.h"

struct sim_schedule {
  uint32_t devices;
  int64_t interval_us; /* 0: every device is always due, one after the other */
  int64_t ttl_us;
  double leave_share;       /* the probability that a device falls silent in its turn */
  uint64_t random;          /* state of the generator */
  int64_t round_us;         /* when the round at hand began */
  uint32_t next;            /* the device whose turn is next in it */
  int64_t missed;           /* turns skipped because they came too late */
  int64_t *silent_until_us; /* per device; 0: not silent. Owned */
  int64_t *last_ok_us;      /* per device; when its last heartbeat known to be in force was sent; INT64_MIN: none. Owned */
};

struct sim_schedule_plan {
  int64_t devices, interval_ms, ttl_ms; /* ttl_ms: as the devices' owner reckons, over 0 */
  int64_t churn;                        /* percent of the devices a minute */
  int64_t seed;
};
enum status sim_schedule_new(struct sim_schedule *schedule, const struct sim_schedule_plan *plan, int64_t now_us) MUST_CHECK;
void sim_schedule_free(struct sim_schedule *schedule);

/* When the next turn is. */
int64_t sim_schedule_due_us(const struct sim_schedule *schedule);
/* The next device that sends, where its turn has come; false: nobody yet. Silent ones are passed over. */
bool sim_schedule_take(struct sim_schedule *schedule, int64_t now_us, uint32_t *device);

void sim_schedule_heard(struct sim_schedule *schedule, uint32_t device, int64_t sent_us);
/* Devices whose last heartbeat in force is at most a ttl old. */
int64_t sim_schedule_online(const struct sim_schedule *schedule, int64_t now_us);

#endif
