#include "support/test.h"

#include "support/sse.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

struct sse *sse_open(const char *address, const char *token, const char *path, const char *headers) {
  struct sse *sse = calloc(1, sizeof *sse);
  assert_non_null(sse);
  struct sockaddr_in peer = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  peer.sin_port = htons((uint16_t)strtol(strrchr(address, ':') + 1, NULL, 10));
  sse->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (sse->fd < 0 || connect(sse->fd, (struct sockaddr *)&peer, sizeof peer) != 0)
    fail_msg("cannot connect to %s: %s", address, strerror(errno));
  const char *request =
      text_format("GET %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nAccept: text/event-stream\r\n%s\r\n", path, token,
                  headers != NULL ? headers : "");
  assert_int_equal(send(sse->fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
  return sse;
}

void sse_close(struct sse *sse) {
  if (sse == NULL) return;
  close(sse->fd);
  for (size_t i = 0; i < sse->count; i++) free(sse->events[i].data);
  free(sse->events);
  free(sse->data);
  free(sse->text);
  free(sse);
}

static void take_event(struct sse *sse, int64_t id, const char *data, size_t length) {
  sse->events = realloc(sse->events, (sse->count + 1) * sizeof *sse->events);
  assert_non_null(sse->events);
  sse->events[sse->count].id = id;
  sse->events[sse->count].data = strndup(data, length);
  assert_non_null(sse->events[sse->count].data);
  sse->count++;
}

/* One block: lines up to an empty one. */
static void take_block(struct sse *sse, const char *block, size_t length) {
  int64_t id = -1;
  const char *data = NULL;
  size_t data_length = 0;
  for (const char *line = block; line < block + length;) {
    const char *end = memchr(line, '\n', (size_t)(block + length - line));
    assert_non_null(end);
    if (*line == ':')
      sse->comments++;
    else if (strncmp(line, "id: ", 4) == 0)
      id = strtoll(line + 4, NULL, 10);
    else if (strncmp(line, "data: ", 6) == 0)
      data = line + 6, data_length = (size_t)(end - data);
    else
      fail_msg("a strange line of a stream: %.*s", (int)(end - line), line);
    line = end + 1;
  }
  if (data != NULL) take_event(sse, id, data, data_length);
}

static void take_text(struct sse *sse, const char *text, size_t length) {
  sse->text = realloc(sse->text, sse->text_length + length + 1);
  assert_non_null(sse->text);
  memcpy(sse->text + sse->text_length, text, length);
  sse->text_length += length;
  sse->text[sse->text_length] = '\0';
  size_t at = 0;
  for (char *end; (end = strstr(sse->text + at, "\n\n")) != NULL; at = (size_t)(end + 2 - sse->text))
    take_block(sse, sse->text + at, (size_t)(end + 1 - (sse->text + at)));
  sse->text_length -= at;
  memmove(sse->text, sse->text + at, sse->text_length + 1);
}

static void drop(struct sse *sse, size_t length) {
  sse->length -= length;
  memmove(sse->data, sse->data + length, sse->length);
  sse->data[sse->length] = '\0';
}

static void parse_head(struct sse *sse) {
  char *end = strstr(sse->data, "\r\n\r\n");
  if (end == NULL) return;
  sse->status = (int)strtol(sse->data + strlen("HTTP/1.1 "), NULL, 10);
  sse->in_body = true;
  if (sse->status == 200) {
    end[2] = '\0';
    assert_non_null(strcasestr(sse->data, "content-type: text/event-stream\r\n"));
    assert_non_null(strcasestr(sse->data, "transfer-encoding: chunked\r\n"));
  }
  drop(sse, (size_t)(end + 4 - sse->data));
}

/* Whole chunks (RFC 9112 section 7.1). */
static void parse_chunks(struct sse *sse) {
  size_t at = 0;
  for (;;) {
    char *line_end = strstr(sse->data + at, "\r\n");
    if (line_end == NULL) break;
    size_t size = (size_t)strtoul(sse->data + at, NULL, 16);
    size_t begin = (size_t)(line_end + 2 - sse->data);
    if (sse->length < begin + size + 2) break;
    if (size == 0) {
      sse->ended = sse->complete = true;
      return;
    }
    take_text(sse, sse->data + begin, size);
    at = begin + size + 2;
  }
  drop(sse, at);
}

void sse_read(struct sse *sse) {
  while (!sse->ended) {
    if (sse->room - sse->length < 65536) {
      sse->room = sse->length + 131072;
      sse->data = realloc(sse->data, sse->room + 1);
      assert_non_null(sse->data);
    }
    ssize_t got = recv(sse->fd, sse->data + sse->length, sse->room - sse->length, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) {
      sse->ended = true;
      return;
    }
    sse->length += (size_t)got;
    sse->data[sse->length] = '\0';
    if (!sse->in_body) parse_head(sse);
    if (sse->in_body && sse->status == 200) parse_chunks(sse);
  }
}

static size_t count_now(struct sse *sse) {
  sse_read(sse);
  return sse->count;
}

void sse_wait(struct sse *sse, size_t count) {
  WAIT_UNTIL_TEXT(count_now(sse) >= count, 15000, text_format("%zu of %zu, status %d", sse->count, count, sse->status));
}

static bool started_now(struct sse *sse) {
  sse_read(sse);
  if (sse->status != 0 && sse->status != 200) fail_msg("the stream is refused: %d", sse->status);
  return sse->comments > 0;
}

void sse_wait_started(struct sse *sse) { WAIT_UNTIL(started_now(sse), 15000); }

static bool ended_now(struct sse *sse) {
  sse_read(sse);
  return sse->ended;
}

void sse_wait_ended(struct sse *sse, int64_t timeout_ms) { WAIT_UNTIL(ended_now(sse), timeout_ms); }
