#include "json_scan.h"

#include <math.h>
#include <stdlib.h>

/* The longest number that is looked at: one that could be part of metadata. */
enum { NUMBER_MAX_BYTES = 4096, EXPONENT_MAX_DIGITS = 4, DOUBLE_SAFE_DIGITS = 300 };

static enum status malformed(struct json_scan *scan, const char *error) {
  scan->error = error;
  return STATUS_INVALID;
}

static void skip_space(struct json_scan *scan) {
  while (scan->at < scan->end && (*scan->at == ' ' || *scan->at == '\n' || *scan->at == '\r' || *scan->at == '\t')) scan->at++;
}

static bool is_digit(const struct json_scan *scan) { return scan->at < scan->end && *scan->at >= '0' && *scan->at <= '9'; }

void json_scan_begin(struct json_scan *scan, struct str text) {
  scan->begin = scan->at = text.data;
  scan->end = text.data + text.len;
  scan->error = NULL;
  scan->depth = scan->name_count = scan->name_bytes = 0;
}

enum status json_scan_end(struct json_scan *scan) {
  skip_space(scan);
  return scan->at == scan->end ? STATUS_OK : malformed(scan, "bytes after the end of the value");
}

bool json_scan_peek(struct json_scan *scan, enum json_scan_type *type) {
  skip_space(scan);
  if (scan->at == scan->end) return false;
  switch (*scan->at) {
  case '{': *type = JSON_SCAN_OBJECT; return true;
  case '[': *type = JSON_SCAN_ARRAY; return true;
  case '"': *type = JSON_SCAN_STRING; return true;
  case 't': *type = JSON_SCAN_TRUE; return true;
  case 'f': *type = JSON_SCAN_FALSE; return true;
  case 'n': *type = JSON_SCAN_NULL; return true;
  default: *type = JSON_SCAN_INTEGER; return *scan->at == '-' || is_digit(scan);
  }
}

/* ---- Strings */

static int hex_value(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  if (digit >= 'A' && digit <= 'F') return digit - 'A' + 10;
  return -1;
}

/* Four hexadecimal digits; -1 where they are not. */
static int32_t code_unit(const char *at, const char *end) {
  if (end - at < 4) return -1;
  int32_t unit = 0;
  for (int i = 0; i < 4; i++) {
    int digit = hex_value(at[i]);
    if (digit < 0) return -1;
    unit = unit * 16 + digit;
  }
  return unit;
}

static bool is_high_surrogate(int32_t unit) { return unit >= 0xD800 && unit <= 0xDBFF; }
static bool is_low_surrogate(int32_t unit) { return unit >= 0xDC00 && unit <= 0xDFFF; }

/* at stands behind "\u". */
static enum status scan_unicode_escape(struct json_scan *scan, unsigned *faults) {
  int32_t unit = code_unit(scan->at, scan->end);
  if (unit < 0) return malformed(scan, "\\u needs four hexadecimal digits");
  if (is_low_surrogate(unit)) return malformed(scan, "a lone surrogate");
  if (unit == 0) *faults |= JSON_SCAN_FAULT_NUL;
  scan->at += 4;
  if (!is_high_surrogate(unit)) return STATUS_OK;
  if (scan->end - scan->at < 6 || scan->at[0] != '\\' || scan->at[1] != 'u' ||
      !is_low_surrogate(code_unit(scan->at + 2, scan->end)))
    return malformed(scan, "a lone surrogate");
  scan->at += 6;
  return STATUS_OK;
}

static enum status scan_escape(struct json_scan *scan, unsigned *faults) {
  scan->at++;
  if (scan->at == scan->end) return malformed(scan, "the string does not end");
  char kind = *scan->at;
  if (kind == '\0' || strchr("\"\\/bfnrtu", kind) == NULL) return malformed(scan, "unknown escape");
  scan->at++;
  return kind == 'u' ? scan_unicode_escape(scan, faults) : STATUS_OK;
}

