/* sse.h: clients of an event stream (https://html.spec.whatwg.org/multipage/server-sent-events.html), as many as the test likes:
 * they are read when the test asks for it. */
#ifndef PRESENCE_TEST_SSE_H
#define PRESENCE_TEST_SSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sse_event {
  int64_t id;
  char *data; /* JSON text */
};

struct sse {
  int fd;
  int status;    /* of the answer; 0: not there yet */
  bool ended;    /* the stream has ended, in good order or not */
  bool complete; /* in good order */
  size_t comments;
  size_t count;
  struct sse_event *events;
  /* private */
  char *data;
  size_t length, room;
  bool in_body;
  char *text; /* of the body, what is no whole event yet */
  size_t text_length;
};

/* Sends the request; headers: further lines, each closed by \r\n. */
struct sse *sse_open(const char *address, const char *token, const char *path, const char *headers);
void sse_read(struct sse *sse);               /* what is there; never waits */
void sse_wait(struct sse *sse, size_t count); /* until it has had so many events */
void sse_wait_started(struct sse *sse);       /* until it has had its first comment */
void sse_wait_ended(struct sse *sse, int64_t timeout_ms);
void sse_close(struct sse *sse);

#endif
