#include "alloc_fail.h"

#include <errno.h>
#include <stddef.h>

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static long countdown; /* 0: off */
static bool failed;
static _Thread_local long allocations; /* of the thread */

long alloc_count(void) { return allocations; }

void alloc_fail_at(long nth) {
  countdown = nth;
  failed = false;
}

bool alloc_failed(void) { return failed; }

static bool fails_now(void) {
  allocations++;
  if (countdown == 0 || --countdown > 0) return false;
  failed = true;
  errno = ENOMEM;
  return true;
}

void *__wrap_malloc(size_t size) { return fails_now() ? NULL : __real_malloc(size); }
void *__wrap_calloc(size_t count, size_t size) { return fails_now() ? NULL : __real_calloc(count, size); }
void *__wrap_realloc(void *memory, size_t size) { return fails_now() ? NULL : __real_realloc(memory, size); }

long alloc_fail_sweep(bool (*attempt)(void *context), void *context) {
  for (long nth = 1;; nth++) {
    alloc_fail_at(nth);
    bool done = attempt(context);
    bool met = alloc_failed();
    alloc_fail_at(0);
    if (done == met) return -1;
    if (!met) return nth - 1;
  }
}