/* at stands on the opening quote. */
static enum status scan_string(struct json_scan *scan, struct json_scan_value *value) {
  const char *first = ++scan->at;
  value->type = JSON_SCAN_STRING;
  while (scan->at < scan->end) {
    unsigned char byte = (unsigned char)*scan->at;
    if (byte >= 0x80) {
      size_t size = str_utf8_sequence((struct str){scan->at, (size_t)(scan->end - scan->at)});
      if (size == 0) return malformed(scan, "invalid UTF-8");
      scan->at += size;
    } else if (byte == '"') {
      value->text = (struct str){first, (size_t)(scan->at - first)};
      scan->at++;
      return STATUS_OK;
    } else if (byte == '\\') {
      value->escaped = true;
      enum status status = scan_escape(scan, &value->faults);
      if (status != STATUS_OK) return status;
    } else if (byte < 0x20) {
      return malformed(scan, "a control character in a string");
    } else {
      scan->at++;
    }
  }
  return malformed(scan, "the string does not end");
}

static size_t put_utf8(int32_t code, char *out) {
  if (code < 0x80) {
    out[0] = (char)code;
    return 1;
  }
  if (code < 0x800) {
    out[0] = (char)(0xC0 | code >> 6);
    out[1] = (char)(0x80 | (code & 63));
    return 2;
  }
  if (code < 0x10000) {
    out[0] = (char)(0xE0 | code >> 12);
    out[1] = (char)(0x80 | (code >> 6 & 63));
    out[2] = (char)(0x80 | (code & 63));
    return 3;
  }
  out[0] = (char)(0xF0 | code >> 18);
  out[1] = (char)(0x80 | (code >> 12 & 63));
  out[2] = (char)(0x80 | (code >> 6 & 63));
  out[3] = (char)(0x80 | (code & 63));
  return 4;
}

static char plain_escape(char kind) {
  static const char kinds[] = "bfnrt", meanings[] = "\b\f\n\r\t";
  const char *found = strchr(kinds, kind);
  if (found == NULL) return kind;
  return meanings[found - kinds];
}

size_t json_scan_unescape(struct str text, char *out) {
  const char *at = text.data;
  const char *end = text.data + text.len;
  char *to = out;
  while (at < end) {
    if (*at != '\\') {
      *to++ = *at++;
    } else if (at[1] != 'u') {
      *to++ = plain_escape(at[1]);
      at += 2;
    } else {
      int32_t code = code_unit(at + 2, end);
      at += 6;
      if (is_high_surrogate(code)) {
        code = 0x10000 + ((code - 0xD800) << 10) + (code_unit(at + 2, end) - 0xDC00);
        at += 6;
      }
      to += put_utf8(code, to);
    }
  }
  return (size_t)(to - out);
}

bool json_scan_string_is(const struct json_scan_value *value, struct str plain) {
  if (!value->escaped) return str_equal(value->text, plain);
  char meaning[6 * 64]; /* an escape takes at most six bytes for one */
  if (value->text.len > sizeof meaning) return false;
  size_t len = json_scan_unescape(value->text, meaning);
  return str_equal((struct str){meaning, len}, plain);
}

/* ---- Numbers */

static bool skip_digits(struct json_scan *scan) {
  const char *first = scan->at;
  while (is_digit(scan)) scan->at++;
  return scan->at > first;
}

static void judge_integer(struct str text, struct json_scan_value *value) {
  bool negative = text.data[0] == '-';
  int64_t result = 0; /* counts downwards: the negative range is larger by one */
  for (size_t i = negative; i < text.len; i++) {
    if (__builtin_mul_overflow(result, 10, &result) || __builtin_sub_overflow(result, text.data[i] - '0', &result)) {
      value->faults |= JSON_SCAN_FAULT_INTEGER;
      return;
    }
  }
  if (!negative && __builtin_sub_overflow(0, result, &result)) value->faults |= JSON_SCAN_FAULT_INTEGER;
  value->integer = result;
}

