#include "webhook/window.h"

#include <stdlib.h>

#include "hash.h"

enum status window_init(struct window *window, int64_t cursor) {
  *window = (struct window){.head = 1, .tail = 1, .read_seq = cursor};
  window->entries = calloc(WINDOW_MAX, sizeof *window->entries);
  return window->entries != NULL ? STATUS_OK : STATUS_NO_MEMORY;
}

void window_free(struct window *window) {
  for (size_t i = 0; window->entries != NULL && i < WINDOW_MAX; i++) buf_free(&window->entries[i].text);
  free(window->entries);
  *window = (struct window){0};
}

static struct window_entry *at(const struct window *window, uint64_t position) { return &window->entries[position % WINDOW_MAX]; }

static struct str entry_device(const struct window_entry *entry) {
  return (struct str){entry->text.data + entry->id_len, entry->device_len};
}

struct str window_entry_id(const struct window_entry *entry) {
  return (struct str){entry->text.data, entry->id_len};
}

struct str window_entry_body(const struct window_entry *entry) {
  size_t before = entry->id_len + entry->device_len;
  return (struct str){entry->text.data + before, entry->text.len - before};
}

static void move_head(struct window *window) {
  while (window->head < window->tail && at(window, window->head)->state == WINDOW_DELIVERED) window->head++;
}

/* The last undelivered event of the device that `entry`, the newest one, belongs to; NULL: none. */
static struct window_entry *find_before(const struct window *window, const struct window_entry *entry) {
  struct str device = entry_device(entry);
  for (uint64_t position = window->tail; position-- > window->head;) {
    struct window_entry *earlier = at(window, position);
    if (earlier->state != WINDOW_DELIVERED && earlier->device_hash == entry->device_hash &&
        str_equal(entry_device(earlier), device))
      return earlier;
  }
  return NULL;
}

enum status window_add(struct window *window, int64_t seq, struct str id, struct str device, struct str body) {
  if (window_room(window) == 0) return STATUS_FULL;
  struct window_entry *entry = at(window, window->tail);
  struct buf text = {0};
  enum status status = buf_reserve(&text, id.len + device.len + body.len);
  if (status == STATUS_OK) status = buf_append_str(&text, id);
  if (status == STATUS_OK) status = buf_append_str(&text, device);
  if (status == STATUS_OK) status = buf_append_str(&text, body);
  if (status != STATUS_OK) {
    buf_free(&text);
    return status;
  }
  *entry = (struct window_entry){
      .seq = seq, .text = text, .id_len = id.len, .device_len = device.len, .device_hash = hash_device(device)};
  struct window_entry *before = find_before(window, entry);
  if (before != NULL) {
    before->next = window->tail;
    entry->blocked = true;
  }
  window->tail++;
  window->read_seq = seq;
  return STATUS_OK;
}

enum status window_add_delivered(struct window *window, int64_t seq) {
  if (window_room(window) == 0) return STATUS_FULL;
  *at(window, window->tail) = (struct window_entry){.seq = seq, .state = WINDOW_DELIVERED};
  window->tail++;
  window->read_seq = seq;
  move_head(window);
  return STATUS_OK;
}

void window_read_up_to(struct window *window, int64_t seq) {
  if (seq > window->read_seq) window->read_seq = seq;
}

struct window_entry *window_next(const struct window *window, int64_t now_us) {
  for (uint64_t position = window->head; position < window->tail; position++) {
    struct window_entry *entry = at(window, position);
    if (entry->state == WINDOW_WAITING && !entry->blocked && entry->due_us <= now_us) return entry;
  }
  return NULL;
}

int64_t window_next_due_us(const struct window *window) {
  int64_t due_us = INT64_MAX;
  for (uint64_t position = window->head; position < window->tail; position++) {
    const struct window_entry *entry = at(window, position);
    if (entry->state == WINDOW_WAITING && !entry->blocked && entry->due_us < due_us) due_us = entry->due_us;
  }
  return due_us;
}

void window_sending(struct window_entry *entry) { entry->state = WINDOW_SENDING; }

void window_delivered(struct window *window, struct window_entry *entry) {
  entry->state = WINDOW_DELIVERED;
  buf_free(&entry->text);
  if (entry->next != 0) at(window, entry->next)->blocked = false;
  move_head(window);
}

void window_failed(struct window_entry *entry, int64_t due_us) {
  entry->state = WINDOW_WAITING;
  entry->attempts++;
  entry->due_us = due_us;
}

int64_t window_cursor(const struct window *window) {
  return window->head < window->tail ? at(window, window->head)->seq - 1 : window->read_seq;
}

size_t window_delivered_above(const struct window *window, int64_t seqs[WINDOW_MAX]) {
  size_t count = 0;
  for (uint64_t position = window->head; position < window->tail; position++) {
    const struct window_entry *entry = at(window, position);
    if (entry->state == WINDOW_DELIVERED) seqs[count++] = entry->seq;
  }
  return count;
}
