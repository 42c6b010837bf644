#include "path.h"

#include <strings.h>

/* The part of an absolute-form target (RFC 9112 section 3.2.2) that follows its authority. */
static struct str origin_form(struct str raw) {
  size_t scheme = 0;
  if (raw.len >= 7 && strncasecmp(raw.data, "http://", 7) == 0)
    scheme = 7;
  else if (raw.len >= 8 && strncasecmp(raw.data, "https://", 8) == 0)
    scheme = 8;
  if (scheme == 0) return raw;
  const char *slash = memchr(raw.data + scheme, '/', raw.len - scheme);
  if (slash == NULL) return STR_LIT("/");
  return (struct str){slash, raw.len - (size_t)(slash - raw.data)};
}

bool path_split(struct str raw, struct path *path) {
  path->count = 0;
  raw = origin_form(raw);
  if (raw.len == 0 || raw.data[0] != '/') return false;
  const char *start = raw.data + 1;
  const char *end = raw.data + raw.len;
  while (path->count < PATH_SEGMENTS_MAX) {
    const char *slash = start < end ? memchr(start, '/', (size_t)(end - start)) : NULL;
    const char *stop = slash != NULL ? slash : end;
    path->segments[path->count++] = (struct str){start, (size_t)(stop - start)};
    if (slash == NULL) return true;
    start = slash + 1;
  }
  return false;
}

static int hex_value(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

static enum status decode(struct str raw, bool plus_is_space, char *out, size_t capacity, size_t *len) {
  size_t used = 0;
  for (size_t i = 0; i < raw.len; i++) {
    char byte = raw.data[i];
    if (byte == '%') {
      int high = i + 2 < raw.len ? hex_value(raw.data[i + 1]) : -1;
      int low = i + 2 < raw.len ? hex_value(raw.data[i + 2]) : -1;
      if (high < 0 || low < 0) return STATUS_INVALID;
      byte = (char)(unsigned char)(high << 4 | low);
      i += 2;
    } else if (byte == '+' && plus_is_space) {
      byte = ' ';
    }
    if (used == capacity) return STATUS_TOO_LARGE;
    out[used++] = byte;
  }
  *len = used;
  return STATUS_OK;
}

enum status path_decode(struct str raw, char *out, size_t capacity, size_t *len) {
  return decode(raw, false, out, capacity, len);
}

bool query_find(const struct query *query, struct str name, struct str *value) {
  for (size_t i = 0; i < query->count; i++)
    if (str_equal(query->parameters[i].name, name)) {
      *value = query->parameters[i].value;
      return true;
    }
  return false;
}

/* Decodes one half of a parameter to the front of *scratch and moves that on. */
static enum status take(struct str raw, char **scratch, struct str *out) {
  size_t len = 0;
  enum status status = decode(raw, true, *scratch, raw.len, &len);
  *out = (struct str){*scratch, len};
  *scratch += len;
  return status;
}

enum status query_parse(struct str raw, char *scratch, struct query *query) {
  query->count = 0;
  size_t start = 0;
  while (start < raw.len) {
    const char *ampersand = memchr(raw.data + start, '&', raw.len - start);
    size_t stop = ampersand != NULL ? (size_t)(ampersand - raw.data) : raw.len;
    struct str pair = {raw.data + start, stop - start};
    start = stop + 1;
    if (pair.len == 0) continue;
    const char *equals = memchr(pair.data, '=', pair.len);
    size_t name_len = equals != NULL ? (size_t)(equals - pair.data) : pair.len;
    size_t value_at = equals != NULL ? name_len + 1 : pair.len;

    struct query_parameter parameter;
    enum status status = take((struct str){pair.data, name_len}, &scratch, &parameter.name);
    if (status == STATUS_OK) status = take((struct str){pair.data + value_at, pair.len - value_at}, &scratch, &parameter.value);
    if (status != STATUS_OK) return status;
    struct str earlier;
    if (query_find(query, parameter.name, &earlier)) return STATUS_INVALID;
    if (query->count == QUERY_PARAMETERS_MAX) return STATUS_TOO_LARGE;
    query->parameters[query->count++] = parameter;
  }
  return STATUS_OK;
}