/* exponent: its digits; empty where there is none. PostgreSQL's numeric, which keeps the value, ends beyond 16383 decimals. */
static void judge_real(struct str text, struct str exponent, struct json_scan_value *value) {
  while (exponent.len > 0 && exponent.data[0] == '0') {
    exponent.data++;
    exponent.len--;
  }
  char copy[NUMBER_MAX_BYTES + 1];
  if (text.len > NUMBER_MAX_BYTES || exponent.len > EXPONENT_MAX_DIGITS) {
    value->faults |= JSON_SCAN_FAULT_REAL;
  } else if (exponent.len > 0 || text.len > DOUBLE_SAFE_DIGITS) {
    memcpy(copy, text.data, text.len);
    copy[text.len] = '\0';
    if (isinf(strtod(copy, NULL))) value->faults |= JSON_SCAN_FAULT_REAL;
  }
}

static enum status scan_number(struct json_scan *scan, struct json_scan_value *value) {
  const char *first = scan->at;
  struct str exponent = STR_NONE;
  value->type = JSON_SCAN_INTEGER;
  if (*scan->at == '-') scan->at++;
  bool leading_zero = is_digit(scan) && *scan->at == '0';
  if (leading_zero)
    scan->at++;
  else if (!skip_digits(scan))
    return malformed(scan, "a digit is missing");
  if (leading_zero && is_digit(scan)) return malformed(scan, "a number with a leading zero");
  if (scan->at < scan->end && *scan->at == '.') {
    scan->at++;
    value->type = JSON_SCAN_REAL;
    if (!skip_digits(scan)) return malformed(scan, "a digit is missing");
  }
  if (scan->at < scan->end && (*scan->at == 'e' || *scan->at == 'E')) {
    scan->at++;
    value->type = JSON_SCAN_REAL;
    if (scan->at < scan->end && (*scan->at == '+' || *scan->at == '-')) scan->at++;
    exponent.data = scan->at;
    if (!skip_digits(scan)) return malformed(scan, "a digit is missing");
    exponent.len = (size_t)(scan->at - exponent.data);
  }
  value->text = (struct str){first, (size_t)(scan->at - first)};
  if (value->type == JSON_SCAN_INTEGER)
    judge_integer(value->text, value);
  else
    judge_real(value->text, exponent, value);
  return STATUS_OK;
}

/* ---- Containers */

