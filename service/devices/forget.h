/* forget.h: removing a device, step by step, for the API and for presencectl.
 *
 *   1. its open session is closed, as by a disconnect
 *   2. Redis is read until nothing of the device is left there: the close is published and trimmed   (forget_judge_redis)
 *   3. the row goes, if it is offline with that session                                              (forget_judge_row)
 *
 * A device that sends a heartbeat meanwhile lives on, and is known on. */
#ifndef PRESENCE_DEVICES_FORGET_H
#define PRESENCE_DEVICES_FORGET_H

#include "outbox.h"
#include "store.h"

#define FORGET_WAIT_MS 2000 /* for the publisher, in all */
#define FORGET_PAUSE_MS 20  /* between two looks */

enum forget_step {
  FORGET_READ_ROW,   /* Redis knows nothing of it: the row's turn */
  FORGET_LOOK_AGAIN, /* after a pause, from step 2 */
  FORGET_GONE,       /* the end: forgotten, or back again */
  FORGET_NEVER_SEEN, /* the end: there was nothing to forget */
};

/* What is known of the device's last session so far; zero-initialised. */
struct forget {
  bool has_session;
  struct session_id session;
};

void forget_note_session(struct forget *forget, struct session_id session);
enum forget_step forget_judge_redis(struct forget *forget, const struct store_device *redis);
enum forget_step forget_judge_row(const struct forget *forget, enum forget_outcome outcome);

#endif
