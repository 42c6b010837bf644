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

/* One time series: find it once (at set-up), then add to it on the hot path. Never freed before metrics_free. */
struct metric_series;

enum status metrics_init(void) MUST_CHECK; /* once, before other threads */
void metrics_free(void);

/* The series of a metric with these label values (as many as it has labels; "" where none). A bounded number per metric: over
 * it, and where memory is short, a shared overflow series, never NULL. Takes a lock: not for the hot path. */
struct metric_series *metrics_series(enum metric_id id, ...);          /* const char * label values */
void metrics_remove(enum metric_id id, const char *first_label_value); /* e.g. a deleted tenant's */

void metric_add(struct metric_series *series, int64_t amount);   /* counter or gauge */
void metric_set(struct metric_series *series, double value);     /* gauge */
void metric_observe(struct metric_series *series, double value); /* histogram; seconds or a plain number */
double metric_value(const struct metric_series *series);         /* counter, gauge; histogram: its count */

/* Everything in text form. */
enum status metrics_render(struct buf *out) MUST_CHECK;

#endif
