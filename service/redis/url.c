/* url.c: one server, redis://[user:password@]host[:port][/db], rediss://…, unix://[user:password@]/path[?db=n]
 * (https://www.iana.org/assignments/uri-schemes/prov/redis; percent-encoding: RFC 3986 section 2.1); and, in the way of other
 * clients, redis+sentinel://[user:password@]host[:port][,host[:port]…]/master-name[/db] and redis+cluster://[user:password@]
 * host[:port][,host[:port]…], both also with rediss+. */
#include <stdio.h>
#include <stdlib.h>

#include "hash.h"
#include "target.h"

enum { DEFAULT_PORT = 6379, SENTINEL_PORT = 26379, DATABASE_MAX = 65535, MASTER_NAME_MAX = 256 };

static enum status invalid(char **error, const char *what) {
  *error = NULL;
  if (asprintf(
          error,
          "redis-url: %s; it is redis://[user:password@]host[:port][/db], unix:///path[?db=n],"
          " redis+sentinel://[user:password@]host[:port],…/master-name[/db] or redis+cluster://[user:password@]host[:port],…;"
          " rediss for TLS",
          what) < 0) {
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
static enum status parse_address(struct address *address, struct str text, int default_port, char **error) {
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
  int number = default_port;
  if (port.data && (parse_number(port, 65535, &number) || number == 0)) return invalid(error, "the port must be 1 to 65535");
  char *decoded;
  enum status status = decode(host, &decoded);
  if (status) return status == STATUS_INVALID ? invalid(error, "the host has a broken percent code") : status;
  status = address_set(address, str_from(decoded), number);
  free(decoded);
  return status == STATUS_INVALID ? invalid(error, "the host is too long") : status;
}

/* One address, or several with commas between them. */
static enum status parse_addresses(struct redis_target *target, struct str text, char **error) {
  size_t most = target->kind == TARGET_SERVER ? 1 : TARGET_ADDRESSES_MAX;
  if (most == 1 && text.len > 0 && memchr(text.data, ',', text.len)) {
    return invalid(error, "several addresses are for redis+sentinel:// and redis+cluster://");
  }
  target->addresses = calloc(most, sizeof *target->addresses);
  if (!target->addresses) return STATUS_NO_MEMORY;
  bool more;
  do {
    struct str one = text, head;
    more = most > 1 && split(&text, ',', false, &head);
    if (more) one = head;
    if (target->address_count == most) return invalid(error, "more than 32 addresses");
    int port = target->kind == TARGET_SENTINEL ? SENTINEL_PORT : DEFAULT_PORT;
    enum status status = parse_address(&target->addresses[target->address_count], one, port, error);
    if (status) return status;
    target->address_count++;
  } while (more);
  return STATUS_OK;
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
  target->addresses = calloc(1, sizeof *target->addresses);
  if (!target->addresses) return STATUS_NO_MEMORY;
  target->address_count = 1;
  struct address *address = &target->addresses[0];
  enum status status = decode(path, &address->path);
  if (status) return status == STATUS_INVALID ? invalid(error, "the path has a broken percent code") : status;
  if (asprintf(&address->text, "unix:%s", address->path) >= 0) return STATUS_OK;
  address->text = NULL;
  return STATUS_NO_MEMORY;
}

/* hosts[/db] */
static enum status parse_server(struct redis_target *target, struct str text, char **error) {
  struct str hosts, database = text;
  if (!split(&database, '/', false, &hosts)) return parse_addresses(target, text, error);
  enum status status = parse_database(target, database, error);
  return status ? status : parse_addresses(target, hosts, error);
}

/* hosts/master-name[/db] */
static enum status parse_sentinels(struct redis_target *target, struct str text, char **error) {
  struct str hosts, name, database = STR_NONE;
  if (!split(&text, '/', false, &hosts)) return invalid(error, "the name of the primary is missing");
  name = text;
  if (split(&text, '/', false, &name)) {
    database = text;
  } else {
    name = text;
  }
  if (name.len == 0 || name.len > MASTER_NAME_MAX) return invalid(error, "the name of the primary is missing or too long");
  enum status status = decode(name, &target->master_name);
  if (status) return status == STATUS_INVALID ? invalid(error, "the name of the primary has a broken percent code") : status;
  status = parse_database(target, database, error);
  return status ? status : parse_addresses(target, hosts, error);
}

/* hosts[/] */
static enum status parse_nodes(struct redis_target *target, struct str text, char **error) {
  struct str hosts, rest = text;
  if (!split(&rest, '/', false, &hosts)) return parse_addresses(target, text, error);
  if (rest.len > 0 && !str_equal(rest, STR_LIT("0"))) return invalid(error, "a cluster has only database 0");
  return parse_addresses(target, hosts, error);
}

static bool take_prefix(struct str *text, struct str prefix) {
  if (text->len < prefix.len || memcmp(text->data, prefix.data, prefix.len) != 0) return false;
  *text = (struct str){text->data + prefix.len, text->len - prefix.len};
  return true;
}

static const struct {
  struct str prefix;
  bool tls;
  enum target_kind kind;
  enum status (*parse)(struct redis_target *target, struct str rest, char **error);
} schemes[] = {
    {{"redis://", 8}, false, TARGET_SERVER, parse_server},
    {{"rediss://", 9}, true, TARGET_SERVER, parse_server},
    {{"unix://", 7}, false, TARGET_SERVER, parse_path},
    {{"redis+sentinel://", 17}, false, TARGET_SENTINEL, parse_sentinels},
    {{"rediss+sentinel://", 18}, true, TARGET_SENTINEL, parse_sentinels},
    {{"redis+cluster://", 16}, false, TARGET_CLUSTER, parse_nodes},
    {{"rediss+cluster://", 17}, true, TARGET_CLUSTER, parse_nodes},
};

enum status target_parse_url(struct redis_target *target, const char *url, bool *tls, char **error) {
  struct str rest = str_from(url), credentials;
  size_t scheme = 0, count = sizeof schemes / sizeof schemes[0];
  *error = NULL;
  *tls = false;
  while (scheme < count && !take_prefix(&rest, schemes[scheme].prefix)) scheme++;
  if (scheme == count) return invalid(error, "the scheme is not known");
  *tls = schemes[scheme].tls;
  target->kind = schemes[scheme].kind;
  if (split(&rest, '@', true, &credentials)) {
    enum status status = parse_credentials(target, credentials);
    if (status == STATUS_INVALID) return invalid(error, "user or password has a broken percent code");
    if (status) return status;
  }
  return schemes[scheme].parse(target, rest, error);
}

static void wipe(char *secret) {
  if (secret) explicit_bzero(secret, strlen(secret));
  free(secret);
}

void target_clear_url(struct redis_target *target) {
  for (size_t i = 0; i < target->address_count; i++) address_clear(&target->addresses[i]);
  free(target->addresses);
  free(target->master_name);
  free(target->user);
  wipe(target->password);
  target->addresses = NULL;
  target->address_count = 0;
  target->master_name = target->user = target->password = NULL;
}
