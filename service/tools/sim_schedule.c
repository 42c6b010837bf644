#include "sim_schedule.h"

#include <stdlib.h>

/* SplitMix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014. */
static uint64_t next_random(struct sim_schedule *schedule) {
  uint64_t z = schedule->random += UINT64_C(0x9E3779B97F4A7C15);
  z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
  return z ^ (z >> 31);
}

/* In [0, 1). */
static double random_share(struct sim_schedule *schedule) { return (double)(next_random(schedule) >> 11) / 9007199254740992.0; }

enum status sim_schedule_new(struct sim_schedule *schedule, const struct sim_schedule_plan *plan, int64_t now_us) {
  size_t count = (size_t)plan->devices;
  *schedule = (struct sim_schedule){.devices = (uint32_t)plan->devices,
                                    .interval_us = plan->interval_ms * 1000,
                                    .ttl_us = plan->ttl_ms * 1000,
                                    .leave_share = (double)plan->churn / 100 * (double)plan->interval_ms / 60000,
                                    .random = (uint64_t)plan->seed,
                                    .round_us = now_us,
                                    .silent_until_us = calloc(count, sizeof(int64_t)),
                                    .last_ok_us = calloc(count, sizeof(int64_t))};
  if (schedule->silent_until_us == NULL || schedule->last_ok_us == NULL) {
    sim_schedule_free(schedule);
    return STATUS_NO_MEMORY;
  }
  for (size_t i = 0; i < count; i++) schedule->last_ok_us[i] = INT64_MIN;
  return STATUS_OK;
}

void sim_schedule_free(struct sim_schedule *schedule) {
  free(schedule->silent_until_us);
  free(schedule->last_ok_us);
  *schedule = (struct sim_schedule){0};
}

int64_t sim_schedule_due_us(const struct sim_schedule *schedule) {
  if (schedule->interval_us == 0) return INT64_MIN;
  double phase = (double)schedule->next / (double)schedule->devices;
  return schedule->round_us + (int64_t)(phase * (double)schedule->interval_us);
}

/* On to the next device's turn. A turn that is over a whole interval late is not made up for: the device's next one has come. */
static void advance(struct sim_schedule *schedule, int64_t now_us) {
  if (++schedule->next < schedule->devices) return;
  schedule->next = 0;
  schedule->round_us += schedule->interval_us;
  if (schedule->interval_us == 0) return;
  int64_t rounds_late = (now_us - schedule->round_us) / schedule->interval_us;
  if (rounds_late < 1) return;
  schedule->missed += rounds_late * schedule->devices;
  schedule->round_us += rounds_late * schedule->interval_us;
}

/* Whether the device is silent in this turn. One that comes back sends at least once. */
static bool is_silent(struct sim_schedule *schedule, uint32_t device, int64_t now_us) {
  int64_t *until = &schedule->silent_until_us[device];
  if (*until != 0) {
    if (now_us < *until) return true;
    *until = 0;
    return false;
  }
  if (schedule->leave_share <= 0 || random_share(schedule) >= schedule->leave_share) return false;
  *until = now_us + 2 * schedule->ttl_us + (int64_t)(random_share(schedule) * 2 * (double)schedule->ttl_us);
  return true;
}

bool sim_schedule_take(struct sim_schedule *schedule, int64_t now_us, uint32_t *device) {
  for (uint32_t passed = 0; passed < schedule->devices && sim_schedule_due_us(schedule) <= now_us; passed++) {
    *device = schedule->next;
    advance(schedule, now_us);
    if (!is_silent(schedule, *device, now_us)) return true;
  }
  return false;
}

void sim_schedule_heard(struct sim_schedule *schedule, uint32_t device, int64_t sent_us) {
  if (sent_us > schedule->last_ok_us[device]) schedule->last_ok_us[device] = sent_us;
}

int64_t sim_schedule_online(const struct sim_schedule *schedule, int64_t now_us) {
  int64_t online = 0;
  for (uint32_t i = 0; i < schedule->devices; i++) online += schedule->last_ok_us[i] >= now_us - schedule->ttl_us;
  return online;
}