static int compare_names(struct str a, struct str b) {
  size_t common = a.len < b.len ? a.len : b.len;
  int order = common == 0 ? 0 : memcmp(a.data, b.data, common);
  return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

/* Inserts a name into the sorted run of the innermost object; false where it is there already. Binary insertion keeps the cost of
 * hostile objects low without hashing, and a handful of names needs next to nothing. */
static bool insert_name(struct json_scan *scan, const struct json_scan_value *value) {
  struct str name = value->text;
  if (scan->name_count == JSON_SCAN_NAMES_MAX) return true;
  if (value->escaped) {
    if (name.len > JSON_SCAN_NAME_BYTES - scan->name_bytes) return true;
    char *meaning = scan->bytes + scan->name_bytes;
    name = (struct str){meaning, json_scan_unescape(name, meaning)};
    scan->name_bytes += name.len;
  }
  size_t low = scan->frames[scan->depth - 1].first_name;
  size_t high = scan->name_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int order = compare_names(scan->names[middle], name);
    if (order == 0) return false;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  memmove(scan->names + low + 1, scan->names + low, (scan->name_count - low) * sizeof scan->names[0]);
  scan->names[low] = name;
  scan->name_count++;
  return true;
}

enum status json_scan_enter(struct json_scan *scan, enum json_scan_type array_or_object) {
  skip_space(scan);
  bool object = array_or_object == JSON_SCAN_OBJECT;
  if (scan->at == scan->end || *scan->at != (object ? '{' : '['))
    return malformed(scan, object ? "an object is needed" : "an array is needed");
  if (scan->depth == JSON_SCAN_NESTING_MAX) return malformed(scan, "nested too deeply");
  scan->at++;
  scan->frames[scan->depth++] = (struct json_scan_frame){
      .object = object, .first_name = (uint16_t)scan->name_count, .first_byte = (uint16_t)scan->name_bytes};
  return STATUS_OK;
}

enum status json_scan_more(struct json_scan *scan, bool *more) {
  struct json_scan_frame *frame = &scan->frames[scan->depth - 1];
  skip_space(scan);
  if (scan->at == scan->end) return malformed(scan, frame->object ? "the object does not end" : "the array does not end");
  if (*scan->at == (frame->object ? '}' : ']')) {
    scan->at++;
    scan->depth--;
    scan->name_count = frame->first_name;
    scan->name_bytes = frame->first_byte;
    *more = false;
    return STATUS_OK;
  }
  if (frame->started) {
    if (*scan->at != ',') return malformed(scan, "a comma or the end is missing");
    scan->at++;
  }
  frame->started = true;
  *more = true;
  return STATUS_OK;
}

enum status json_scan_name(struct json_scan *scan, struct json_scan_value *name) {
  *name = (struct json_scan_value){0};
  skip_space(scan);
  if (scan->at == scan->end || *scan->at != '"') return malformed(scan, "a name in quotes is missing");
  enum status status = scan_string(scan, name);
  if (status != STATUS_OK) return status;
  if (!insert_name(scan, name)) return malformed(scan, "a name stands twice in one object");
  skip_space(scan);
  if (scan->at == scan->end || *scan->at != ':') return malformed(scan, "a colon is missing");
  scan->at++;
  return STATUS_OK;
}

static enum status scan_word(struct json_scan *scan, struct str word, struct json_scan_value *value) {
  if ((size_t)(scan->end - scan->at) < word.len || memcmp(scan->at, word.data, word.len) != 0)
    return malformed(scan, "a value is needed");
  value->text = (struct str){scan->at, word.len};
  scan->at += word.len;
  return STATUS_OK;
}

/* A scalar in whole, or the opening of a container. */
static enum status scan_one(struct json_scan *scan, struct json_scan_value *value) {
  *value = (struct json_scan_value){0};
  if (!json_scan_peek(scan, &value->type)) return malformed(scan, "a value is needed");
  switch (value->type) {
  case JSON_SCAN_NULL: return scan_word(scan, STR_LIT("null"), value);
  case JSON_SCAN_FALSE: return scan_word(scan, STR_LIT("false"), value);
  case JSON_SCAN_TRUE: return scan_word(scan, STR_LIT("true"), value);
  case JSON_SCAN_STRING: return scan_string(scan, value);
  case JSON_SCAN_ARRAY:
  case JSON_SCAN_OBJECT: return json_scan_enter(scan, value->type);
  case JSON_SCAN_INTEGER:
  case JSON_SCAN_REAL: break;
  }
  return scan_number(scan, value);
}

enum status json_scan_value(struct json_scan *scan, struct json_scan_value *value) {
  size_t base = scan->depth;
  enum status status = scan_one(scan, value);
  if (status != STATUS_OK || scan->depth == base) return status;
  const char *first = scan->at - 1;
  size_t deepest = 1;
  while (scan->depth > base) {
    struct json_scan_value inner = {0};
    bool in_object = scan->frames[scan->depth - 1].object;
    bool more = false;
    status = json_scan_more(scan, &more);
    if (status == STATUS_OK && more && in_object) {
      status = json_scan_name(scan, &inner);
      value->faults |= inner.faults;
    }
    if (status == STATUS_OK && more) status = scan_one(scan, &inner);
    if (status != STATUS_OK) return status;
    value->faults |= inner.faults;
    if (scan->depth - base > deepest) deepest = scan->depth - base;
  }
  value->depth = (unsigned)deepest;
  value->text = (struct str){first, (size_t)(scan->at - first)};
  return STATUS_OK;
}
