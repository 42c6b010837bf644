#include "transition.h"

const char *transition_type_name(enum transition_type type) {
  return type == TRANSITION_ONLINE ? "presence.device.online" : "presence.device.offline";
}

const char *transition_reason_name(enum transition_reason reason) {
  switch (reason) {
  case REASON_TIMEOUT: return "timeout";
  case REASON_DISCONNECT: return "disconnect";
  case REASON_STATE_LOST: return "state_lost";
  case REASON_NONE: break;
  }
  return NULL;
}
