#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "options.h"

enum { FILE_MAX_BYTES = 64 * 1024, SHOWN_MAX_BYTES = 100 };

/* Messages. A message that cannot be built for want of memory leaves *error NULL and STATUS_NO_MEMORY. */

/* text in a message: one line, of bounded length, whatever it holds. */
static enum status append_shown(struct buf *out, struct str text) {
  enum status status = STATUS_OK;
  size_t limit = text.len < SHOWN_MAX_BYTES ? text.len : SHOWN_MAX_BYTES;
  for (size_t i = 0; i < limit && status == STATUS_OK; i++) {
    char shown = text.data[i];
    if ((unsigned char)shown < 0x20 || (unsigned char)shown >= 0x7f) shown = '?';
    status = buf_append(out, &shown, 1);
  }
  if (status == STATUS_OK && text.len > limit) status = buf_append_str(out, STR_LIT("..."));
  return status;
}

/* STATUS_INVALID with "<before><text><after>" as the message; takes what is in *message along. */
static enum status refuse(struct buf *message, const char *before, struct str text, const char *after, char **error) {
  enum status status = buf_append_str(message, str_from(before));
  if (status == STATUS_OK) status = append_shown(message, text);
  if (status == STATUS_OK) status = buf_append(message, after, strlen(after) + 1);
  if (status == STATUS_OK) {
    *error = message->data;
    return STATUS_INVALID;
  }
  buf_free(message);
  return status;
}

static enum status refuse_plain(const char *before, struct str text, const char *after, char **error) {
  struct buf message = {0};
  return refuse(&message, before, text, after, error);
}

/* One value from anywhere. source is how the place calls the option: "--outage-ms", "PRESENCE_OUTAGE_MS", "f.conf:3: outage_ms".
 */
static enum status read_value(struct config *config, enum option_id id, const char *source, struct str text, char **error) {
  const struct option *option = &OPTIONS[id];
  enum status status = option->type->read(option, text, (char *)config + option->offset);
  if (status != STATUS_INVALID) return status;
  struct buf message = {0};
  status = buf_append_str(&message, str_from(source));
  if (status == STATUS_OK && !option->type->secret) status = buf_append_str(&message, STR_LIT(" = "));
  if (status == STATUS_OK && !option->type->secret) status = append_shown(&message, text);
  if (status == STATUS_OK) status = buf_append_str(&message, STR_LIT(": not allowed; allowed: "));
  if (status == STATUS_OK) status = option_allowed(option, &message);
  if (status == STATUS_OK) return refuse(&message, "", STR_NONE, "", error);
  buf_free(&message);
  return status;
}

/* Defaults */

enum status config_read_defaults(struct config *config) {
  char *error = NULL;
  enum status status = STATUS_OK;
  for (int id = 0; id < OPTION_COUNT && status == STATUS_OK; id++)
    status = read_value(config, (enum option_id)id, OPTIONS[id].name, str_from(OPTIONS[id].default_value), &error);
  free(error); /* a default that is not allowed: the unit test of the table fails */
  return status;
}

/* File */

static struct str trim(struct str text) {
  while (text.len > 0 && isspace((unsigned char)text.data[0])) {
    text.data++;
    text.len--;
  }
  while (text.len > 0 && isspace((unsigned char)text.data[text.len - 1])) text.len--;
  return text;
}

/* A # starts a comment at the start of a line and after a blank: "redis://:a#b@host" is left whole. */
static struct str without_comment(struct str line) {
  for (size_t i = 0; i < line.len; i++)
    if (line.data[i] == '#' && (i == 0 || isspace((unsigned char)line.data[i - 1]))) return (struct str){line.data, i};
  return line;
}

static enum status read_line(struct config *config, const char *where, struct str line, bool seen[OPTION_COUNT], char **error) {
  line = trim(without_comment(line));
  if (line.len == 0) return STATUS_OK;
  const char *equals = memchr(line.data, '=', line.len);
  struct buf message = {0};
  enum status status = buf_append_str(&message, str_from(where));
  if (status != STATUS_OK) return status;
  if (equals == NULL)
    return refuse(&message, " no = in this line: ", line, "; allowed: lines like listen = 127.0.0.1:8080", error);
  struct str key = trim((struct str){line.data, (size_t)(equals - line.data)});
  struct str value = trim((struct str){equals + 1, line.len - (size_t)(equals + 1 - line.data)});
  enum option_id id = option_find(key);
  if (id == OPTION_COUNT) return refuse(&message, " unknown option ", key, "; allowed: those that --help lists", error);
  if (seen[id]) return refuse(&message, " ", key, " a second time", error);
  seen[id] = true;
  status = buf_printf(&message, " %s", OPTIONS[id].name);
  if (status == STATUS_OK) status = buf_append(&message, "", 1);
  if (status == STATUS_OK) status = read_value(config, id, message.data, value, error);
  buf_free(&message);
  return status;
}

