#include "metrics.h"

#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include "hash.h"

/* A value that any thread may add to: the bits of a double, since C11 has no atomic floating add. */
typedef _Atomic uint64_t number;

/* Upper bounds of the histograms' buckets; +Inf goes without saying. */
static const double BUCKETS_SECONDS[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60};
/* A detection is due within tens of milliseconds and never early: the first bucket stays empty. */
static const double BUCKETS_LAG[] = {0,    0.001, 0.005, 0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0.08, 0.1,
                                     0.15, 0.2,   0.25,  0.5,  1,    2.5,  5,    10,   30,   60};
static const double BUCKETS_SIZES[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000};

enum kind { KIND_COUNTER, KIND_GAUGE, KIND_HISTOGRAM };

static const struct metric {
  const char *name, *help, *labels; /* labels: "route,status" */
  enum kind kind;
  const double *bounds;
  size_t bound_count;
} METRICS[METRIC_COUNT] = {
#define COUNTER(id, name, help, labels) {name, help, labels, KIND_COUNTER, NULL, 0},
#define GAUGE(id, name, help, labels) {name, help, labels, KIND_GAUGE, NULL, 0},
#define HISTOGRAM(id, name, help, labels, buckets)                                                                               \
  {name, help, labels, KIND_HISTOGRAM, BUCKETS_##buckets, sizeof BUCKETS_##buckets / sizeof BUCKETS_##buckets[0]},
#include "../metrics.def"
#undef COUNTER
#undef GAUGE
#undef HISTOGRAM
};

struct metric_series {
  const struct metric *metric;
  struct metric_series *next;  /* in order of creation */
  struct metric_series *chain; /* with the same hash */
  char *labels;                /* as rendered, without braces: route="x",status="200" */
  atomic_bool hidden;          /* removed, or an overflow series that nobody needed yet */
  number value;                /* a histogram's sum */
  _Atomic uint64_t *counts;    /* a histogram's, per bucket, +Inf last; NULL otherwise */
};

enum { CHAINS = 64, REMOVED_MAX = 10 * METRICS_SERIES_MAX };

/* A removed series stays, since somebody may still add to it. What such leftovers may take is bounded as well. */
static struct table {
  struct metric_series *first, *last;
  struct metric_series *chains[CHAINS];
  struct metric_series *overflow;
  size_t shown, removed;
} tables[METRIC_COUNT];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

/* Numbers */

static double number_get(const number *at) {
  uint64_t bits = atomic_load_explicit(at, memory_order_relaxed);
  double value = 0;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static void number_set(number *at, double value) {
  uint64_t bits = 0;
  memcpy(&bits, &value, sizeof bits);
  atomic_store_explicit(at, bits, memory_order_relaxed);
}

static void number_add(number *at, double amount) {
  uint64_t before = atomic_load_explicit(at, memory_order_relaxed);
  uint64_t after = 0;
  do {
    double value = 0;
    memcpy(&value, &before, sizeof value);
    value += amount;
    memcpy(&after, &value, sizeof after);
  } while (!atomic_compare_exchange_weak_explicit(at, &before, after, memory_order_relaxed, memory_order_relaxed));
}

void metric_add(struct metric_series *series, int64_t amount) { number_add(&series->value, (double)amount); }
void metric_add_seconds(struct metric_series *series, double amount) { number_add(&series->value, amount); }
void metric_set(struct metric_series *series, double value) { number_set(&series->value, value); }

void metric_observe(struct metric_series *series, double value) {
  size_t bucket = 0;
  while (bucket < series->metric->bound_count && !(value <= series->metric->bounds[bucket])) bucket++;
  atomic_fetch_add_explicit(&series->counts[bucket], 1, memory_order_relaxed);
  number_add(&series->value, value);
}

double metric_value(const struct metric_series *series) {
  if (series->counts == NULL) return number_get(&series->value);
  uint64_t count = 0;
  for (size_t i = 0; i <= series->metric->bound_count; i++)
    count += atomic_load_explicit(&series->counts[i], memory_order_relaxed);
  return (double)count;
}

/* Labels */

/* Backslash, quote and line feed are escaped in label values (text format 0.0.4). */
static enum status append_label(struct buf *out, struct str name, const char *value) {
  enum status status = buf_printf(out, "%s%.*s=\"", out->len > 0 ? "," : "", STR_ARG(name));
  for (; *value != '\0' && status == STATUS_OK; value++) switch (*value) {
    case '\\': status = buf_append_str(out, STR_LIT("\\\\")); break;
    case '"': status = buf_append_str(out, STR_LIT("\\\"")); break;
    case '\n': status = buf_append_str(out, STR_LIT("\\n")); break;
    default: status = buf_append(out, value, 1);
    }
  return status == STATUS_OK ? buf_append_str(out, STR_LIT("\"")) : status;
}

/* The first of a list "route,status"; *list moves behind it. */
static struct str next_label(const char **list) {
  size_t len = strcspn(*list, ",");
  struct str name = {*list, len};
  *list += len + ((*list)[len] == ',');
  return name;
}

/* Every label's value is values(context); out gets a closing NUL. */
static enum status append_labels(struct buf *out, const struct metric *metric, va_list *values) {
  const char *list = metric->labels;
  enum status status = STATUS_OK;
  bool over = false; /* fewer values than labels: a programming error, shown as empty ones */
  while (*list != '\0' && status == STATUS_OK) {
    struct str name = next_label(&list);
    const char *value = over ? NULL : va_arg(*values, const char *);
    over = value == NULL;
    status = append_label(out, name, over ? "" : value);
  }
  return status == STATUS_OK ? buf_append(out, "", 1) : status;
}

/* Series */

static struct metric_series *series_new(const struct metric *metric) {
  struct metric_series *series = calloc(1, sizeof *series);
  if (series == NULL) return NULL;
  series->metric = metric;
  if (metric->kind == KIND_HISTOGRAM) {
    series->counts = calloc(metric->bound_count + 1, sizeof *series->counts);
    if (series->counts == NULL) {
      free(series);
      return NULL;
    }
  }
  return series;
}

static void series_free(struct metric_series *series) {
  if (series == NULL) return;
  free(series->labels);
  free(series->counts);
  free(series);
}

static void series_reset(struct metric_series *series) {
  number_set(&series->value, 0);
  for (size_t i = 0; series->counts != NULL && i <= series->metric->bound_count; i++)
    atomic_store_explicit(&series->counts[i], 0, memory_order_relaxed);
}

static void table_append(struct table *table, struct metric_series *series, size_t chain) {
  if (table->last != NULL)
    table->last->next = series;
  else
    table->first = series;
  table->last = series;
  series->chain = table->chains[chain];
  table->chains[chain] = series;
  table->shown++;
}

/* labels ends in a NUL; what is kept of it is taken over. NULL: no room, no memory. */
static struct metric_series *find_or_make(enum metric_id id, struct buf *labels) {
  struct table *table = &tables[id];
  size_t chain = hash_device(buf_str(labels)) % CHAINS;
  struct metric_series *series = table->chains[chain];
  while (series != NULL && strcmp(series->labels, labels->data) != 0) series = series->chain;
  if (series != NULL && !atomic_load(&series->hidden)) return series;
  if (table->shown >= METRICS_SERIES_MAX) return NULL;
  if (series != NULL) {
    series_reset(series);
    atomic_store(&series->hidden, false);
    table->shown++;
    table->removed--;
    return series;
  }
  series = series_new(&METRICS[id]);
  if (series == NULL) return NULL;
  series->labels = labels->data;
  *labels = (struct buf){0};
  table_append(table, series, chain);
  return series;
}

struct metric_series *metrics_series_(enum metric_id id, ...) {
  struct buf labels = {0};
  va_list values;
  va_start(values, id);
  enum status status = append_labels(&labels, &METRICS[id], &values);
  va_end(values);
  pthread_mutex_lock(&lock);
  bool labelled = METRICS[id].labels[0] != '\0'; /* else the overflow series is the only one */
  struct metric_series *series = labelled && status == STATUS_OK ? find_or_make(id, &labels) : NULL;
  if (series == NULL) {
    series = tables[id].overflow;
    atomic_store(&series->hidden, false);
  }
  pthread_mutex_unlock(&lock);
  buf_free(&labels);
  return series;
}

void metrics_remove(enum metric_id id, const char *first_label_value) {
  struct table *table = &tables[id];
  struct buf prefix = {0};
  const char *list = METRICS[id].labels;
  if (append_label(&prefix, next_label(&list), first_label_value) != STATUS_OK) goto out; /* it stays visible: harmless */
  pthread_mutex_lock(&lock);
  for (struct metric_series *series = table->first; series != NULL && table->removed < REMOVED_MAX; series = series->next)
    if (strncmp(series->labels, prefix.data, prefix.len) == 0 && !atomic_exchange(&series->hidden, true)) {
      table->shown--;
      table->removed++;
    }
  pthread_mutex_unlock(&lock);
out:
  buf_free(&prefix);
}

static enum status overflow_new(enum metric_id id) {
  struct metric_series *series = series_new(&METRICS[id]);
  struct buf labels = {0};
  enum status status = series != NULL ? STATUS_OK : STATUS_NO_MEMORY;
  for (const char *list = METRICS[id].labels; *list != '\0' && status == STATUS_OK;)
    status = append_label(&labels, next_label(&list), "overflow");
  if (status == STATUS_OK) status = buf_append(&labels, "", 1);
  if (status != STATUS_OK) {
    series_free(series);
    buf_free(&labels);
    return status;
  }
  series->labels = labels.data;
  atomic_store(&series->hidden, METRICS[id].labels[0] != '\0'); /* without labels it is the one series there is */
  tables[id].overflow = series;
  return STATUS_OK;
}

enum status metrics_init(void) {
  enum status status = STATUS_OK;
  for (int id = 0; id < METRIC_COUNT && status == STATUS_OK; id++) status = overflow_new((enum metric_id)id);
  if (status != STATUS_OK) metrics_free();
  return status;
}

void metrics_free(void) {
  for (int id = 0; id < METRIC_COUNT; id++) {
    struct metric_series *series = tables[id].first;
    while (series != NULL) {
      struct metric_series *next = series->next;
      series_free(series);
      series = next;
    }
    series_free(tables[id].overflow);
    tables[id] = (struct table){0};
  }
}

/* Text: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format */

static enum status append_number(struct buf *out, double value) {
  if (isnan(value)) return buf_append_str(out, STR_LIT("NaN"));
  if (isinf(value)) return buf_append_str(out, value > 0 ? STR_LIT("+Inf") : STR_LIT("-Inf"));
  if (value >= -9007199254740992.0 && value <= 9007199254740992.0 && value == (double)(int64_t)value)
    return buf_append_int64(out, (int64_t)value);
  char digits[32]; /* 15 digits where they say the same: 0.1, not 0.10000000000000001 */
  snprintf(digits, sizeof digits, "%.15g", value);
  return strtod(digits, NULL) == value ? buf_append_str(out, str_from(digits)) : buf_printf(out, "%.17g", value);
}

/* One line; extra is a further label or "". */
static enum status append_line(struct buf *out, const struct metric_series *series, const char *suffix, const char *extra,
                               double value) {
  bool both = series->labels[0] != '\0' && extra[0] != '\0';
  bool any = series->labels[0] != '\0' || extra[0] != '\0';
  enum status status = buf_printf(out, "%s%s%s%s%s%s%s ", series->metric->name, suffix, any ? "{" : "", series->labels,
                                  both ? "," : "", extra, any ? "}" : "");
  if (status == STATUS_OK) status = append_number(out, value);
  return status == STATUS_OK ? buf_append_str(out, STR_LIT("\n")) : status;
}

static enum status append_histogram(struct buf *out, const struct metric_series *series) {
  const struct metric *metric = series->metric;
  uint64_t below = 0; /* buckets are cumulative, and their last one must equal the count: both come from one reading */
  enum status status = STATUS_OK;
  for (size_t i = 0; i <= metric->bound_count && status == STATUS_OK; i++) {
    char bound[48] = "le=\"+Inf\"";
    if (i < metric->bound_count) snprintf(bound, sizeof bound, "le=\"%g\"", metric->bounds[i]);
    below += atomic_load_explicit(&series->counts[i], memory_order_relaxed);
    status = append_line(out, series, "_bucket", bound, (double)below);
  }
  if (status == STATUS_OK) status = append_line(out, series, "_sum", "", number_get(&series->value));
  return status == STATUS_OK ? append_line(out, series, "_count", "", (double)below) : status;
}

static enum status append_series(struct buf *out, const struct metric_series *series) {
  if (atomic_load(&series->hidden)) return STATUS_OK;
  return series->counts != NULL ? append_histogram(out, series) : append_line(out, series, "", "", number_get(&series->value));
}

static const char *const kind_names[] = {[KIND_COUNTER] = "counter", [KIND_GAUGE] = "gauge", [KIND_HISTOGRAM] = "histogram"};

enum status metrics_render(struct buf *out) {
  enum status status = STATUS_OK;
  pthread_mutex_lock(&lock);
  for (int id = 0; id < METRIC_COUNT && status == STATUS_OK; id++) {
    const struct metric *metric = &METRICS[id];
    status = buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", metric->name, metric->help, metric->name, kind_names[metric->kind]);
    for (const struct metric_series *series = tables[id].first; series != NULL && status == STATUS_OK; series = series->next)
      status = append_series(out, series);
    if (status == STATUS_OK) status = append_series(out, tables[id].overflow);
  }
  pthread_mutex_unlock(&lock);
  return status;
}

enum status metrics_markdown(struct buf *out) {
  enum status status = buf_append_str(out, STR_LIT("| metric | type | meaning |\n|---|---|---|\n"));
  for (int id = 0; id < METRIC_COUNT && status == STATUS_OK; id++) {
    const struct metric *metric = &METRICS[id];
    bool labelled = metric->labels[0] != '\0';
    status = buf_printf(out, "| `%s%s%s%s` | %s | %s |\n", metric->name, labelled ? "{" : "", metric->labels, labelled ? "}" : "",
                        kind_names[metric->kind], metric->help);
  }
  return status;
}
