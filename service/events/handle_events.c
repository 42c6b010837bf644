/* GET /v1/tenants/{t}/events: what is asked. */
#include <strings.h>

#include "question.h"

enum { LIMIT_DEFAULT = 100, LIMIT_MAX = 1000, WAIT_MAX_MS = 30000 };

/* Is it among the media ranges of Accept (RFC 9110 section 12.5.1)? Nobody lists it who does not want it. */
static bool wants_stream(const struct request *request) {
  static const char wanted[] = "text/event-stream";
  const size_t len = sizeof wanted - 1;
  struct str accept;
  if (!request_header(request, "Accept", &accept)) return false;
  for (size_t at = 0; at + len <= accept.len; at++) {
    bool begins = at == 0 || strchr(", \t", accept.data[at - 1]) != NULL;
    bool ends = at + len == accept.len || strchr(",; \t", accept.data[at + len]) != NULL;
    if (begins && ends && strncasecmp(accept.data + at, wanted, len) == 0) return true;
  }
  return false;
}

/* A client that reconnects by itself repeats its first URL, so the header is the newer word. False: answered. */
static bool read_last_event_id(struct request *request, int64_t *after) {
  struct str text;
  if (!request_header(request, "Last-Event-ID", &text) || text.len == 0) return true;
  if (str_to_int64(text, after) == STATUS_OK) return true;
  reply_error(request, 400, "bad_parameter", "Last-Event-ID must be the id of an event: an integer from 0");
  return false;
}

void events_reply_failure(struct request *request, enum status status, struct str expired) {
  if (status == STATUS_NOT_FOUND)
    reply_error(request, 410, "cursor_expired", "%.*s", STR_ARG(expired));
  else
    reply_postgres_status(request, status);
}

void handle_events(struct request *request) {
  static const char *const names[] = {"after", "limit", "wait_ms"};
  struct events_question question;
  bool stream = wants_stream(request);
  if (!request_query_only(request, names, sizeof names / sizeof names[0]) ||
      !request_query_number(request, "after", 0, INT64_MAX, -1, &question.after) ||
      !request_query_number(request, "limit", 1, LIMIT_MAX, LIMIT_DEFAULT, &question.limit) ||
      !request_query_number(request, "wait_ms", 0, WAIT_MAX_MS, 0, &question.wait_ms) ||
      (stream && !read_last_event_id(request, &question.after)))
    return;
  if (stream)
    events_stream(request, &question);
  else
    events_poll(request, &question);
}
