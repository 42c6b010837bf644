/* usage.h: what a running process takes of the machine, from /proc (proc(5)). */
#ifndef PRESENCE_TEST_USAGE_H
#define PRESENCE_TEST_USAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "support/child.h"

int64_t usage_rss_kib(const struct child *child); /* resident memory */
int usage_descriptors(const struct child *child); /* open files and sockets */
bool usage_memory_is_real(void);                  /* false under sanitizers, which keep freed memory back */

#endif
