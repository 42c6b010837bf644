/* log.h: one line an event, as logfmt or JSON, on stderr. Any thread. Secrets are never passed in.
 *
 *   log_info("listening", LOG_STR("address", text), LOG_INT("port", port));
 */
#ifndef PRESENCE_LOG_H
#define PRESENCE_LOG_H

#include <stdint.h>

#include "str.h"

enum log_level { LOG_LEVEL_DEBUG, LOG_LEVEL_INFO, LOG_LEVEL_WARN, LOG_LEVEL_ERROR };
enum log_format { LOG_FORMAT_LOGFMT, LOG_FORMAT_JSON };

struct log_field {
  const char *key;
  enum { LOG_FIELD_STR, LOG_FIELD_INT } kind;
  struct str text;
  int64_t number;
};

#define LOG_STR(k, cstring) ((struct log_field){.key = (k), .kind = LOG_FIELD_STR, .text = str_from(cstring)})
#define LOG_TEXT(k, s) ((struct log_field){.key = (k), .kind = LOG_FIELD_STR, .text = (s)})
#define LOG_INT(k, n) ((struct log_field){.key = (k), .kind = LOG_FIELD_INT, .number = (int64_t)(n)})

#define log_at(level, event, ...)                                                                                                \
  log_write((level), (event), (const struct log_field[]){__VA_ARGS__},                                                           \
            sizeof((const struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field))
#define log_debug(event, ...) log_at(LOG_LEVEL_DEBUG, event, __VA_ARGS__)
#define log_info(event, ...) log_at(LOG_LEVEL_INFO, event, __VA_ARGS__)
#define log_warn(event, ...) log_at(LOG_LEVEL_WARN, event, __VA_ARGS__)
#define log_error(event, ...) log_at(LOG_LEVEL_ERROR, event, __VA_ARGS__)

/* Before other threads start; stderr is looked at then. */
void log_init(enum log_level level, enum log_format format);
/* Values are escaped, control characters too; one write a line. Under systemd's journal each line also has its priority. */
void log_write(enum log_level level, const char *event, const struct log_field *fields, size_t count);

/* At most one line per interval for a repeating event, with the number left out. Zero-initialised; one thread each. */
struct log_limit {
  int64_t next_us;
  int64_t suppressed;
};
/* True when the caller may log now; *suppressed = lines left out since the last one. */
int log_limit_pass(struct log_limit *limit, int64_t now_us, int64_t interval_us, int64_t *suppressed);

#endif
