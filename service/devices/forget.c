#include "forget.h"

void forget_note_session(struct forget *forget, struct session_id session) {
  if (forget->has_session) return; /* a later one is the device's new life */
  forget->has_session = true;
  forget->session = session;
}

enum forget_step forget_judge_redis(struct forget *forget, const struct store_device *redis) {
  switch (redis->state) {
  case STORE_NONE: return FORGET_READ_ROW;
  case STORE_CLOSED: forget_note_session(forget, redis->session); return FORGET_LOOK_AGAIN;
  case STORE_ONLINE:
  case STORE_UNKNOWN:
  case STORE_OVER: break; /* opened after the disconnect */
  }
  return FORGET_GONE;
}

enum forget_step forget_judge_row(const struct forget *forget, enum forget_outcome outcome) {
  switch (outcome) {
  case FORGET_DONE:
  case FORGET_RETURNED: return FORGET_GONE;
  case FORGET_UNKNOWN: return forget->has_session ? FORGET_GONE : FORGET_NEVER_SEEN;
  case FORGET_WAITING:
  case FORGET_ONLINE: break;
  }
  return FORGET_LOOK_AGAIN;
}
