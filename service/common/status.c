#include "status.h"

const char *status_name(enum status status) {
  switch (status) {
  case STATUS_OK: return "ok";
  case STATUS_NO_MEMORY: return "no_memory";
  case STATUS_INVALID: return "invalid";
  case STATUS_TOO_LARGE: return "too_large";
  case STATUS_FULL: return "full";
  case STATUS_IO: return "io";
  case STATUS_TIMEOUT: return "timeout";
  case STATUS_CLOSED: return "closed";
  case STATUS_UNAVAILABLE: return "unavailable";
  case STATUS_INITIALISING: return "initialising";
  case STATUS_STALE: return "stale";
  case STATUS_NOT_FOUND: return "not_found";
  case STATUS_REFUSED: return "refused";
  case STATUS_PROTOCOL: return "protocol";
  }
  return "unknown";
}
