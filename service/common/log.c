#include "log.h"

#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"

/* A line is built on the stack and is at most PIPE_BUF bytes long: writes of that size to a pipe are never mixed with
 * another thread's or process's (write(2), pipe(7)). What does not fit is cut, and the line says so. */
enum { LINE_MAX_BYTES = PIPE_BUF, VALUE_MAX_BYTES = 1024, TAIL_BYTES = 32 };

struct line {
  char bytes[LINE_MAX_BYTES];
  size_t len;
  bool full; /* something was left out since the flag was last cleared */
};

static enum log_level log_least = LOG_LEVEL_INFO;
static enum log_format log_style = LOG_FORMAT_LOGFMT;
static bool log_to_journal;

/* systemd names the stream that it made by device and inode (systemd.exec(5)): stderr may be another one by now. */
static bool stderr_is_journal(void) {
  const char *stream = getenv("JOURNAL_STREAM");
  struct stat file;
  char name[48];
  if (stream == NULL || fstat(STDERR_FILENO, &file) < 0) return false;
  snprintf(name, sizeof name, "%llu:%llu", (unsigned long long)file.st_dev, (unsigned long long)file.st_ino);
  return strcmp(stream, name) == 0;
}

void log_init(enum log_level level, enum log_format format) {
  log_least = level;
  log_style = format;
  log_to_journal = stderr_is_journal();
}

static const char *level_name(enum log_level level) {
  switch (level) {
  case LOG_LEVEL_DEBUG: return "debug";
  case LOG_LEVEL_INFO: return "info";
  case LOG_LEVEL_WARN: return "warn";
  case LOG_LEVEL_ERROR: return "error";
  }
  return "error";
}

/* syslog's levels, as the journal reads and removes them at a line's beginning (sd-daemon(3)). */
static const char *priority(enum log_level level) {
  switch (level) {
  case LOG_LEVEL_DEBUG: return "<7>";
  case LOG_LEVEL_INFO: return "<6>";
  case LOG_LEVEL_WARN: return "<4>";
  case LOG_LEVEL_ERROR: return "<3>";
  }
  return "<3>";
}

static void put(struct line *line, struct str text) {
  if (line->full || text.len > sizeof line->bytes - TAIL_BYTES - line->len) {
    line->full = true;
    return;
  }
  memcpy(line->bytes + line->len, text.data, text.len);
  line->len += text.len;
}

static void put_int(struct line *line, int64_t number) {
  char digits[24];
  int len = snprintf(digits, sizeof digits, "%lld", (long long)number);
  put(line, (struct str){digits, (size_t)len});
}

/* C0, DEL and the C1 controls (U+0080..U+009F, encoded C2 80..C2 9F) can drive a terminal. */
static bool is_control(struct str sequence) {
  unsigned char first = (unsigned char)sequence.data[0];
  return first < 0x20 || first == 0x7F || (sequence.len == 2 && first == 0xC2 && (unsigned char)sequence.data[1] < 0xA0);
}

/* The character at the start of text, as it stands inside a JSON string. Returns how many bytes of text it took. */
static size_t put_character(struct line *line, struct str text) {
  size_t size = str_utf8_sequence(text);
  if (size == 0) {
    put(line, STR_LIT("\\ufffd"));
    return 1;
  }
  char escaped[8];
  if (is_control((struct str){text.data, size}) && (unsigned char)text.data[0] >= 0x20) {
    int len = snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned)(unsigned char)text.data[size - 1]);
    put(line, (struct str){escaped, (size_t)len});
  } else if (size == 1) {
    put(line, (struct str){escaped, str_json_escape((unsigned char)text.data[0], escaped)});
  } else {
    put(line, (struct str){text.data, size});
  }
  return size;
}

static void put_quoted(struct line *line, struct str text) {
  put(line, STR_LIT("\""));
  size_t limit = line->len + VALUE_MAX_BYTES;
  while (text.len > 0 && !line->full) {
    if (line->len >= limit) {
      put(line, STR_LIT("…"));
      break;
    }
    size_t used = put_character(line, text);
    text.data += used;
    text.len -= used;
  }
  put(line, STR_LIT("\""));
}

