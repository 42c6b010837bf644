#include "router.h"

#include <ctype.h>
#include <stdio.h>

struct route {
  struct str pattern;
  const char *name; /* the id's text, in capitals */
  size_t body_max;
  unsigned method, scopes;
};

static const struct route routes[ROUTE_COUNT + 1] = {
#define ROUTE(id, method, pattern, scopes, body_max, handler)                                                                    \
  [ROUTE_##id] = {{(pattern), sizeof(pattern) - 1}, #id, (body_max), METHOD_##method, (scopes)},
#include "routes.def"
#undef ROUTE
    [ROUTE_COUNT] = {.name = "NONE"},
};

static const struct {
  enum http_method method;
  const char *text;
} methods[] = {
    {METHOD_GET, "GET"},     {METHOD_HEAD, "HEAD"},     {METHOD_POST, "POST"},       {METHOD_PUT, "PUT"},
    {METHOD_PATCH, "PATCH"}, {METHOD_DELETE, "DELETE"}, {METHOD_OPTIONS, "OPTIONS"},
};

enum http_method http_method_parse(const char *text) {
  for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
    if (strcmp(text, methods[i].text) == 0) return methods[i].method;
  return METHOD_OTHER;
}

void http_methods_format(unsigned set, char out[ALLOW_TEXT_MAX]) {
  size_t used = 0;
  out[0] = '\0';
  for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++)
    if ((set & methods[i].method) != 0)
      used += (size_t)snprintf(out + used, ALLOW_TEXT_MAX - used, "%s%s", used > 0 ? ", " : "", methods[i].text);
}

unsigned route_scopes(enum route_id route) { return routes[route].scopes; }
size_t route_body_max(enum route_id route) { return routes[route].body_max; }

void route_label(enum route_id route, char out[ROUTE_LABEL_MAX]) {
  size_t i = 0;
  for (const char *name = routes[route].name; name[i] != '\0' && i + 1 < ROUTE_LABEL_MAX; i++)
    out[i] = (char)tolower((unsigned char)name[i]);
  out[i] = '\0';
}

bool route_is_operational(enum route_id route) {
  return route == ROUTE_HEALTHZ || route == ROUTE_READYZ || route == ROUTE_METRICS;
}

/* A fixed word of a pattern; percent-decoded like every segment. */
static bool is_word(struct str segment, struct str word) {
  char decoded[ROUTE_LABEL_MAX];
  size_t len;
  if (memchr(segment.data, '%', segment.len) == NULL) return str_equal(segment, word);
  return path_decode(segment, decoded, sizeof decoded, &len) == STATUS_OK && str_equal((struct str){decoded, len}, word);
}

/* Walks pattern and path side by side: no table to prepare, and a pattern is a few words long. */
static bool match_pattern(struct str pattern, const struct path *path, struct route_match *match) {
  size_t at = 1; /* behind the leading '/' */
  for (size_t i = 0; i < path->count; i++) {
    if (at > pattern.len) return false;
    const char *word = pattern.data + at;
    const char *slash = at < pattern.len ? memchr(word, '/', pattern.len - at) : NULL;
    struct str expected = {word, slash != NULL ? (size_t)(slash - word) : pattern.len - at};
    at += expected.len + 1;
    if (str_equal(expected, STR_LIT("{tenant}"))) {
      match->tenant = path->segments[i];
      match->has_tenant = true;
    } else if (str_equal(expected, STR_LIT("{device}"))) {
      match->device = path->segments[i];
      match->has_device = true;
    } else if (str_equal(expected, STR_LIT("{asset}"))) {
      match->asset = path->segments[i];
    } else if (!is_word(path->segments[i], expected)) {
      return false;
    }
  }
  return at == pattern.len + 1;
}

enum route_verdict router_match(enum http_method method, struct str raw_path, bool only_operational, struct route_match *match) {
  *match = (struct route_match){.route = ROUTE_COUNT};
  struct path path;
  if (!path_split(raw_path, &path)) return ROUTE_NO_PATH;
  enum http_method wanted = method == METHOD_HEAD ? METHOD_GET : method;
  for (unsigned i = 0; i < ROUTE_COUNT; i++) {
    struct route_match found = {.route = (enum route_id)i};
    if ((only_operational && !route_is_operational(found.route)) || !match_pattern(routes[i].pattern, &path, &found)) continue;
    unsigned known = match->methods | routes[i].method;
    if (routes[i].method == wanted) {
      *match = found;
      match->methods = known;
      return ROUTE_FOUND;
    }
    match->methods = known;
  }
  if ((match->methods & METHOD_GET) != 0) match->methods |= METHOD_HEAD;
  return match->methods != 0 ? ROUTE_NO_METHOD : ROUTE_NO_PATH;
}
