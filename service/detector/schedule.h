/* schedule.h: when the detector looks again. Pure arithmetic on the presence clock. */
#ifndef PRESENCE_DETECTOR_SCHEDULE_H
#define PRESENCE_DETECTOR_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

/* Milliseconds until a look is worth while. earliest_ms: the lowest bound in `next` (INT64_MAX: none); cutoff_ms: nothing later
 * may be decided yet; cutoff_moved: false while nobody marks (deaf): however near the bound is, nothing will be due soon. */
int64_t schedule_wait_ms(int64_t earliest_ms, int64_t cutoff_ms, bool cutoff_moved);

#endif
