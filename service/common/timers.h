/* timers.h: the loop's armed timers as a pairing heap: intrusive, so arming never allocates; set O(1), cancel and pop
 * O(log n) amortised, which keeps tens of thousands of request deadlines cheap.
 * Source: Fredman, Sedgewick, Sleator, Tarjan, "The Pairing Heap", Algorithmica 1 (1986). */
#ifndef PRESENCE_TIMERS_H
#define PRESENCE_TIMERS_H

#include "loop.h"

/* Zero-initialised is empty. */
struct timers {
  struct loop_timer *root; /* the earliest; NULL when none is armed */
};

void timers_insert(struct timers *timers, struct loop_timer *timer); /* not armed before; due_us is set */
void timers_remove(struct timers *timers, struct loop_timer *timer); /* armed before */

#endif
