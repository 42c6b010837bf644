/* hearing.h: may a loop say "I am listening" to a partition now? One per partition and loop; pure, the time is passed in.
 *
 *   deaf --a call succeeds--> back, not settled --first real heartbeat of the loop, or settle_us--> settled: marks
 *     ^                                                                                               |
 *     +----------- a call fails, the connection is gone, or no success for longer than outage_us -----+
 *
 * A mark moves the presence clock on, and so towards deadlines. Right after an outage the devices and the load balancers need a
 * moment to find us again: marking at once would count their silence against them. */
#ifndef PRESENCE_HEARTBEAT_HEARING_H
#define PRESENCE_HEARTBEAT_HEARING_H

#include <stdbool.h>
#include <stdint.h>

struct hearing_rules {
  int64_t outage_us, settle_us;
};

/* Times are monotonic. Begins with hearing_failed(): a start is the end of a deaf interval. */
struct hearing {
  bool answering;     /* the last call succeeded */
  bool settled;       /* meaningful while answering */
  int64_t deaf_us;    /* until then we were deaf, as far as we know */
  int64_t success_us; /* the last success; meaningful while answering */
  int64_t sent_us;    /* the last call of any kind; 0: none yet */
};

enum hearing_wish {
  HEARING_WAIT,
  HEARING_PROBE, /* ask, without a mark, whether calls succeed */
  HEARING_MARK,
};

void hearing_sent(struct hearing *hearing, int64_t now_us);
void hearing_failed(struct hearing *hearing, int64_t now_us);
/* heartbeats: the call carried real ones. */
void hearing_succeeded(struct hearing *hearing, const struct hearing_rules *rules, bool heartbeats, int64_t now_us);
/* What to send to a partition where nothing is outstanding and nothing waits; *wait_us: until when to ask again.
 * heartbeat_us: when the loop last recorded a real heartbeat in any partition (0: not yet). */
enum hearing_wish hearing_next(struct hearing *hearing, const struct hearing_rules *rules, int64_t heartbeat_us, int64_t now_us,
                               int64_t *wait_us);

#endif