/* logfmt has no standard of its own; this follows its common reading: bare words where nothing needs quotes. */
static bool needs_quotes(struct str text) {
  if (text.len == 0 || text.len > VALUE_MAX_BYTES) return true;
  for (size_t i = 0; i < text.len; i++) {
    unsigned char byte = (unsigned char)text.data[i];
    if (byte <= ' ' || byte >= 0x7F || byte == '"' || byte == '=' || byte == '\\') return true;
  }
  return false;
}

static void put_key(struct line *line, const char *key) {
  bool json = log_style == LOG_FORMAT_JSON;
  if (line->len > 0)
    put(line, json ? STR_LIT(",") : STR_LIT(" "));
  else if (json)
    put(line, STR_LIT("{"));
  if (json)
    put_quoted(line, str_from(key));
  else
    put(line, str_from(key));
  put(line, json ? STR_LIT(":") : STR_LIT("="));
}

static void put_text_field(struct line *line, const char *key, struct str text) {
  put_key(line, key);
  if (log_style == LOG_FORMAT_JSON || needs_quotes(text))
    put_quoted(line, text);
  else
    put(line, text);
}

static void put_time(struct line *line) {
  int64_t now_ms = clock_realtime_ms(clock_system());
  time_t seconds = (time_t)(now_ms / 1000);
  struct tm parts;
  char text[64];
  if (gmtime_r(&seconds, &parts) == NULL) return;
  size_t len = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  int more = snprintf(text + len, sizeof text - len, ".%03dZ", (int)(now_ms % 1000));
  put_text_field(line, "ts", (struct str){text, len + (size_t)more});
}

static void put_fields(struct line *line, const struct log_field *fields, size_t count) {
  int64_t omitted = 0;
  for (size_t i = 0; i < count; i++) {
    size_t before = line->len;
    if (fields[i].kind == LOG_FIELD_STR) {
      put_text_field(line, fields[i].key, fields[i].text);
    } else {
      put_key(line, fields[i].key);
      put_int(line, fields[i].number);
    }
    if (line->full) { /* half a field would break the line's syntax */
      line->len = before;
      line->full = false;
      omitted++;
    }
  }
  if (omitted > 0) {
    char tail[TAIL_BYTES];
    int len = log_style == LOG_FORMAT_JSON ? snprintf(tail, sizeof tail, ",\"omitted\":%lld", (long long)omitted)
                                           : snprintf(tail, sizeof tail, " omitted=%lld", (long long)omitted);
    memcpy(line->bytes + line->len, tail, (size_t)len); /* into the space that put() keeps free */
    line->len += (size_t)len;
  }
}

void log_write(enum log_level level, const char *event, const struct log_field *fields, size_t count) {
  if (level < log_least) return;
  int saved_errno = errno;
  struct line line;
  line.len = 0;
  line.full = false;
  put_time(&line);
  put_text_field(&line, "level", str_from(level_name(level)));
  put_text_field(&line, "event", str_from(event));
  put_fields(&line, fields, count);
  if (log_style == LOG_FORMAT_JSON) line.bytes[line.len++] = '}';
  line.bytes[line.len++] = '\n';
  struct iovec parts[] = {{(char *)priority(level), log_to_journal ? 3 : 0}, {line.bytes, line.len}};
  /* A full pipe or a closed stderr loses the line: the service goes on. */
  while (writev(STDERR_FILENO, parts, 2) < 0 && errno == EINTR) {
  }
  errno = saved_errno;
}

int log_limit_pass(struct log_limit *limit, int64_t now_us, int64_t interval_us, int64_t *suppressed) {
  if (now_us < limit->next_us) {
    limit->suppressed++;
    return 0;
  }
  *suppressed = limit->suppressed;
  limit->suppressed = 0;
  limit->next_us = now_us + interval_us;
  return 1;
}
