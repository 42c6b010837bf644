/* unit.h: cmocka with the headers it wants first, and a few assertions on the project's own types. */
#ifndef PRESENCE_TEST_UNIT_H
#define PRESENCE_TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "status.h"
#include "str.h"

#define assert_status(expected, actual) assert_string_equal(status_name(actual), status_name(expected))

/* A NUL-terminated copy of the buffer's bytes inside the buffer itself, for the string assertions. */
static inline const char *buf_text(struct buf *buf) {
  assert_int_equal(buf_reserve(buf, 1), STATUS_OK);
  buf->data[buf->len] = '\0';
  return buf->data;
}

#endif
