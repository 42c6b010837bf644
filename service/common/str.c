#include "str.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum status str_to_int64(struct str text, int64_t *value) {
  if (text.len == 0) return STATUS_INVALID;
  int64_t result = 0;
  for (size_t i = 0; i < text.len; i++) {
    if (text.data[i] < '0' || text.data[i] > '9') return STATUS_INVALID;
    if (__builtin_mul_overflow(result, 10, &result) || __builtin_add_overflow(result, text.data[i] - '0', &result))
      return STATUS_INVALID;
  }
  *value = result;
  return STATUS_OK;
}

static bool is_continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

/* The rows of RFC 3629 section 4. Only the second byte of E0, ED, F0 and F4 has a narrower range than a continuation. */
size_t str_utf8_sequence(struct str text) {
  const unsigned char *byte = (const unsigned char *)text.data;
  if (text.len == 0) return 0;
  unsigned char first = byte[0];
  if (first < 0x80) return 1;
  if (first < 0xC2 || first > 0xF4) return 0;
  size_t size = first < 0xE0 ? 2 : first < 0xF0 ? 3 : 4;
  if (text.len < size) return 0;
  for (size_t i = 1; i < size; i++)
    if (!is_continuation(byte[i])) return 0;
  if ((first == 0xE0 && byte[1] < 0xA0) || (first == 0xED && byte[1] > 0x9F) || (first == 0xF0 && byte[1] < 0x90) ||
      (first == 0xF4 && byte[1] > 0x8F))
    return 0;
  return size;
}

bool str_is_utf8(struct str text) {
  while (text.len > 0) {
    size_t size = str_utf8_sequence(text);
    if (size == 0) return false;
    text.data += size;
    text.len -= size;
  }
  return true;
}

enum status buf_reserve(struct buf *buf, size_t more) {
  size_t needed = 0;
  if (__builtin_add_overflow(buf->len, more, &needed) || needed > PTRDIFF_MAX) return STATUS_NO_MEMORY;
  if (needed <= buf->capacity) return STATUS_OK;
  size_t capacity = buf->capacity > 0 ? buf->capacity : 64;
  while (capacity < needed) capacity *= 2;
  char *data = realloc(buf->data, capacity);
  if (data == NULL) return STATUS_NO_MEMORY;
  buf->data = data;
  buf->capacity = capacity;
  return STATUS_OK;
}

enum status buf_append(struct buf *buf, const void *data, size_t len) {
  if (len == 0) return STATUS_OK;
  enum status status = buf_reserve(buf, len);
  if (status != STATUS_OK) return status;
  memcpy(buf->data + buf->len, data, len);
  buf->len += len;
  return STATUS_OK;
}

enum status buf_append_str(struct buf *buf, struct str text) { return buf_append(buf, text.data, text.len); }

enum status buf_printf(struct buf *buf, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  int size = vsnprintf(NULL, 0, format, arguments);
  va_end(arguments);
  if (size < 0) return STATUS_INVALID;
  enum status status = buf_reserve(buf, (size_t)size + 1); /* vsnprintf writes a NUL, which is not counted in len */
  if (status != STATUS_OK) return status;
  va_start(arguments, format);
  vsnprintf(buf->data + buf->len, (size_t)size + 1, format, arguments);
  va_end(arguments);
  buf->len += (size_t)size;
  return STATUS_OK;
}

enum status buf_append_int64(struct buf *buf, int64_t value) {
  char digits[20]; /* "-9223372036854775808" */
  size_t at = sizeof digits;
  uint64_t rest = value < 0 ? 0 - (uint64_t)value : (uint64_t)value;
  do {
    digits[--at] = (char)('0' + rest % 10);
    rest /= 10;
  } while (rest > 0);
  if (value < 0) digits[--at] = '-';
  return buf_append(buf, digits + at, sizeof digits - at);
}

/* The letter of a short escape; 0 where there is none. */
static char short_escape(unsigned char byte) {
  switch (byte) {
  case '"': return '"';
  case '\\': return '\\';
  case '\b': return 'b';
  case '\f': return 'f';
  case '\n': return 'n';
  case '\r': return 'r';
  case '\t': return 't';
  default: return 0;
  }
}

size_t str_json_escape(unsigned char byte, char out[6]) {
  static const char hex[] = "0123456789abcdef";
  char letter = short_escape(byte);
  if (letter == 0 && byte >= 0x20) {
    out[0] = (char)byte;
    return 1;
  }
  out[0] = '\\';
  if (letter != 0) {
    out[1] = letter;
    return 2;
  }
  out[1] = 'u';
  out[2] = '0';
  out[3] = '0';
  out[4] = hex[byte >> 4];
  out[5] = hex[byte & 15];
  return 6;
}

enum status buf_append_json_string(struct buf *buf, struct str text) {
  size_t worst = 0;
  if (__builtin_mul_overflow(text.len, 6, &worst) || __builtin_add_overflow(worst, 2, &worst)) return STATUS_NO_MEMORY;
  enum status status = buf_reserve(buf, worst); /* once, so that nothing is half written when memory is short */
  if (status != STATUS_OK) return status;
  char *out = buf->data + buf->len;
  *out++ = '"';
  for (size_t i = 0; i < text.len; i++) out += str_json_escape((unsigned char)text.data[i], out);
  *out++ = '"';
  buf->len = (size_t)(out - buf->data);
  return STATUS_OK;
}

void buf_free(struct buf *buf) {
  free(buf->data);
  *buf = (struct buf){0};
}