enum status config_read_text(struct config *config, const char *name, struct str text, char **error) {
  bool seen[OPTION_COUNT] = {false};
  *error = NULL;
  for (int number = 1; text.len > 0; number++) {
    const char *end = memchr(text.data, '\n', text.len);
    size_t len = end != NULL ? (size_t)(end - text.data) : text.len;
    struct buf where = {0};
    enum status status = append_shown(&where, str_from(name));
    if (status == STATUS_OK) status = buf_printf(&where, ":%d:", number);
    if (status == STATUS_OK) status = buf_append(&where, "", 1);
    if (status == STATUS_OK) status = read_line(config, where.data, (struct str){text.data, len}, seen, error);
    buf_free(&where);
    if (status != STATUS_OK) return status;
    size_t used = end != NULL ? len + 1 : len;
    text.data += used;
    text.len -= used;
  }
  return STATUS_OK;
}

static enum status read_whole(int fd, struct buf *out) {
  for (;;) {
    enum status status = buf_reserve(out, 4096);
    if (status != STATUS_OK) return status;
    ssize_t count = read(fd, out->data + out->len, 4096);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return STATUS_IO;
    if (count == 0) return STATUS_OK;
    out->len += (size_t)count;
    if (out->len > FILE_MAX_BYTES) return STATUS_TOO_LARGE;
  }
}

static enum status read_file(struct config *config, const char *path, char **error) {
  struct buf text = {0};
  enum status status = STATUS_IO;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd >= 0) status = read_whole(fd, &text);
  if (status == STATUS_IO)
    status = refuse_plain("--config ", str_from(path), errno == ENOENT ? ": no such file" : ": cannot be read", error);
  else if (status == STATUS_TOO_LARGE)
    status = refuse_plain("--config ", str_from(path), ": too large; allowed: 65536 bytes", error);
  else if (status == STATUS_OK)
    status = config_read_text(config, path, buf_str(&text), error);
  if (fd >= 0) close(fd);
  buf_free(&text);
  return status;
}

/* Environment */

static enum status read_environment(struct config *config, char **error) {
  enum status status = STATUS_OK;
  for (int id = 0; id < OPTION_COUNT && status == STATUS_OK; id++) {
    char name[OPTION_VARIABLE_BYTES];
    option_variable(&OPTIONS[id], name);
    const char *value = getenv(name);
    if (value != NULL && value[0] != '\0') status = read_value(config, (enum option_id)id, name, str_from(value), error);
  }
  return status;
}

/* Command line: flags are collected first, since one of them names the file. */

struct given {
  const char *file;
  const char *values[OPTION_COUNT]; /* NULL: not given */
};

/* What a flag without its dashes and without =VALUE means. */
struct meaning {
  const char **value; /* where its value goes; NULL for switches */
  bool *given;        /* may be NULL */
};

static bool find_meaning(struct str name, struct config_command_line *line, struct given *given, struct meaning *meaning) {
  *meaning = (struct meaning){0};
  for (size_t i = 0; i < line->flag_count; i++) {
    struct config_flag *flag = &line->flags[i];
    if (!str_equal(name, str_from(flag->name))) continue;
    *meaning = (struct meaning){.value = flag->takes_value ? &flag->value : NULL, .given = &flag->given};
    return true;
  }
  enum option_id id = option_find(name);
  if (id != OPTION_COUNT)
    meaning->value = &given->values[id];
  else if (str_equal(name, STR_LIT("config")))
    meaning->value = &given->file;
  else if (str_equal(name, STR_LIT("help")))
    meaning->given = &line->help;
  else if (str_equal(name, STR_LIT("version")))
    meaning->given = &line->version;
  else
    return false;
  return true;
}

