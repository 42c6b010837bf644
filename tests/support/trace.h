/* trace.h: recorded arrival times of real heartbeats, gzip-compressed lines "t_unix,node_id" sorted by time, as in the test
 * data's folder traces. */
#ifndef PRESENCE_TEST_TRACE_H
#define PRESENCE_TEST_TRACE_H

#include <stddef.h>
#include <stdint.h>

#define TRACE_NODES_MAX 256

struct trace_message {
  int64_t at_ms;
  unsigned node; /* < TRACE_NODES_MAX */
};

struct trace {
  struct trace_message *messages;
  size_t count;
  unsigned nodes; /* different ones */
};

struct trace trace_read(const char *path); /* fails the test on anything odd */
void trace_free(struct trace *trace);
/* Silences longer than timeout_ms between two messages of a node. */
size_t trace_gaps(const struct trace *trace, int64_t timeout_ms);
/* The history that a timeout makes of one node: "start-end start-end …" with end = last message + timeout_ms. malloc'd. */
char *trace_history(const struct trace *trace, unsigned node, int64_t timeout_ms);

#endif
