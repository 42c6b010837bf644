/* endpoint.h: one webhook in the memory of the worker that serves it. One thread. */
#ifndef PRESENCE_WEBHOOK_ENDPOINT_H
#define PRESENCE_WEBHOOK_ENDPOINT_H

#include "events/event_read.h"
#include "webhook/health.h"
#include "webhook/sender.h"
#include "webhook/store.h"
#include "webhook/window.h"

struct endpoint {
  struct webhook_settings settings;
  struct window window;
  struct health health;
  bool more;        /* its tenant may have rows that are not in the window */
  unsigned sending; /* requests under way */
  size_t known;     /* of settings.delivered: how many have been met while reading */
  const char *stop; /* why it is to be paused: "failing", "gone", "expired"; NULL: it is not */
  bool told;        /* that it fails has been logged */
  bool changed;     /* there is something to save */
  bool succeeded;   /* a request since the last save */
  int64_t saved_us; /* monotonic */
  int64_t saved_cursor;
  char error[SENDER_ERROR_MAX]; /* of the last request that failed since the last save; "": none did */
};

/* Takes what settings holds over, also when it fails. */
enum status endpoint_new(struct webhook_settings *settings, int64_t now_us, struct endpoint **endpoint) MUST_CHECK;
void endpoint_free(struct endpoint *endpoint);

/* How many rows it wants: many at once, or none. */
int64_t endpoint_wants(const struct endpoint *endpoint);
/* Puts a page of rows behind read_seq, of at most so many, into the window. */
enum status endpoint_fill(struct endpoint *endpoint, const struct event_page *page, int64_t most, struct buf *scratch) MUST_CHECK;

/* The event to send now; NULL: none. */
struct window_entry *endpoint_next(const struct endpoint *endpoint, int64_t now_us);
/* When that may change by itself. */
int64_t endpoint_next_due_us(const struct endpoint *endpoint);

void endpoint_set_error(struct endpoint *endpoint, const char *error);
/* What there is to save; seqs: for its delivered ones. */
struct webhook_progress endpoint_progress(const struct endpoint *endpoint, int64_t now_us, int64_t seqs[WINDOW_MAX]);
void endpoint_saved(struct endpoint *endpoint, const struct webhook_progress *progress, int64_t now_us);

#endif
