/* metrics.h: the registry behind GET /metrics. Names, types, labels and help live in service/metrics.def and nowhere else.
 *
 * Format: Prometheus text exposition format 0.0.4. Counters and gauges are relaxed atomics: any thread may add, no lock. */
#ifndef PRESENCE_METRICS_H
#define PRESENCE_METRICS_H

#include <stdint.h>

#include "status.h"
#include "str.h"

/* service/metrics.def has lines
 *   COUNTER(id, "name", "help", "label,label")   GAUGE(id, ...)   HISTOGRAM(id, "name", "help", "label", BUCKETS_x)
 * and generates METRIC_<id>. */
enum metric_id {
#define COUNTER(id, name, help, labels) METRIC_##id,
#define GAUGE(id, name, help, labels) METRIC_##id,
#define HISTOGRAM(id, name, help, labels, buckets) METRIC_##id,
#include "../service/metrics.def"
#undef COUNTER
#undef GAUGE
#undef HISTOGRAM
  METRIC_COUNT
};

/* One time series: find it once (at set-up), then add to it on the hot path. Valid until metrics_free, also once removed. */
struct metric_series;

enum status metrics_init(void) MUST_CHECK; /* once, before other threads; a metric without labels stands at 0 from then on */
void metrics_free(void);                   /* after all other threads */

/* The series of a metric with these label values: as many const char * as it has labels, none where it has none, UTF-8. At most
 * METRICS_SERIES_MAX a metric; over it, and where memory is short, one shared series whose labels all say "overflow": never
 * NULL. Takes a lock: not for the hot path. */
enum { METRICS_SERIES_MAX = 2000 };
#define metrics_series(...) metrics_series_(__VA_ARGS__, (const char *)NULL)
struct metric_series *metrics_series_(enum metric_id id, ...) __attribute__((sentinel));

/* Takes the series whose first label has this value (a deleted tenant's) out of /metrics. Who still holds one may go on adding
 * to it, unseen; metrics_series with the same labels brings it back, from 0. */
void metrics_remove(enum metric_id id, const char *first_label_value);

/* Any thread, no lock. Values are doubles: counts are exact up to 2^53. */
void metric_add(struct metric_series *series, int64_t amount);        /* counter or gauge */
void metric_add_seconds(struct metric_series *series, double amount); /* counter or gauge */
void metric_set(struct metric_series *series, double value);          /* gauge */
void metric_observe(struct metric_series *series, double value);      /* histogram; seconds or a plain number */
double metric_value(const struct metric_series *series);              /* counter, gauge; histogram: its count */

/* Everything in text form. */
enum status metrics_render(struct buf *out) MUST_CHECK;
/* The metrics as a Markdown table for the README. */
enum status metrics_markdown(struct buf *out) MUST_CHECK;

#endif
