#include "intake.h"

#include "api.h"
#include "device.h"
#include "results.h"

static void end_round(struct intake *intake);

static bool keep_detail(struct intake *intake, const struct record_outcome *outcome, int64_t now_ms) {
  struct intake_detail *detail = intake->detail;
  *detail = (struct intake_detail){.outcome = *outcome, .now_ms = now_ms};
  if (outcome->meta.len == 0) return true;
  char *copy = request_alloc(intake->request, outcome->meta.len);
  if (copy == NULL) return false;
  memcpy(copy, outcome->meta.data, outcome->meta.len);
  detail->outcome.meta.data = copy;
  return true;
}

static void unavailable(struct intake_item *item, enum status status) {
  item->verdict = INTAKE_UNAVAILABLE;
  item->status = status;
}

static void judge(struct intake_item *item, const struct record_outcome *outcome, int64_t now_ms) {
  struct intake *intake = item->intake;
  switch (outcome->code) {
  case RECORD_RENEWED:
  case RECORD_OPENED:
  case RECORD_REOPENED:
    item->verdict = INTAKE_ACCEPTED;
    if (intake->detail != NULL && !keep_detail(intake, outcome, now_ms)) unavailable(item, STATUS_NO_MEMORY);
    break;
  case RECORD_NOT_OPENED:
    item->verdict = INTAKE_NOT_OPENED;
    intake->not_opened++;
    break;
  case RECORD_BACKLOG: item->verdict = INTAKE_BACKLOG; break;
  case RECORD_LEFT: unavailable(item, STATUS_PROTOCOL); break; /* never: the batcher keeps them */
  case RECORD_STALE:
    item->verdict = INTAKE_STALE;
    intake->stale++;
    break;
  }
}

static void count(struct batcher *batcher, enum record_code code) {
  static const enum heartbeat_result results[] = {
      [RECORD_RENEWED] = RESULT_RENEWED, [RECORD_OPENED] = RESULT_OPENED, [RECORD_REOPENED] = RESULT_REOPENED};
  if (code <= RECORD_REOPENED) batcher_count(batcher, results[code], 1);
}

static void recorded(struct batcher_entry *entry, enum status status, const struct record_outcome *outcome, int64_t now_ms) {
  struct intake_item *item = (struct intake_item *)entry; /* its first member */
  struct intake *intake = item->intake;
  if (status == STATUS_OK) {
    judge(item, outcome, now_ms);
    count(intake->request->api->batcher, outcome->code);
  } else {
    unavailable(item, status);
  }
  if (--intake->waiting == 0) end_round(intake);
}

static void submit(struct intake_item *item) {
  _Static_assert(offsetof(struct intake_item, entry) == 0, "recorded() casts");
  struct intake *intake = item->intake;
  struct request *request = intake->request;
  const struct tenant *tenant = &request->tenant;
  struct record_item *record = &item->entry.item;
  struct device_place place = device_place(tenant, record->device, redis_target_partitions(request->api->shared->target));
  item->verdict = INTAKE_WAITING;
  item->entry.done = recorded;
  record->tenant = device_store_tenant(tenant);
  record->bucket = place.bucket;
  record->may_open = item->known || tenant->known_devices < tenant->max_devices;
  record->want_detail = intake->detail != NULL;
  intake->waiting++;
  enum status status = batcher_add(request->api->batcher, place.partition, &item->entry);
  if (status != STATUS_OK) {
    intake->waiting--;
    unavailable(item, status);
  }
}

/* Submits those with a verdict once more, or gives them another one. waiting is held up so that no round ends inside. */
static void submit_again(struct intake *intake, enum intake_verdict which) {
  intake->waiting++;
  for (struct intake_item *item = intake->items; item != NULL; item = item->next)
    if (item->verdict == which) submit(item);
  if (--intake->waiting == 0) end_round(intake);
}

static void give_up(struct intake *intake, enum intake_verdict which, enum intake_verdict verdict, enum status status) {
  for (struct intake_item *item = intake->items; item != NULL; item = item->next) {
    if (item->verdict == which) {
      item->verdict = verdict;
      item->status = status;
    }
  }
  end_round(intake);
}

/* ---- Old settings */