/* The flag in argv[*at]; moves *at on to its value where that is an argument of its own. */
static enum status collect_flag(struct config_command_line *line, int *at, struct given *given, char **error) {
  const char *argument = line->argv[*at];
  const char *equals = strchr(argument, '=');
  struct str shown = {argument, equals != NULL ? (size_t)(equals - argument) : strlen(argument)};
  struct meaning meaning;
  if (argument[1] != '-' || !find_meaning((struct str){shown.data + 2, shown.len - 2}, line, given, &meaning))
    return refuse_plain("unknown flag ", shown, "; allowed: those that --help lists", error);
  if (meaning.given != NULL) *meaning.given = true;
  if (meaning.value == NULL) return equals == NULL ? STATUS_OK : refuse_plain("", shown, " takes no value", error);
  if (equals != NULL) {
    *meaning.value = equals + 1;
    return STATUS_OK;
  }
  if (*at + 1 >= line->argc) return refuse_plain("", shown, " needs a value", error);
  *meaning.value = line->argv[++*at];
  return STATUS_OK;
}

/* Leaves argv[0] and the words in line->argv. "-" alone is a word. */
static enum status collect_flags(struct config_command_line *line, struct given *given, char **error) {
  int words = line->argc > 0 ? 1 : 0;
  bool flags_over = false;
  for (int at = 1; at < line->argc; at++) {
    char *argument = line->argv[at];
    if (flags_over || argument[0] != '-' || argument[1] == '\0') {
      line->argv[words++] = argument;
    } else if (strcmp(argument, "--") == 0) {
      flags_over = true;
    } else {
      enum status status = collect_flag(line, &at, given, error);
      if (status != STATUS_OK) return status;
    }
  }
  line->argc = words;
  return STATUS_OK;
}

static enum status read_flags(struct config *config, const struct given *given, char **error) {
  enum status status = STATUS_OK;
  for (int id = 0; id < OPTION_COUNT && status == STATUS_OK; id++) {
    if (given->values[id] == NULL) continue;
    char name[OPTION_VARIABLE_BYTES] = "--";
    strncat(name, OPTIONS[id].name, sizeof name - 3);
    status = read_value(config, (enum option_id)id, name, str_from(given->values[id]), error);
  }
  return status;
}

/* Empty means not given. */
static enum status check_pair(const char *cert_name, const char *cert, const char *key_name, const char *key, char **error) {
  if ((cert[0] == '\0') == (key[0] == '\0')) return STATUS_OK;
  char why[80];
  snprintf(why, sizeof why, " alone: %s and %s go together", cert_name, key_name);
  return refuse_plain(cert[0] == '\0' ? key_name : cert_name, STR_NONE, why, error);
}

static enum status check_together(const struct config *config, char **error) {
  enum status status = check_pair("tls-cert", config->tls_cert, "tls-key", config->tls_key, error);
  if (status == STATUS_OK)
    status = check_pair("redis-tls-cert", config->redis_tls_cert, "redis-tls-key", config->redis_tls_key, error);
  bool redis_tls = config->redis_tls_ca[0] != '\0' || config->redis_tls_cert[0] != '\0';
  if (status == STATUS_OK && redis_tls && strncmp(config->redis_url, "rediss", 6) != 0)
    status = refuse_plain(config->redis_tls_ca[0] != '\0' ? "redis-tls-ca" : "redis-tls-cert", STR_NONE,
                          ": redis-url asks for no TLS; it is rediss:// then", error);
  return status;
}

enum status config_load(struct config *config, struct config_command_line *line, char **error) {
  struct given given = {0};
  *error = NULL;
  *config = (struct config){0};
  enum status status = config_read_defaults(config);
  if (status == STATUS_OK) status = collect_flags(line, &given, error);
  if (status != STATUS_OK || line->help || line->version) return status;
  const char *file = given.file != NULL ? given.file : getenv("PRESENCE_CONFIG");
  if (file != NULL && file[0] != '\0') status = read_file(config, file, error);
  if (status == STATUS_OK) status = read_environment(config, error);
  if (status == STATUS_OK) status = read_flags(config, &given, error);
  if (status == STATUS_OK) status = check_together(config, error);
  return status;
}

void config_free(struct config *config) {
  for (int id = 0; id < OPTION_COUNT; id++)
    if (OPTIONS[id].type->text) free(*(char **)(void *)((char *)config + OPTIONS[id].offset));
  *config = (struct config){0};
}
