#include "support/test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOWNESS 4
#else
#define SLOWNESS 1
#endif

/* Peers go away in tests: writing to one is an error value, no signal. Children get the default back. */
__attribute__((constructor)) static void ignore_broken_pipes(void) { signal(SIGPIPE, SIG_IGN); }

bool test_is_whole(void) { return getenv("TEST_WHOLE") != NULL; }

int64_t wait_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void wait_pause(void) { nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL); }

int64_t wait_limit_ms(int64_t timeout_ms) { return timeout_ms * SLOWNESS; }

/* All texts made so far, so that leak checkers see them as reachable. */
struct text {
  struct text *next;
  char *data;
};
static struct text *texts;

char *text_format(const char *format, ...) {
  struct text *text = malloc(sizeof *text);
  assert_non_null(text);
  va_list arguments;
  va_start(arguments, format);
  int length = vasprintf(&text->data, format, arguments);
  va_end(arguments);
  assert_true(length >= 0);
  text->next = texts;
  texts = text;
  return text->data;
}
