/* question.h: GET /v1/tenants/{t}/events, taken apart by handle_events.c and answered by poll.c or stream.c. */
#ifndef PRESENCE_EVENTS_QUESTION_H
#define PRESENCE_EVENTS_QUESTION_H

#include "api.h"
#include "events.h"
#include "http.h"

struct events_question {
  int64_t after; /* -1: not given */
  int64_t limit;
  int64_t wait_ms;
};

/* A page; where it is empty and there is time to wait, the next events when they come. */
void events_poll(struct request *request, const struct events_question *question);
/* Server-Sent Events. */
void events_stream(struct request *request, const struct events_question *question);
/* The answer where the outbox could not be read. expired: what PostgreSQL said to STATUS_NOT_FOUND. */
void events_reply_failure(struct request *request, enum status status, struct str expired);

#endif
