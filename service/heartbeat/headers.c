#include "headers.h"

#include <strings.h>

static bool is_space(char byte) { return byte == ' ' || byte == '\t'; }

static struct str trim(struct str text) {
  while (text.len > 0 && is_space(text.data[0])) {
    text.data++;
    text.len--;
  }
  while (text.len > 0 && is_space(text.data[text.len - 1])) text.len--;
  return text;
}

static bool equal_ignoring_case(struct str a, struct str b) { return a.len == b.len && strncasecmp(a.data, b.data, a.len) == 0; }

/* Takes what stands before the next separator outside quotes, trimmed; *text begins behind the separator. */
static struct str take_until(struct str *text, char separator) {
  bool quoted = false;
  size_t end = 0;
  while (end < text->len && (quoted || text->data[end] != separator)) {
    if (text->data[end] == '"')
      quoted = !quoted;
    else if (quoted && text->data[end] == '\\' && end + 1 < text->len)
      end++;
    end++;
  }
  struct str taken = {text->data, end};
  size_t used = end < text->len ? end + 1 : end;
  text->data += used;
  text->len -= used;
  return trim(taken);
}

bool header_is_ndjson(struct str content_type) {
  return equal_ignoring_case(take_until(&content_type, ';'), STR_LIT("application/x-ndjson"));
}

bool header_wants_representation(struct str prefer) {
  while (prefer.len > 0) {
    struct str preference = take_until(&prefer, ',');
    struct str value = take_until(&preference, ';');
    struct str name = take_until(&value, '=');
    if (!equal_ignoring_case(name, STR_LIT("return"))) continue;
    value = trim(value);
    return equal_ignoring_case(value, STR_LIT("representation")) || equal_ignoring_case(value, STR_LIT("\"representation\""));
  }
  return false;
}
