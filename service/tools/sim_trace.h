/* sim_trace.h: a trace of messages: CSV (RFC 4180) with a header line, plain or gzip (RFC 1952). */
#ifndef PRESENCE_SIM_TRACE_H
#define PRESENCE_SIM_TRACE_H

#include <stdint.h>

#include "status.h"
#include "str.h"

struct sim_trace;

/* Opens the file and finds the columns in its header. STATUS_INVALID: *error is one clear line (malloc'd, the caller frees). */
enum status sim_trace_open(const char *path, const char *column_time, const char *column_node, struct sim_trace **trace,
                           char **error) MUST_CHECK;
void sim_trace_close(struct sim_trace *trace);

struct sim_message {
  int64_t time_ms; /* since 1970 */
  struct str node; /* inside the trace, until the next call */
};
/* STATUS_NOT_FOUND: the end. STATUS_INVALID: *error names the line. Times may not go backward. */
enum status sim_trace_next(struct sim_trace *trace, struct sim_message *message, char **error) MUST_CHECK;

/* The parsers, for tests. */

/* "1163438041.250": seconds since 1970, to the millisecond, further digits dropped. Before the year 10000. */
enum status sim_trace_time(struct str text, int64_t *time_ms) MUST_CHECK;
/* Takes the fields of a line, without its end, apart and unquotes them in place. STATUS_TOO_LARGE: more than max fields. */
enum status sim_trace_fields(char *line, size_t len, struct str *fields, size_t max, size_t *count) MUST_CHECK;

#endif
