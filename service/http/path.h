/* path.h: a request's target taken apart by hand, so that the rules stand in one place: the path is split at '/' first, then each
 * segment is percent-decoded once; nothing is normalised ("." and ".." are ordinary). In a query '+' is a space.
 * Formats: RFC 3986 sections 2.1 and 3.3; application/x-www-form-urlencoded (https://url.spec.whatwg.org/#urlencoded-parsing).
 * Pure functions, any thread. */
#ifndef PRESENCE_HTTP_PATH_H
#define PRESENCE_HTTP_PATH_H

#include "str.h"

enum { PATH_SEGMENTS_MAX = 8, QUERY_PARAMETERS_MAX = 16 };

struct path {
  struct str segments[PATH_SEGMENTS_MAX]; /* raw; may be empty */
  size_t count;
};

/* Splits the raw path of a request target (an absolute-form "http://host/path" too). False where it is no path ("*") or has more
 * segments than any route. The result points into raw. */
bool path_split(struct str raw, struct path *path);

/* Decodes raw into out. STATUS_INVALID: a broken percent code. STATUS_TOO_LARGE: longer than capacity. */
enum status path_decode(struct str raw, char *out, size_t capacity, size_t *len) MUST_CHECK;

struct query_parameter {
  struct str name, value;
};
struct query {
  struct query_parameter parameters[QUERY_PARAMETERS_MAX];
  size_t count;
};

/* Decodes raw, what follows the '?', into scratch, which has room for raw.len bytes and must outlive the query. STATUS_INVALID: a
 * broken percent code, a doubled name. STATUS_TOO_LARGE: over QUERY_PARAMETERS_MAX. */
enum status query_parse(struct str raw, char *scratch, struct query *query) MUST_CHECK;
bool query_find(const struct query *query, struct str name, struct str *value);

#endif
