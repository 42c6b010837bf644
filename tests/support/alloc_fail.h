/* alloc_fail.h: makes one allocation of a unit test fail, and counts them. Linked with
 * -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc; sees the allocations of the code under test, not those inside shared libraries.
 * One thread at a time. */
#ifndef PRESENCE_TEST_ALLOC_FAIL_H
#define PRESENCE_TEST_ALLOC_FAIL_H

#include <stdbool.h>

/* The nth allocation from now fails (1 = the next), once. 0 switches it off. */
void alloc_fail_at(long nth);
/* Whether the failure asked for has happened. */
bool alloc_failed(void);

/* Allocations of this thread so far: of the service and of the libraries that are linked statically (libmicrohttpd, hiredis). */
long alloc_count(void);

/* Runs `attempt` with the first, then the second … allocation failing until one run gets through without meeting a failure.
 * `attempt` must return false when, and only when, an allocation failed, and leak nothing. Returns how many failures were
 * met; -1 where a run returned the wrong answer. */
long alloc_fail_sweep(bool (*attempt)(void *context), void *context);

#endif
