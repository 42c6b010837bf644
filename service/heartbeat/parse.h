/* parse.h: the content of heartbeats, single and in batches, by the rules of the HTTP contract. No I/O, no allocation. */
#ifndef PRESENCE_HEARTBEAT_PARSE_H
#define PRESENCE_HEARTBEAT_PARSE_H

#include "json_scan.h"
#include "session.h"
#include "store.h"

enum parse_error {
  PARSE_OK,
#define PARSE_ERROR(id, word, message) PARSE_##id,
#include "parse_errors.def"
#undef PARSE_ERROR
  PARSE_ERROR_COUNT
};

/* The tenant's bounds; the service's own least (TTL_MIN_MS) holds besides. */
struct parse_limits {
  int64_t default_ttl_ms, min_ttl_ms, max_ttl_ms;
};

struct parse_verdict {
  enum parse_error error;
  struct str name;    /* UNKNOWN_FIELD: as sent, between its quotes */
  const char *detail; /* MALFORMED: what is wrong; static */
  size_t offset;      /* MALFORMED: bytes before it */
};

/* What a valid heartbeat says. Strings point into the text, except for device where it was sent with escapes. */
struct parse_fields {
  struct str device; /* batch only */
  int64_t ttl_ms;
  enum meta_action meta_action;
  struct str meta;
  char unescaped[DEVICE_ID_MAX]; /* device points here where it was sent with escapes: copy it before the next call */
};

/* A single heartbeat's body; empty is valid. PARSE_OK: *fields holds it. */
enum parse_error parse_heartbeat(struct str body, const struct parse_limits *limits, struct parse_fields *fields,
                                 struct parse_verdict *verdict);

/* A disconnect's body: empty, or {"session":"…"}; *has_session tells which. STATUS_INVALID: *message (static) says why. */
enum status parse_disconnect(struct str body, bool *has_session, struct session_id *session, const char **message) MUST_CHECK;

/* The items of a batch, one after the other. */
struct parse_batch {
  struct json_scan scan;
  const struct parse_limits *limits;
  bool lines;      /* NDJSON */
  struct str rest; /* NDJSON: what is not yet read */
};
/* STATUS_INVALID: the body is no JSON array; *verdict says why. */
enum status parse_batch_begin(struct parse_batch *batch, struct str body, bool lines, const struct parse_limits *limits,
                              struct parse_verdict *verdict) MUST_CHECK;
/* The next item: *more tells whether there was one, verdict->error whether it is valid. fields->device is set where it could be
 * read (len 0: not). STATUS_INVALID: an array is malformed, and all of it is refused; a line of NDJSON stands alone, so one that
 * is malformed is an item with an error. */
enum status parse_batch_next(struct parse_batch *batch, bool *more, struct parse_fields *fields,
                             struct parse_verdict *verdict) MUST_CHECK;

const char *parse_error_word(enum parse_error error);
/* "what is wrong, where, and what is allowed", without quotes around it; valid UTF-8. */
enum status parse_error_message(struct buf *out, const struct parse_verdict *verdict,
                                const struct parse_limits *limits) MUST_CHECK;

#endif
