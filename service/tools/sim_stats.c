#include "sim_stats.h"

/* Values below SIM_SUB_BUCKETS have a bucket each; above, every power of two has SIM_SUB_BUCKETS of equal width. */
static size_t bucket_of(int64_t us) {
  uint64_t value = us > 0 ? (uint64_t)us : 0;
  if (value < SIM_SUB_BUCKETS) return (size_t)value;
  unsigned shift = 63U - (unsigned)__builtin_clzll(value) - 5; /* 2^5 = SIM_SUB_BUCKETS */
  size_t bucket = (shift + 1) * (size_t)SIM_SUB_BUCKETS + (size_t)(value >> shift) - SIM_SUB_BUCKETS;
  return bucket < SIM_LATENCY_BUCKETS ? bucket : SIM_LATENCY_BUCKETS - 1;
}

static int64_t bucket_end(size_t bucket) {
  if (bucket < SIM_SUB_BUCKETS) return (int64_t)bucket;
  unsigned shift = (unsigned)(bucket / SIM_SUB_BUCKETS) - 1;
  return (int64_t)(((bucket % SIM_SUB_BUCKETS + SIM_SUB_BUCKETS + 1) << shift) - 1);
}

void sim_latency_add(struct sim_latency *latency, int64_t us) {
  latency->counts[bucket_of(us)]++;
  latency->total++;
  if (us > latency->max_us) latency->max_us = us;
}

int64_t sim_latency_quantile(const struct sim_latency *latency, double share) {
  double wanted = share * (double)latency->total;
  uint64_t seen = 0;
  for (size_t bucket = 0; bucket < SIM_LATENCY_BUCKETS; bucket++) {
    seen += latency->counts[bucket];
    if (seen > 0 && (double)seen >= wanted) {
      int64_t end = bucket_end(bucket);
      return end < latency->max_us ? end : latency->max_us;
    }
  }
  return 0;
}

void sim_latency_clear(struct sim_latency *latency) { *latency = (struct sim_latency){0}; }

void sim_stats_answer(struct sim_stats *stats, int status, int64_t latency_us) {
  stats->answers[status > 0 && status < 600 ? status : 0]++;
  sim_latency_add(&stats->all, latency_us);
  sim_latency_add(&stats->recent, latency_us);
}

void sim_stats_failure(struct sim_stats *stats, const char *reason, int lost) {
  stats->lost += lost ? 1 : 0;
  for (size_t i = 0; i < SIM_REASONS_MAX; i++) {
    if (stats->failures[i].reason == NULL) stats->failures[i].reason = reason;
    if (strcmp(stats->failures[i].reason, reason) == 0 || i == SIM_REASONS_MAX - 1) {
      stats->failures[i].count++;
      return;
    }
  }
}

uint64_t sim_stats_ok(const struct sim_stats *stats) {
  uint64_t ok = 0;
  for (int status = 200; status < 300; status++) ok += stats->answers[status];
  return ok;
}

enum status sim_stats_append_errors(struct buf *out, const struct sim_stats *stats) {
  enum status status = STATUS_OK;
  for (int code = 0; code < 600 && status == STATUS_OK; code++)
    if ((code < 200 || code >= 300) && stats->answers[code] > 0)
      status = buf_printf(out, " %d:%llu", code, (unsigned long long)stats->answers[code]);
  for (size_t i = 0; i < SIM_REASONS_MAX && stats->failures[i].reason != NULL && status == STATUS_OK; i++)
    status = buf_printf(out, " %s:%llu", stats->failures[i].reason, (unsigned long long)stats->failures[i].count);
  return status;
}

static double ms(int64_t us) { return (double)us / 1000; }

static enum status append_statuses(struct buf *out, const struct sim_stats *stats) {
  enum status status = STATUS_OK;
  const char *comma = "";
  for (int code = 0; code < 600 && status == STATUS_OK; code++)
    if (stats->answers[code] > 0) {
      status = buf_printf(out, "%s\"%d\":%llu", comma, code, (unsigned long long)stats->answers[code]);
      comma = ",";
    }
  if (status == STATUS_OK) status = buf_append_str(out, STR_LIT("},\"failures\":{"));
  for (size_t i = 0; i < SIM_REASONS_MAX && stats->failures[i].reason != NULL && status == STATUS_OK; i++)
    status = buf_printf(out, "%s\"%s\":%llu", i > 0 ? "," : "", stats->failures[i].reason,
                        (unsigned long long)stats->failures[i].count);
  return status;
}

static enum status append_json(struct buf *out, const struct sim_stats *stats, const struct sim_summary *summary, double rate) {
  const struct sim_latency *all = &stats->all;
  enum status status =
      buf_printf(out,
                 "{\"seconds\":%.3f,\"requests\":%llu,\"ok\":%llu,\"lost\":%llu,\"heartbeats_ok\":%llu,"
                 "\"heartbeats_rejected\":%llu,\"heartbeats_per_second\":%.1f,\"missed\":%lld,\"online\":%lld,"
                 "\"latency_ms\":{\"p50\":%.3f,\"p90\":%.3f,\"p99\":%.3f,\"p999\":%.3f,\"max\":%.3f},\"statuses\":{",
                 summary->seconds, (unsigned long long)stats->requests, (unsigned long long)sim_stats_ok(stats),
                 (unsigned long long)stats->lost, (unsigned long long)stats->heartbeats_ok,
                 (unsigned long long)stats->heartbeats_bad, rate, (long long)summary->missed, (long long)summary->online,
                 ms(sim_latency_quantile(all, 0.5)), ms(sim_latency_quantile(all, 0.9)), ms(sim_latency_quantile(all, 0.99)),
                 ms(sim_latency_quantile(all, 0.999)), ms(all->max_us));
  if (status == STATUS_OK) status = append_statuses(out, stats);
  return status == STATUS_OK ? buf_append_str(out, STR_LIT("}}\n")) : status;
}

enum status sim_stats_summary(struct buf *out, const struct sim_stats *stats, const struct sim_summary *summary, int json) {
  double rate = summary->seconds > 0 ? (double)stats->heartbeats_ok / summary->seconds : 0;
  if (json) return append_json(out, stats, summary, rate);
  enum status status = buf_printf(
      out,
      "%.1f s: %llu requests, %llu answered 2xx, %llu heartbeats in force (%.0f/s), %lld missed their turn, %lld online\n"
      "latency ms: p50 %.2f, p99 %.2f, max %.2f; not 2xx:",
      summary->seconds, (unsigned long long)stats->requests, (unsigned long long)sim_stats_ok(stats),
      (unsigned long long)stats->heartbeats_ok, rate, (long long)summary->missed, (long long)summary->online,
      ms(sim_latency_quantile(&stats->all, 0.5)), ms(sim_latency_quantile(&stats->all, 0.99)), ms(stats->all.max_us));
  size_t before = out->len;
  if (status == STATUS_OK) status = sim_stats_append_errors(out, stats);
  if (status == STATUS_OK && out->len == before) status = buf_append_str(out, STR_LIT(" none"));
  return status == STATUS_OK ? buf_append_str(out, STR_LIT("\n")) : status;
}
