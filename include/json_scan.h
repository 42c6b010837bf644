/* json_scan.h: a strict scanner for JSON texts (RFC 8259) that allocates nothing and copies nothing.
 *
 * Why not a tree: answers give metadata back as the bytes sent, so the span of a value matters more than its content; a batch
 * must tell a text that is no JSON (all of it refused) from a value that breaks a rule (that item refused); and the way of a
 * heartbeat is free of allocations. A test compares its verdicts with those of an independent parser.
 *
 * Malformed, STATUS_INVALID, whatever the caller wants: wrong syntax, a BOM, invalid UTF-8, a lone surrogate (RFC 8259 section
 * 8.2), a name twice in one object (compared after unescaping; RFC 7493 section 2.3), more than JSON_SCAN_NESTING_MAX open
 * containers. Well-formed but out of range is reported with the value (faults, depth), for the caller to judge.
 *
 * One owner, one thread. All spans point into the scanned text. */
#ifndef PRESENCE_JSON_SCAN_H
#define PRESENCE_JSON_SCAN_H

#include "str.h"

#define JSON_SCAN_NESTING_MAX 2048
/* Doubled names are looked for among so many names of open objects and so many bytes of unescaped ones. A text past that holds
 * more than metadata may hold, and is refused for its size. */
#define JSON_SCAN_NAMES_MAX 1024
#define JSON_SCAN_NAME_BYTES 4096

enum json_scan_type {
  JSON_SCAN_NULL,
  JSON_SCAN_FALSE,
  JSON_SCAN_TRUE,
  JSON_SCAN_INTEGER, /* no fraction, no exponent */
  JSON_SCAN_REAL,
  JSON_SCAN_STRING,
  JSON_SCAN_ARRAY,
  JSON_SCAN_OBJECT,
};

enum json_scan_fault {
  JSON_SCAN_FAULT_NUL = 1,     /* a string or name holds \u0000 */
  JSON_SCAN_FAULT_INTEGER = 2, /* an integer outside int64 */
  JSON_SCAN_FAULT_REAL = 4,    /* a number that would be infinite as a double, or an exponent beyond ±9999 */
};

struct json_scan_value {
  enum json_scan_type type;
  struct str text; /* the bytes as sent; of a string those between its quotes */
  bool escaped;    /* a string with escapes: text differs from what it means */
  int64_t integer; /* INTEGER without fault */
  unsigned depth;  /* 0: no container; else levels of containers, itself included */
  unsigned faults; /* enum json_scan_fault bits, of everything inside */
};

struct json_scan {
  const char *begin, *at, *end;
  const char *error; /* after STATUS_INVALID: what is wrong at `at`; static */
  size_t depth;
  size_t name_count;
  size_t name_bytes;
  struct json_scan_frame {
    bool object;
    bool started; /* something stands in it already */
    uint16_t first_name, first_byte;
  } frames[JSON_SCAN_NESTING_MAX];
  struct str names[JSON_SCAN_NAMES_MAX]; /* of each open object a sorted run */
  char bytes[JSON_SCAN_NAME_BYTES];
};

void json_scan_begin(struct json_scan *scan, struct str text);
/* Nothing but white space is left. */
enum status json_scan_end(struct json_scan *scan) MUST_CHECK;
/* The type that begins at the next byte, judged by that byte alone; numbers are INTEGER; false where none begins. */
bool json_scan_peek(struct json_scan *scan, enum json_scan_type *type);

/* A whole value, containers with all that is in them. */
enum status json_scan_value(struct json_scan *scan, struct json_scan_value *value) MUST_CHECK;

/* Step by step: enter, then while json_scan_more() says so (in an object json_scan_name() and) one value. */
enum status json_scan_enter(struct json_scan *scan, enum json_scan_type array_or_object) MUST_CHECK;
enum status json_scan_more(struct json_scan *scan, bool *more) MUST_CHECK;
enum status json_scan_name(struct json_scan *scan, struct json_scan_value *name) MUST_CHECK;

/* What a string value means. out has room for text.len bytes and gets valid UTF-8; returns its length. */
size_t json_scan_unescape(struct str text, char *out);
/* Does a string value mean the same as plain? */
bool json_scan_string_is(const struct json_scan_value *value, struct str plain);
/* Bytes before the error. */
static inline size_t json_scan_offset(const struct json_scan *scan) { return (size_t)(scan->at - scan->begin); }

#endif
