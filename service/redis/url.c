/* url.c: redis://[user:password@]host[:port][/db], rediss://…, unix://[user:password@]/path[?db=n]
 * (https://www.iana.org/assignments/uri-schemes/prov/redis; percent-encoding: RFC 3986 section 2.1). */
#include <stdio.h>
#include <stdlib.h>

#include "hash.h"
#include "target.h"

enum { DEFAULT_PORT = 6379, DATABASE_MAX = 65535 };

static enum status invalid(char **error, const char *what) {
  *error = NULL;
  if (asprintf(error, "redis-url: %s; it is redis://[user:password@]host[:port][/db], rediss://… or unix:///path[?db=n]", what) <
      0) {
    *error = NULL;
    return STATUS_NO_MEMORY;
  }
  return STATUS_INVALID;
}

/* A malloc'd, decoded copy. STATUS_INVALID: a broken percent code or a NUL. */
static enum status decode(struct str text, char **out) {
  char *copy = malloc(text.len + 1), *at = copy;
  if (!copy) return STATUS_NO_MEMORY;
  for (size_t i = 0; i < text.len; i++) {
    char c = text.data[i];
    if (c == '%') {
      bool whole = i + 2 < text.len && !hex_decode((struct str){text.data + i + 1, 2}, &c, 1);
      if (!whole) c = '\0';
      i += 2;
    }
    if (c == '\0') {
      free(copy);
      return STATUS_INVALID;
    }
    *at++ = c;
  }
  *at = '\0';
  *out = copy;
  return STATUS_OK;
}

/* Splits text at the first (or last) c: *head before it; text behind it. Without c, *head is empty and false returns. */
static bool split(struct str *text, char c, bool last, struct str *head) {
  const char *at = text->len == 0 ? NULL : last ? memrchr(text->data, c, text->len) : memchr(text->data, c, text->len);
  *head = STR_NONE;
  if (!at) return false;
  *head = (struct str){text->data, (size_t)(at - text->data)};
  *text = (struct str){at + 1, text->len - head->len - 1};
  return true;
}

static enum status parse_number(struct str text, int64_t max, int *out) {
  int64_t value;
  enum status status = str_to_int64(text, &value);
  if (status) return status;
  if (value > max) return STATUS_INVALID;
  *out = (int)value;
  return STATUS_OK;
}

static enum status parse_credentials(struct redis_target *target, struct str credentials) {
  struct str user;
  bool named = split(&credentials, ':', false, &user);
  if (!named) { /* "user@": no password */
    return decode(credentials, &target->user);
  }
  enum status status = user.len > 0 ? decode(user, &target->user) : STATUS_OK;
  return status || credentials.len == 0 ? status : decode(credentials, &target->password);
}

/* host, host:port, [v6], [v6]:port */
static enum status parse_host(struct redis_target *target, struct str text, char **error) {
  struct str host = text, port = STR_NONE;
  if (text.len > 0 && text.data[0] == '[') {
    text = (struct str){text.data + 1, text.len - 1};
    if (!split(&text, ']', false, &host)) return invalid(error, "a [ without its ]");
    if (text.len > 0 && text.data[0] != ':') return invalid(error, "only a :port can follow the ]");
    if (text.len > 0) port = (struct str){text.data + 1, text.len - 1};
  } else {
    struct str before;
    if (split(&text, ':', true, &before)) {
      host = before;
      port = text;
    }
    if (host.len > 0 && memchr(host.data, ':', host.len)) return invalid(error, "an IPv6 address needs brackets");
  }
  if (host.len == 0) return invalid(error, "the host is missing");
  target->port = DEFAULT_PORT;
  if (port.data && (parse_number(port, 65535, &target->port) || target->port == 0)) {
    return invalid(error, "the port must be 1 to 65535");
  }
  enum status status = decode(host, &target->host);
  return status == STATUS_INVALID ? invalid(error, "the host has a broken percent code") : status;
}

static enum status parse_database(struct redis_target *target, struct str text, char **error) {
  if (text.len == 0 || !parse_number(text, DATABASE_MAX, &target->database)) return STATUS_OK;
  return invalid(error, "the database must be a number");
}

static enum status parse_path(struct redis_target *target, struct str text, char **error) {
  struct str path, rest = text;
  if (split(&rest, '?', false, &path)) {
    if (rest.len < 3 || memcmp(rest.data, "db=", 3) != 0) return invalid(error, "only ?db=n can follow the path");
    enum status status = parse_database(target, (struct str){rest.data + 3, rest.len - 3}, error);
    if (status) return status;
  } else {
    path = text;
  }
  if (path.len < 2 || path.data[0] != '/') return invalid(error, "the path of the socket must be absolute");
  enum status status = decode(path, &target->path);
  return status == STATUS_INVALID ? invalid(error, "the path has a broken percent code") : status;
}

static enum status describe(struct redis_target *target) {
  int length;
  if (target->path) {
    length = asprintf(&target->address, "unix:%s?db=%d", target->path, target->database);
  } else {
    bool v6 = strchr(target->host, ':') != NULL;
    length =
        asprintf(&target->address, "%s%s%s:%d/%d", v6 ? "[" : "", target->host, v6 ? "]" : "", target->port, target->database);
  }
  if (length >= 0) return STATUS_OK;
  target->address = NULL;
  return STATUS_NO_MEMORY;
}

static bool take_prefix(struct str *text, struct str prefix) {
  if (text->len < prefix.len || memcmp(text->data, prefix.data, prefix.len) != 0) return false;
  *text = (struct str){text->data + prefix.len, text->len - prefix.len};
  return true;
}

enum status target_parse_url(struct redis_target *target, const char *url, bool *tls, char **error) {
  struct str rest = str_from(url), credentials;
  *error = NULL;
  *tls = take_prefix(&rest, STR_LIT("rediss://"));
  bool path = !*tls && take_prefix(&rest, STR_LIT("unix://"));
  if (!*tls && !path && !take_prefix(&rest, STR_LIT("redis://"))) return invalid(error, "the scheme is not known");

  if (split(&rest, '@', true, &credentials)) {
    enum status status = parse_credentials(target, credentials);
    if (status == STATUS_INVALID) return invalid(error, "user or password has a broken percent code");
    if (status) return status;
  }
  enum status status;
  if (path) {
    status = parse_path(target, rest, error);
  } else {
    struct str host, database = rest;
    if (split(&database, '/', false, &host)) {
      status = parse_database(target, database, error);
    } else {
      host = rest;
      status = STATUS_OK;
    }
    if (!status) status = parse_host(target, host, error);
  }
  return status ? status : describe(target);
}