static void reloaded(struct tenant_reload *reload, enum status status) {
  struct intake *intake = (struct intake *)((char *)reload - offsetof(struct intake, reload));
  if (status == STATUS_OK)
    submit_again(intake, INTAKE_STALE);
  else
    give_up(intake, INTAKE_STALE, status == STATUS_NOT_FOUND ? INTAKE_GONE : INTAKE_UNAVAILABLE, STATUS_UNAVAILABLE);
}

static void reload_settings(struct intake *intake) {
  bool first = !intake->reloaded;
  intake->stale = 0;
  intake->reloaded = true;
  enum status status = first ? tenant_reload(&intake->reload, intake->request, reloaded) : STATUS_STALE;
  if (status != STATUS_OK) give_up(intake, INTAKE_STALE, INTAKE_UNAVAILABLE, status);
}

/* ---- New devices at the limit: one whose row exists is let in */

struct lookup {
  struct pg_job job;
  struct intake *intake;
  size_t count;
  struct str *devices;
  struct device_row *rows;
  enum status status;
};

static void look_up(struct pg_job *job, struct pg_client *client) {
  struct lookup *lookup = (struct lookup *)job; /* its first member */
  lookup->status = outbox_device_rows(client, lookup->intake->request->tenant_id, lookup->devices, lookup->count, lookup->rows);
}

static void looked_up(struct pg_job *job) {
  struct lookup *lookup = (struct lookup *)job;
  struct intake *intake = lookup->intake;
  size_t i = 0;
  for (struct intake_item *item = intake->items; item != NULL; item = item->next) {
    if (item->verdict != INTAKE_NOT_OPENED) continue;
    struct device_row *row = &lookup->rows[i++];
    item->known = lookup->status == STATUS_OK && row->found;
    if (!item->known) item->verdict = INTAKE_DEVICE_LIMIT;
    if (lookup->status != STATUS_OK) unavailable(item, lookup->status);
    buf_free(&row->meta);
  }
  submit_again(intake, INTAKE_NOT_OPENED);
}

static struct lookup *lookup_new(struct intake *intake, size_t count) {
  _Static_assert(offsetof(struct lookup, job) == 0, "look_up() casts");
  struct lookup *lookup = request_alloc(intake->request, sizeof *lookup);
  if (lookup == NULL) return NULL;
  *lookup = (struct lookup){.intake = intake, .status = STATUS_UNAVAILABLE};
  lookup->job = (struct pg_job){.work = look_up, .done = looked_up, .loop = intake->request->api->loop};
  lookup->devices = request_alloc(intake->request, count * sizeof lookup->devices[0]);
  lookup->rows = request_alloc(intake->request, count * sizeof lookup->rows[0]);
  if (lookup->devices == NULL || lookup->rows == NULL) return NULL;
  for (struct intake_item *item = intake->items; item != NULL; item = item->next)
    if (item->verdict == INTAKE_NOT_OPENED) lookup->devices[lookup->count++] = item->entry.item.device;
  return lookup;
}

static void look_for_rows(struct intake *intake) {
  size_t devices = intake->not_opened;
  bool first = !intake->looked_up;
  intake->not_opened = 0;
  intake->looked_up = true;
  if (!first) { /* the limit was reached between the rounds */
    give_up(intake, INTAKE_NOT_OPENED, INTAKE_DEVICE_LIMIT, STATUS_OK);
    return;
  }
  struct lookup *lookup = lookup_new(intake, devices);
  enum status status = lookup == NULL ? STATUS_NO_MEMORY : pg_pool_submit(intake->request->api->shared->pool, &lookup->job);
  if (status != STATUS_OK) give_up(intake, INTAKE_NOT_OPENED, INTAKE_UNAVAILABLE, status);
}

/* ---- Rounds */

static void end_round(struct intake *intake) {
  if (intake->stale > 0)
    reload_settings(intake);
  else if (intake->not_opened > 0)
    look_for_rows(intake);
  else
    intake->finish(intake);
}

void intake_start(struct intake *intake) {
  intake->waiting = intake->stale = intake->not_opened = 0;
  intake->reloaded = intake->looked_up = false;
  for (struct intake_item *item = intake->items; item != NULL; item = item->next) item->intake = intake;
  submit_again(intake, INTAKE_WAITING);
}
