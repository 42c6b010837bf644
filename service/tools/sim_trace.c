#include "sim_trace.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

enum { LINE_MAX_BYTES = 64 * 1024, FIELDS_MAX = 64 };

struct sim_trace {
  gzFile file; /* reads plain files as they are */
  const char *path;
  size_t time_column, node_column;
  int64_t line_number;
  int64_t last_ms;
  char line[LINE_MAX_BYTES];
};

/* Parsers */

enum status sim_trace_time(struct str text, int64_t *time_ms) {
  static const int64_t year_10000_s = INT64_C(253402300800);
  const char *point = text.len > 0 ? memchr(text.data, '.', text.len) : NULL;
  struct str whole = {text.data, point != NULL ? (size_t)(point - text.data) : text.len};
  int64_t seconds = 0, ms = 0;
  if (str_to_int64(whole, &seconds) != STATUS_OK || seconds >= year_10000_s) return STATUS_INVALID;
  struct str fraction = STR_NONE;
  if (point != NULL) {
    fraction = (struct str){point + 1, text.len - whole.len - 1};
    if (fraction.len == 0) return STATUS_INVALID;
  }
  for (size_t i = 0; i < fraction.len; i++)
    if (fraction.data[i] < '0' || fraction.data[i] > '9') return STATUS_INVALID;
  for (size_t i = 0; i < 3; i++) ms = ms * 10 + (i < fraction.len ? fraction.data[i] - '0' : 0);
  *time_ms = seconds * 1000 + ms;
  return STATUS_OK;
}

/* One field from *at on, which moves behind it and its comma. */
static enum status take_field(char **at, char *end, struct str *field) {
  char *from = *at;
  if (from == end || *from != '"') {
    char *comma = memchr(from, ',', (size_t)(end - from));
    char *stop = comma != NULL ? comma : end;
    *field = (struct str){from, (size_t)(stop - from)};
    *at = stop;
    return STATUS_OK;
  }
  char *to = from; /* what is inside the quotes moves over the first one */
  *field = (struct str){to, 0};
  for (char *next = from + 1; next < end; next++) {
    if (*next != '"') {
      *to++ = *next;
    } else if (next + 1 < end && next[1] == '"') {
      *to++ = *next++;
    } else {
      field->len = (size_t)(to - from);
      *at = next + 1;
      return *at == end || **at == ',' ? STATUS_OK : STATUS_INVALID;
    }
  }
  return STATUS_INVALID; /* no closing quote */
}

enum status sim_trace_fields(char *line, size_t len, struct str *fields, size_t max, size_t *count) {
  char *at = line, *end = line + len;
  for (*count = 0; *count < max; at++) {
    enum status status = take_field(&at, end, &fields[(*count)++]);
    if (status != STATUS_OK || at == end) return status;
  }
  return STATUS_TOO_LARGE;
}

/* File */

static enum status refuse(const struct sim_trace *trace, const char *what, char **error) {
  struct buf message = {0};
  enum status status = buf_printf(&message, "%s:%lld: %s", trace->path, (long long)trace->line_number, what);
  if (status == STATUS_OK) status = buf_append(&message, "", 1);
  if (status == STATUS_OK) {
    *error = message.data;
    return STATUS_INVALID;
  }
  buf_free(&message);
  return status;
}

/* The next line's fields; STATUS_NOT_FOUND at the end. */
static enum status read_fields(struct sim_trace *trace, struct str fields[FIELDS_MAX], size_t *count, char **error) {
  if (gzgets(trace->file, trace->line, sizeof trace->line) == NULL) {
    int code = Z_OK;
    (void)gzerror(trace->file, &code);
    return code == Z_OK ? STATUS_NOT_FOUND : refuse(trace, "the file is damaged or cannot be read", error);
  }
  trace->line_number++;
  size_t len = strlen(trace->line);
  bool whole = len > 0 && trace->line[len - 1] == '\n';
  if (!whole && !gzeof(trace->file)) return refuse(trace, "a line over 64 KiB, or with a NUL", error);
  if (whole) len--;
  if (len > 0 && trace->line[len - 1] == '\r') len--;
  enum status status = sim_trace_fields(trace->line, len, fields, FIELDS_MAX, count);
  return status == STATUS_OK ? STATUS_OK : refuse(trace, "not CSV, or more than 64 columns", error);
}

static bool find_column(const struct str *fields, size_t count, const char *name, size_t *column) {
  for (*column = 0; *column < count; (*column)++)
    if (str_equal(fields[*column], str_from(name))) return true;
  return false;
}

static enum status read_header(struct sim_trace *trace, const char *column_time, const char *column_node, char **error) {
  struct str fields[FIELDS_MAX];
  size_t count = 0;
  trace->file = gzopen(trace->path, "rb");
  if (trace->file == NULL) return errno == 0 ? STATUS_NO_MEMORY : refuse(trace, "the file cannot be opened", error);
  enum status status = read_fields(trace, fields, &count, error);
  if (status == STATUS_NOT_FOUND) return refuse(trace, "the file is empty", error);
  if (status != STATUS_OK) return status;
  if (!find_column(fields, count, column_time, &trace->time_column))
    return refuse(trace, "no column called as --column-time says", error);
  if (!find_column(fields, count, column_node, &trace->node_column))
    return refuse(trace, "no column called as --column-node says", error);
  return STATUS_OK;
}

enum status sim_trace_open(const char *path, const char *column_time, const char *column_node, struct sim_trace **out,
                           char **error) {
  struct sim_trace *trace = calloc(1, sizeof *trace);
  *error = NULL;
  *out = NULL;
  if (trace == NULL) return STATUS_NO_MEMORY;
  trace->path = path;
  errno = 0;
  enum status status = read_header(trace, column_time, column_node, error);
  if (status == STATUS_OK)
    *out = trace;
  else
    sim_trace_close(trace);
  return status;
}

void sim_trace_close(struct sim_trace *trace) {
  if (trace == NULL) return;
  if (trace->file != NULL) (void)gzclose(trace->file);
  free(trace);
}

enum status sim_trace_next(struct sim_trace *trace, struct sim_message *message, char **error) {
  struct str fields[FIELDS_MAX];
  size_t count = 0;
  *error = NULL;
  enum status status = read_fields(trace, fields, &count, error);
  if (status != STATUS_OK) return status;
  if (trace->time_column >= count || trace->node_column >= count) return refuse(trace, "a column is missing", error);
  if (sim_trace_time(fields[trace->time_column], &message->time_ms) != STATUS_OK)
    return refuse(trace, "the time is no number of seconds since 1970", error);
  if (message->time_ms < trace->last_ms) return refuse(trace, "the time goes backward", error);
  trace->last_ms = message->time_ms;
  message->node = fields[trace->node_column];
  return STATUS_OK;
}
