/* str.h: a borrowed run of bytes, and a growable buffer that owns its bytes. Neither needs a closing NUL. */
#ifndef PRESENCE_STR_H
#define PRESENCE_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "status.h"

/* Borrowed: valid as long as what it points into. data may be NULL only where len is 0. */
struct str {
  const char *data;
  size_t len;
};

#define STR_LIT(literal) ((struct str){(literal), sizeof(literal) - 1})
#define STR_NONE ((struct str){NULL, 0})
/* For printf's "%.*s". */
#define STR_ARG(s) (int)(s).len, (s).data

static inline struct str str_from(const char *text) { return (struct str){text, strlen(text)}; }
static inline bool str_equal(struct str a, struct str b) {
  return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}

/* Decimal digits only (leading zeros are fine, signs are not), fits int64: STATUS_INVALID otherwise. */
enum status str_to_int64(struct str text, int64_t *value) MUST_CHECK;
/* Bytes of the UTF-8 sequence that text begins with (1 to 4); 0 where it is empty or begins with none. */
size_t str_utf8_sequence(struct str text);
/* Valid UTF-8 by RFC 3629: no overlong forms, no surrogates, at most U+10FFFF. */
bool str_is_utf8(struct str text);
/* One byte of valid UTF-8 as it stands inside a JSON string (RFC 8259 section 7). Returns how many bytes of out are used. */
size_t str_json_escape(unsigned char byte, char out[6]);

/* Growable bytes. Zero-initialised is empty and valid. One owner, one thread. */
struct buf {
  char *data;
  size_t len;
  size_t capacity;
};

enum status buf_reserve(struct buf *buf, size_t more) MUST_CHECK; /* room for `more` bytes after len */
enum status buf_append(struct buf *buf, const void *data, size_t len) MUST_CHECK;
enum status buf_append_str(struct buf *buf, struct str text) MUST_CHECK;
enum status buf_printf(struct buf *buf, const char *format, ...) MUST_CHECK __attribute__((format(printf, 2, 3)));
enum status buf_append_int64(struct buf *buf, int64_t value) MUST_CHECK;
/* text as a JSON string with its quotes; text must be valid UTF-8 (RFC 8259 section 7). */
enum status buf_append_json_string(struct buf *buf, struct str text) MUST_CHECK;
static inline void buf_clear(struct buf *buf) { buf->len = 0; } /* keeps the memory */
void buf_free(struct buf *buf);                                 /* leaves it empty and valid */
static inline struct str buf_str(const struct buf *buf) { return (struct str){buf->data, buf->len}; }

#endif
