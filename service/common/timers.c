#include "timers.h"

#include <stddef.h>

/* In a heap node, child is the first child, next the following sibling, and previous the sibling before or, for a first
 * child, the parent. The root has neither next nor previous. */

static struct loop_timer *meld(struct loop_timer *a, struct loop_timer *b) {
  if (a == NULL) return b;
  if (b == NULL) return a;
  if (b->due_us < a->due_us) {
    struct loop_timer *earlier = b;
    b = a;
    a = earlier;
  }
  b->previous = a;
  b->next = a->child;
  if (b->next != NULL) b->next->previous = b;
  a->child = b;
  return a;
}

/* The two passes that give the heap its name: meld siblings in pairs from left to right, then the pairs from right to left. */
static struct loop_timer *meld_siblings(struct loop_timer *first) {
  struct loop_timer *pairs = NULL; /* linked by next, the last pair first */
  while (first != NULL) {
    struct loop_timer *a = first;
    struct loop_timer *b = a->next;
    first = b != NULL ? b->next : NULL;
    a->next = a->previous = NULL;
    if (b != NULL) b->next = b->previous = NULL;
    struct loop_timer *pair = meld(a, b);
    pair->next = pairs;
    pairs = pair;
  }
  struct loop_timer *root = NULL;
  while (pairs != NULL) {
    struct loop_timer *pair = pairs;
    pairs = pair->next;
    pair->next = NULL;
    root = meld(root, pair);
  }
  return root;
}

void timers_insert(struct timers *timers, struct loop_timer *timer) {
  timer->child = timer->next = timer->previous = NULL;
  timer->armed = true;
  timers->root = meld(timers->root, timer);
}

void timers_remove(struct timers *timers, struct loop_timer *timer) {
  struct loop_timer *below = meld_siblings(timer->child);
  if (timer == timers->root) {
    timers->root = below;
  } else {
    if (timer->previous->child == timer)
      timer->previous->child = timer->next;
    else
      timer->previous->next = timer->next;
    if (timer->next != NULL) timer->next->previous = timer->previous;
    timers->root = meld(timers->root, below);
  }
  timer->child = timer->next = timer->previous = NULL;
  timer->armed = false;
}
