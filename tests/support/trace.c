#include "support/test.h"

#include "support/trace.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* "1163438041.250" -> 1163438041250, digit by digit: no rounding. */
static int64_t parse_ms(const char *text, char **end) {
  int64_t ms = strtoll(text, end, 10) * 1000;
  if (**end != '.') return ms;
  int64_t unit = 100;
  for ((*end)++; **end >= '0' && **end <= '9'; (*end)++, unit /= 10) ms += (**end - '0') * unit;
  return ms;
}

static void add(struct trace *trace, size_t *room, struct trace_message message) {
  if (trace->count == *room) {
    *room = *room == 0 ? 8192 : *room * 2;
    trace->messages = realloc(trace->messages, *room * sizeof *trace->messages);
    assert_non_null(trace->messages);
  }
  trace->messages[trace->count++] = message;
}

struct trace trace_read(const char *path) {
  struct trace trace = {0};
  size_t room = 0;
  bool known[TRACE_NODES_MAX] = {false};
  gzFile file = gzopen(path, "rb");
  assert_non_null(file);
  char line[128];
  assert_non_null(gzgets(file, line, sizeof line));
  assert_int_equal(strncmp(line, "t_unix,node_id", 14), 0);
  while (gzgets(file, line, sizeof line) != NULL) {
    char *end;
    struct trace_message message = {.at_ms = parse_ms(line, &end)};
    assert_int_equal(*end, ',');
    message.node = (unsigned)strtoul(end + 1, &end, 10);
    assert_true((*end == '\n' || *end == '\r') && message.node < TRACE_NODES_MAX);
    assert_true(trace.count == 0 || message.at_ms >= trace.messages[trace.count - 1].at_ms);
    add(&trace, &room, message);
    trace.nodes += !known[message.node];
    known[message.node] = true;
  }
  gzclose(file);
  return trace;
}

void trace_free(struct trace *trace) {
  free(trace->messages);
  *trace = (struct trace){0};
}

size_t trace_gaps(const struct trace *trace, int64_t timeout_ms) {
  int64_t last_ms[TRACE_NODES_MAX] = {0};
  size_t gaps = 0;
  for (size_t i = 0; i < trace->count; i++) {
    const struct trace_message *message = &trace->messages[i];
    if (last_ms[message->node] != 0 && message->at_ms - last_ms[message->node] > timeout_ms) gaps++;
    last_ms[message->node] = message->at_ms;
  }
  return gaps;
}

char *trace_history(const struct trace *trace, unsigned node, int64_t timeout_ms) {
  char *text = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&text, &length);
  assert_non_null(out);
  int64_t last_ms = 0;
  for (size_t i = 0; i < trace->count; i++) {
    if (trace->messages[i].node != node) continue;
    int64_t at_ms = trace->messages[i].at_ms;
    if (last_ms == 0)
      fprintf(out, "%" PRId64 "-", at_ms);
    else if (at_ms - last_ms > timeout_ms)
      fprintf(out, "%" PRId64 " %" PRId64 "-", last_ms + timeout_ms, at_ms);
    last_ms = at_ms;
  }
  if (last_ms != 0) fprintf(out, "%" PRId64, last_ms + timeout_ms);
  fclose(out);
  return text;
}
