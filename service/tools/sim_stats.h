/* sim_stats.h: what presence-sim counts: answers by status, failures by reason, latencies. One thread. */
#ifndef PRESENCE_SIM_STATS_H
#define PRESENCE_SIM_STATS_H

#include <stdint.h>

#include "status.h"
#include "str.h"

/* Latencies in microseconds, in buckets whose width is at most 1/32 of their value: quantiles are right to 3 %.
 * Source of the shape: HdrHistogram (http://hdrhistogram.org). */
enum { SIM_SUB_BUCKETS = 32, SIM_LATENCY_BUCKETS = 40 * SIM_SUB_BUCKETS };
struct sim_latency {
  uint64_t counts[SIM_LATENCY_BUCKETS];
  uint64_t total;
  int64_t max_us;
};
void sim_latency_add(struct sim_latency *latency, int64_t us);
/* The value that a share of all is not above (0.5 = median), as the upper end of its bucket; 0 where there is none. */
int64_t sim_latency_quantile(const struct sim_latency *latency, double share);
void sim_latency_clear(struct sim_latency *latency);

enum { SIM_REASONS_MAX = 8 };
struct sim_stats {
  uint64_t requests;       /* handed to a connection */
  uint64_t answers[600];   /* by status */
  uint64_t heartbeats_ok;  /* in a 2xx answer, and for a batch not rejected */
  uint64_t heartbeats_bad; /* rejected in a batch that was answered 200 */
  uint64_t lost;           /* requests whose connection broke */
  struct {
    const char *reason; /* static text */
    uint64_t count;
  } failures[SIM_REASONS_MAX];
  struct sim_latency all, recent; /* recent: since the last progress line */
};
void sim_stats_answer(struct sim_stats *stats, int status, int64_t latency_us);
void sim_stats_failure(struct sim_stats *stats, const char *reason, int lost);
uint64_t sim_stats_ok(const struct sim_stats *stats); /* 2xx answers */

/* " 429:3 503:1 reset:2", what was no 2xx; "" where all was well. */
enum status sim_stats_append_errors(struct buf *out, const struct sim_stats *stats) MUST_CHECK;

/* The summary, for people or as one line of JSON. */
struct sim_summary {
  double seconds;
  int64_t online; /* by presence-sim's own reckoning */
  int64_t missed; /* heartbeats whose turn passed because all connections were busy */
};
enum status sim_stats_summary(struct buf *out, const struct sim_stats *stats, const struct sim_summary *summary,
                              int json) MUST_CHECK;

#endif
