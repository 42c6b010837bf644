/* wave.h: when the heartbeats that wait for a server leave for it. Pure, the time is passed in.
 *
 * Calls go to a server in waves: the next one leaves when the last one is answered, and is one script call where it can be. What
 * a call costs Redis besides the heartbeats in it is as much as two of them cost, and it finds the caches cold, which costs as
 * much as ten or more. So where heartbeats come densely the next wave gathers more of them. */
#ifndef PRESENCE_HEARTBEAT_WAVE_H
#define PRESENCE_HEARTBEAT_WAVE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The heartbeats under way to a server. Begins as zero: none was. */
struct wave {
  unsigned calls;
  size_t items; /* of the last one */
  int64_t sent_us;
  int64_t answered_us; /* when its answers were out; 0: they are not */
};

/* Another call with heartbeats leaves. */
void wave_sent(struct wave *wave, size_t items, int64_t now_us);
/* One is answered. True: it was the last one; wave_answers_out is due when those who sent them have been answered too. */
bool wave_answered(struct wave *wave);
void wave_answers_out(struct wave *wave, int64_t now_us);
/* Redis will take about so long: to look at each heartbeat that comes meanwhile costs more than to look at several together. 0:
 * it is not worth it. */
int64_t wave_rest_us(const struct wave *wave);
/* When the next one leaves; INT64_MAX: not before an answer. added_us: of the last heartbeat that waits; more_may_come: some
 * client has no request under way. */
int64_t wave_next_us(const struct wave *wave, int64_t added_us, bool more_may_come);

#endif
