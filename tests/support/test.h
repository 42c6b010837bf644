/* test.h: the test framework (https://api.cmocka.org), and waiting for a condition.
 *
 * Helpers of tests/support end the running test with a clear line when something is not as asked for; they return no status. */
#ifndef PRESENCE_TEST_TEST_H
#define PRESENCE_TEST_TEST_H

#include <stdbool.h>

#include "support/unit.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* True in make test-all (TEST_WHOLE=1): also what takes long. */
bool test_is_whole(void);

int64_t wait_now_ms(void);                 /* monotonic */
void wait_pause(void);                     /* a few ms between two looks */
int64_t wait_limit_ms(int64_t timeout_ms); /* longer under sanitizers, which slow everything down */

/* Looks again and again until condition holds; fails the test when it still doesn't after timeout_ms. */
#define WAIT_UNTIL(condition, timeout_ms)                                                                                        \
  do {                                                                                                                           \
    int64_t wait_limit_ = wait_now_ms() + wait_limit_ms(timeout_ms);                                                             \
    while (!(condition)) {                                                                                                       \
      if (wait_now_ms() > wait_limit_) fail_msg("waited %lld ms in vain for: %s", (long long)(timeout_ms), #condition);          \
      wait_pause();                                                                                                              \
    }                                                                                                                            \
  } while (0)

/* The same, where what was seen last tells more than the condition: text is an expression that gives it. */
#define WAIT_UNTIL_TEXT(condition, timeout_ms, text)                                                                             \
  do {                                                                                                                           \
    int64_t wait_limit_ = wait_now_ms() + wait_limit_ms(timeout_ms);                                                             \
    while (!(condition)) {                                                                                                       \
      if (wait_now_ms() > wait_limit_)                                                                                           \
        fail_msg("waited %lld ms in vain for: %s; last seen: %s", (long long)(timeout_ms), #condition, (text));                  \
      wait_pause();                                                                                                              \
    }                                                                                                                            \
  } while (0)

/* printf into memory that the test need not free: it lives until the program ends. */
char *text_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
