#include "worker/online_gauge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "metrics.h"
#include "session.h"

struct figure {
  char tenant[TENANT_ID_MAX + 1];
  int64_t sum;
  struct metric_series *series;
};

void online_gauge_free(struct online_gauge *gauge) {
  free(gauge->figures);
  *gauge = (struct online_gauge){0};
}

/* Where the tenant is, or belongs. */
static size_t position(const struct online_gauge *gauge, const char *tenant, bool *found) {
  size_t low = 0, high = gauge->count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (strcmp(gauge->figures[middle].tenant, tenant) < 0) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  *found = low < gauge->count && strcmp(gauge->figures[low].tenant, tenant) == 0;
  return low;
}

static enum status insert(struct online_gauge *gauge, size_t at, const char *tenant) {
  if (gauge->count == gauge->capacity) {
    size_t capacity = gauge->capacity == 0 ? 16 : 2 * gauge->capacity;
    struct figure *figures = realloc(gauge->figures, capacity * sizeof *figures);
    if (figures == NULL) return STATUS_NO_MEMORY;
    gauge->figures = figures;
    gauge->capacity = capacity;
  }
  memmove(&gauge->figures[at + 1], &gauge->figures[at], (gauge->count - at) * sizeof *gauge->figures);
  gauge->count++;
  struct figure *figure = &gauge->figures[at];
  *figure = (struct figure){.series = metrics_series(METRIC_ONLINE, tenant)};
  snprintf(figure->tenant, sizeof figure->tenant, "%s", tenant);
  return STATUS_OK;
}

static enum status figure_of(struct online_gauge *gauge, struct str id, struct figure **figure) {
  char tenant[TENANT_ID_MAX + 1];
  bool found;
  if (!tenant_id_valid(id)) return STATUS_PROTOCOL;
  memcpy(tenant, id.data, id.len);
  tenant[id.len] = '\0';
  size_t at = position(gauge, tenant, &found);
  if (!found) {
    enum status status = insert(gauge, at, tenant);
    if (status != STATUS_OK) return status;
  }
  *figure = &gauge->figures[at];
  return STATUS_OK;
}

void online_gauge_begin(struct online_gauge *gauge) {
  for (size_t i = 0; i < gauge->count; i++) {
    gauge->figures[i].sum = 0;
  }
}

static int64_t count_of(const redisReply *reply) {
  if (reply->type == REDIS_REPLY_INTEGER) return reply->integer;
  return reply->type == REDIS_REPLY_STRING ? strtoll(reply->str, NULL, 10) : 0;
}

enum status online_gauge_add(struct online_gauge *gauge, const redisReply *reply) {
  if (reply->type != REDIS_REPLY_ARRAY || reply->elements % 2 != 0) return STATUS_PROTOCOL;
  for (size_t i = 0; i + 1 < reply->elements; i += 2) {
    const redisReply *tenant = reply->element[i], *count = reply->element[i + 1];
    struct figure *figure;
    if (tenant->type != REDIS_REPLY_STRING) return STATUS_PROTOCOL;
    enum status status = figure_of(gauge, (struct str){tenant->str, tenant->len}, &figure);
    if (status != STATUS_OK) return status;
    figure->sum += count_of(count);
  }
  return STATUS_OK;
}

void online_gauge_commit(struct online_gauge *gauge) {
  for (size_t i = 0; i < gauge->count; i++) {
    metric_set(gauge->figures[i].series, (double)gauge->figures[i].sum);
  }
}
