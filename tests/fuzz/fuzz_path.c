/* Paths and queries of strangers: splitting, routing, decoding. What comes out lies inside what went in and is no longer than it.
 */
#include <stdlib.h>

#include "http/router.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
  if (!holds) abort();
}

static bool inside(struct str part, struct str whole) {
  return part.len == 0 || (part.data >= whole.data && part.data + part.len <= whole.data + whole.len);
}

static void check_path(struct str raw) {
  struct path path;
  struct route_match match;
  char out[128];
  size_t len = 0;
  bool split = path_split(raw, &path);
  for (size_t i = 0; split && i < path.count; i++) {
    check(inside(path.segments[i], raw) &&
          (path.segments[i].len == 0 || memchr(path.segments[i].data, '/', path.segments[i].len) == NULL));
    if (path_decode(path.segments[i], out, sizeof out, &len) == STATUS_OK)
      check(len <= path.segments[i].len && len <= sizeof out);
  }
  enum route_verdict verdict = router_match(METHOD_GET, raw, false, &match);
  check((verdict == ROUTE_FOUND) == (match.route != ROUTE_COUNT));
  check(split || verdict == ROUTE_NO_PATH);
  if (match.has_tenant) check(inside(match.tenant, raw));
  if (match.has_device) check(inside(match.device, raw));
}

static void check_query(struct str raw) {
  char *scratch = malloc(raw.len + 1);
  struct query query;
  check(scratch != NULL);
  if (query_parse(raw, scratch, &query) == STATUS_OK) {
    struct str whole = {scratch, raw.len};
    size_t total = 0;
    check(query.count <= QUERY_PARAMETERS_MAX);
    for (size_t i = 0; i < query.count; i++) {
      struct str found;
      check(inside(query.parameters[i].name, whole) && inside(query.parameters[i].value, whole));
      check(query_find(&query, query.parameters[i].name, &found) && found.data == query.parameters[i].value.data);
      total += query.parameters[i].name.len + query.parameters[i].value.len;
    }
    check(total <= raw.len);
  }
  free(scratch);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *text = (const char *)data;
  const char *mark = size > 0 ? memchr(text, '?', size) : NULL;
  size_t path_len = mark != NULL ? (size_t)(mark - text) : size;
  check_path((struct str){text, path_len});
  if (mark != NULL) check_query((struct str){mark + 1, size - path_len - 1});
  return 0;
}
