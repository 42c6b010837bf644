#include "webhook/endpoint.h"

#include <stdio.h>
#include <stdlib.h>

enum status endpoint_new(struct webhook_settings *settings, int64_t now_us, struct endpoint **endpoint) {
  struct endpoint *new = calloc(1, sizeof *new);
  enum status status = new != NULL ? window_init(&new->window, settings->cursor) : STATUS_NO_MEMORY;
  if (status != STATUS_OK) {
    free(new);
    webhook_settings_free(settings);
    return status;
  }
  new->settings = *settings;
  *settings = (struct webhook_settings){0};
  new->health = health_begin(new->settings.attempts, new->settings.failing_ms, now_us);
  new->more = true;
  new->saved_us = now_us;
  new->saved_cursor = new->settings.cursor;
  *endpoint = new;
  return STATUS_OK;
}

void endpoint_free(struct endpoint *endpoint) {
  if (endpoint == NULL) return;
  window_free(&endpoint->window);
  webhook_settings_free(&endpoint->settings);
  free(endpoint);
}

int64_t endpoint_wants(const struct endpoint *endpoint) {
  size_t room = window_room(&endpoint->window);
  return endpoint->more && endpoint->stop == NULL && room >= WINDOW_MAX / 2 ? (int64_t)room : 0;
}

static bool is_wanted(const struct endpoint *endpoint, struct str type) {
  struct str list = buf_str(&endpoint->settings.types);
  while (list.len > 0) {
    const char *comma = memchr(list.data, ',', list.len);
    size_t len = comma != NULL ? (size_t)(comma - list.data) : list.len;
    if (str_equal((struct str){list.data, len}, type)) return true;
    len += comma != NULL ? 1 : 0;
    list = (struct str){list.data + len, list.len - len};
  }
  return false;
}

static bool was_delivered(struct endpoint *endpoint, int64_t seq) {
  const struct webhook_settings *settings = &endpoint->settings;
  while (endpoint->known < settings->delivered_count && settings->delivered[endpoint->known] < seq) endpoint->known++;
  return endpoint->known < settings->delivered_count && settings->delivered[endpoint->known] == seq;
}

static enum status add_event(struct endpoint *endpoint, const struct cloud_event *event, struct buf *scratch) {
  if (!is_wanted(endpoint, event->type)) return STATUS_OK;
  if (was_delivered(endpoint, event->seq)) return window_add_delivered(&endpoint->window, event->seq);
  buf_clear(scratch);
  enum status status = cloud_event_encode(scratch, event);
  return status == STATUS_OK ? window_add(&endpoint->window, event->seq, event->id, event->device, buf_str(scratch)) : status;
}

enum status endpoint_fill(struct endpoint *endpoint, const struct event_page *page, int64_t most, struct buf *scratch) {
  for (int i = 0; i < page->count; i++) {
    struct cloud_event event;
    enum status status = event_page_get(page, i, &event);
    if (status == STATUS_OK) status = add_event(endpoint, &event, scratch);
    if (status != STATUS_OK) return status;
    window_read_up_to(&endpoint->window, event.seq);
  }
  window_read_up_to(&endpoint->window, page->last);
  endpoint->more = page->count == most;
  return STATUS_OK;
}

struct window_entry *endpoint_next(const struct endpoint *endpoint, int64_t now_us) {
  if (endpoint->stop != NULL || !health_may_send(&endpoint->health, endpoint->sending, now_us)) return NULL;
  return window_next(&endpoint->window, now_us);
}

int64_t endpoint_next_due_us(const struct endpoint *endpoint) {
  if (endpoint->stop != NULL || endpoint->sending >= endpoint->health.concurrency) return INT64_MAX;
  int64_t due_us = window_next_due_us(&endpoint->window);
  return due_us > endpoint->health.blocked_until_us ? due_us : endpoint->health.blocked_until_us;
}

void endpoint_set_error(struct endpoint *endpoint, const char *error) {
  (void)snprintf(endpoint->error, sizeof endpoint->error, "%s", error);
  endpoint->changed = true;
}

/* Those of the window, and those loaded that have not been met yet. */
static size_t list_delivered(const struct endpoint *endpoint, int64_t seqs[WINDOW_MAX]) {
  const struct webhook_settings *settings = &endpoint->settings;
  size_t count = window_delivered_above(&endpoint->window, seqs);
  for (size_t i = endpoint->known; i < settings->delivered_count && count < WINDOW_MAX; i++)
    if (settings->delivered[i] > endpoint->window.read_seq) seqs[count++] = settings->delivered[i];
  return count;
}

struct webhook_progress endpoint_progress(const struct endpoint *endpoint, int64_t now_us, int64_t seqs[WINDOW_MAX]) {
  return (struct webhook_progress){.id = endpoint->settings.id,
                                   .version = endpoint->settings.version,
                                   .cursor = window_cursor(&endpoint->window),
                                   .delivered = seqs,
                                   .delivered_count = list_delivered(endpoint, seqs),
                                   .attempts = endpoint->health.attempts,
                                   .failing_ms = (now_us - endpoint->health.failing_since_us) / 1000,
                                   .error = endpoint->error,
                                   .succeeded = endpoint->succeeded};
}

void endpoint_saved(struct endpoint *endpoint, const struct webhook_progress *progress, int64_t now_us) {
  endpoint->changed = endpoint->succeeded = false;
  endpoint->error[0] = '\0';
  endpoint->saved_us = now_us;
  endpoint->saved_cursor = progress->cursor;
}
