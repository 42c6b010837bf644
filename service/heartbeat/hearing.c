#include "hearing.h"

enum { MARK_EVERY_US = 25000, PROBE_EVERY_US = 100000 };

void hearing_sent(struct hearing *hearing, int64_t now_us) { hearing->sent_us = now_us; }

static void begin_settling(struct hearing *hearing, int64_t now_us) {
  hearing->settled = false;
  hearing->deaf_us = now_us;
}

void hearing_failed(struct hearing *hearing, int64_t now_us) {
  hearing->answering = false;
  begin_settling(hearing, now_us);
}

static bool was_deaf(const struct hearing *hearing, const struct hearing_rules *rules, int64_t now_us) {
  return hearing->settled && now_us - hearing->success_us > rules->outage_us;
}

void hearing_succeeded(struct hearing *hearing, const struct hearing_rules *rules, bool heartbeats, int64_t now_us) {
  if (was_deaf(hearing, rules, now_us)) begin_settling(hearing, now_us);
  hearing->answering = true;
  hearing->success_us = now_us;
  if (heartbeats) hearing->settled = true;
}

/* wait until due, and say whether that is now */
static bool is_due(int64_t due_us, int64_t now_us, int64_t *wait_us) {
  *wait_us = due_us > now_us ? due_us - now_us : 0;
  return *wait_us == 0;
}

enum hearing_wish hearing_next(struct hearing *hearing, const struct hearing_rules *rules, int64_t heartbeat_us, int64_t now_us,
                               int64_t *wait_us) {
  if (!hearing->answering) {
    bool first = hearing->sent_us == 0;
    return is_due(first ? now_us : hearing->sent_us + PROBE_EVERY_US, now_us, wait_us) ? HEARING_PROBE : HEARING_WAIT;
  }
  if (was_deaf(hearing, rules, now_us)) /* this loop itself stood still */
    begin_settling(hearing, now_us);
  if (!hearing->settled) {
    if (heartbeat_us <= hearing->deaf_us && !is_due(hearing->deaf_us + rules->settle_us, now_us, wait_us)) return HEARING_WAIT;
    hearing->settled = true;
    hearing->success_us = now_us;
  }
  return is_due(hearing->sent_us + MARK_EVERY_US, now_us, wait_us) ? HEARING_MARK : HEARING_WAIT;
}
