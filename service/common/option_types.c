#include "options.h"

#include <arpa/inet.h>
#include <stdlib.h>

/* Numbers */

static enum status read_int(const struct option *option, struct str text, void *field) {
  int64_t value = 0;
  if (str_to_int64(text, &value) != STATUS_OK || value < option->least || value > option->most) return STATUS_INVALID;
  *(int64_t *)field = value;
  return STATUS_OK;
}
const struct option_type OPTION_TYPE_INT = {.read = read_int};

/* Choices: enums are stored as the compilers do, in an unsigned int. */

static enum status read_choice(const struct option *option, struct str text, void *field) {
  for (const struct option_choice *choice = option->type->choices; choice->word != NULL; choice++)
    if (str_equal(text, str_from(choice->word))) {
      memcpy(field, &choice->value, sizeof choice->value);
      return STATUS_OK;
    }
  return STATUS_INVALID;
}

_Static_assert(sizeof(enum config_redis_mode) == sizeof(unsigned) && sizeof(enum config_switch) == sizeof(unsigned) &&
                   sizeof(enum log_level) == sizeof(unsigned) && sizeof(enum log_format) == sizeof(unsigned),
               "read_choice writes an unsigned");

static const struct option_choice redis_modes[] = {{"auto", CONFIG_REDIS_AUTO},
                                                   {"native", CONFIG_REDIS_NATIVE},
                                                   {"hpexpire", CONFIG_REDIS_HPEXPIRE},
                                                   {"compat", CONFIG_REDIS_COMPAT},
                                                   {NULL, 0}};
const struct option_type OPTION_TYPE_REDIS_MODE = {.read = read_choice, .choices = redis_modes};

static const struct option_choice switches[] = {{"no", CONFIG_NO}, {"yes", CONFIG_YES}, {NULL, 0}};
const struct option_type OPTION_TYPE_SWITCH = {.read = read_choice, .choices = switches};

static const struct option_choice log_levels[] = {
    {"debug", LOG_LEVEL_DEBUG}, {"info", LOG_LEVEL_INFO}, {"warn", LOG_LEVEL_WARN}, {"error", LOG_LEVEL_ERROR}, {NULL, 0}};
const struct option_type OPTION_TYPE_LOG_LEVEL = {.read = read_choice, .choices = log_levels};

static const struct option_choice log_formats[] = {{"logfmt", LOG_FORMAT_LOGFMT}, {"json", LOG_FORMAT_JSON}, {NULL, 0}};
const struct option_type OPTION_TYPE_LOG_FORMAT = {.read = read_choice, .choices = log_formats};

/* Roles: a list of words. */

static bool is_blank(char character) { return character == ' ' || character == '\t'; }

static unsigned role_of(struct str word) {
  while (word.len > 0 && is_blank(word.data[0])) {
    word.data++;
    word.len--;
  }
  while (word.len > 0 && is_blank(word.data[word.len - 1])) word.len--;
  if (str_equal(word, STR_LIT("api"))) return CONFIG_ROLE_API;
  return str_equal(word, STR_LIT("worker")) ? CONFIG_ROLE_WORKER : 0;
}

static enum status read_roles(const struct option *option, struct str text, void *field) {
  (void)option;
  unsigned roles = 0;
  for (;;) {
    const char *comma = text.len > 0 ? memchr(text.data, ',', text.len) : NULL;
    size_t len = comma != NULL ? (size_t)(comma - text.data) : text.len;
    unsigned role = role_of((struct str){text.data, len});
    if (role == 0) return STATUS_INVALID;
    roles |= role;
    if (comma == NULL) break;
    text.data += len + 1;
    text.len -= len + 1;
  }
  *(unsigned *)field = roles;
  return STATUS_OK;
}
const struct option_type OPTION_TYPE_ROLES = {.read = read_roles, .allowed = "api, worker or api,worker"};

/* Texts */

static enum status store_text(struct str text, void *field) {
  char *copy = malloc(text.len + 1);
  if (copy == NULL) return STATUS_NO_MEMORY;
  if (text.len > 0) memcpy(copy, text.data, text.len);
  copy[text.len] = '\0';
  char **owner = field;
  free(*owner);
  *owner = copy;
  return STATUS_OK;
}

static bool is_printable(struct str text) {
  for (size_t i = 0; i < text.len; i++)
    if ((unsigned char)text.data[i] < 0x20 || text.data[i] == 0x7f) return false;
  return true;
}

static enum status read_text(const struct option *option, struct str text, void *field) {
  (void)option;
  return is_printable(text) ? store_text(text, field) : STATUS_INVALID;
}
const struct option_type OPTION_TYPE_SECRET = {
    .read = read_text, .text = true, .allowed = "text without control characters", .secret = true};
const struct option_type OPTION_TYPE_PATH = {.read = read_text, .text = true, .allowed = "a path"};

static enum status read_word(const struct option *option, struct str text, void *field) {
  (void)option;
  if (text.len < 1 || text.len > 32) return STATUS_INVALID;
  for (size_t i = 0; i < text.len; i++)
    if (text.data[i] == '\0' || strchr("abcdefghijklmnopqrstuvwxyz0123456789_-", text.data[i]) == NULL) return STATUS_INVALID;
  return store_text(text, field);
}
const struct option_type OPTION_TYPE_WORD = {.read = read_word, .text = true, .allowed = "1 to 32 of a-z 0-9 _ -"};

static bool after_prefix(struct str text, const char *prefix, struct str *rest) {
  size_t len = strlen(prefix);
  if (text.len < len || memcmp(text.data, prefix, len) != 0) return false;
  *rest = (struct str){text.data + len, text.len - len};
  return true;
}

/* The scheme only; the part that connects takes the rest apart. */
static enum status read_redis_url(const struct option *option, struct str text, void *field) {
  (void)option;
  struct str rest = STR_NONE;
  bool tls = after_prefix(text, "rediss", &rest);
  bool known =
      (tls || after_prefix(text, "redis", &rest)) &&
      (after_prefix(rest, "://", &rest) || after_prefix(rest, "+sentinel://", &rest) || after_prefix(rest, "+cluster://", &rest));
  known = known || (after_prefix(text, "unix://", &rest) && rest.len > 0 &&
                    (rest.data[0] == '/' || memchr(rest.data, '@', rest.len) != NULL));
  return known && rest.len > 0 && is_printable(text) ? store_text(text, field) : STATUS_INVALID;
}
const struct option_type OPTION_TYPE_REDIS_URL = {
    .read = read_redis_url,
    .allowed = "redis://[USER:PASSWORD@]HOST[:PORT][/DB], redis+sentinel://[USER:PASSWORD@]HOST[:PORT],.../NAME[/DB],"
               " redis+cluster://[USER:PASSWORD@]HOST[:PORT],..., each also with rediss for TLS, or unix:///PATH",
    .text = true,
    .secret = true};

/* An origin as browsers send it (RFC 6454 section 6.2): scheme, host, port, and nothing after. */
static enum status read_origin(const struct option *option, struct str text, void *field) {
  (void)option;
  struct str host = STR_NONE;
  if (text.len == 0) return store_text(text, field);
  if ((!after_prefix(text, "http://", &host) && !after_prefix(text, "https://", &host)) || host.len == 0) return STATUS_INVALID;
  for (size_t i = 0; i < host.len; i++)
    if ((unsigned char)host.data[i] <= ' ' || (unsigned char)host.data[i] >= 0x7f || strchr("/?#@,\"\\", host.data[i]) != NULL)
      return STATUS_INVALID;
  return store_text(text, field);
}
const struct option_type OPTION_TYPE_ORIGIN = {
    .read = read_origin, .text = true, .allowed = "an origin such as https://status.example.com"};

enum status config_split_listen(struct str listen, struct str *address, uint16_t *port) {
  const char *colon = listen.len > 0 ? memrchr(listen.data, ':', listen.len) : NULL;
  if (colon == NULL) return STATUS_INVALID;
  struct str host = {listen.data, (size_t)(colon - listen.data)};
  struct str digits = {colon + 1, listen.len - host.len - 1};
  int family = AF_INET;
  if (host.len >= 2 && host.data[0] == '[' && host.data[host.len - 1] == ']') {
    host = (struct str){host.data + 1, host.len - 2};
    family = AF_INET6;
  }
  char text[INET6_ADDRSTRLEN];
  unsigned char bytes[sizeof(struct in6_addr)];
  int64_t number = 0;
  if (host.len >= sizeof text || str_to_int64(digits, &number) != STATUS_OK || number > UINT16_MAX) return STATUS_INVALID;
  memcpy(text, host.data, host.len);
  text[host.len] = '\0';
  if (strlen(text) != host.len || inet_pton(family, text, bytes) != 1) return STATUS_INVALID;
  *address = host;
  *port = (uint16_t)number;
  return STATUS_OK;
}

static enum status read_listen(const struct option *option, struct str text, void *field) {
  (void)option;
  struct str address = STR_NONE;
  uint16_t port = 0;
  enum status status = config_split_listen(text, &address, &port);
  return status == STATUS_OK ? store_text(text, field) : status;
}
const struct option_type OPTION_TYPE_LISTEN = {
    .read = read_listen, .text = true, .allowed = "a numeric IPV4:PORT or [IPV6]:PORT, port 0 to 65535"};
