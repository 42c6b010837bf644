#include "address.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void address_clear(struct address *address) {
  free(address->host);
  free(address->path);
  free(address->text);
  *address = (struct address){0};
}

enum status address_set(struct address *address, struct str host, int64_t port) {
  *address = (struct address){0};
  if (host.len == 0 || host.len > ADDRESS_HOST_MAX || memchr(host.data, '\0', host.len)) return STATUS_INVALID;
  if (port < 1 || port > 65535) return STATUS_INVALID;
  bool v6 = memchr(host.data, ':', host.len) != NULL;
  address->port = (int)port;
  address->host = strndup(host.data, host.len);
  if (address->host && asprintf(&address->text, "%s%s%s:%d", v6 ? "[" : "", address->host, v6 ? "]" : "", address->port) >= 0) {
    return STATUS_OK;
  }
  address->text = NULL;
  address_clear(address);
  return STATUS_NO_MEMORY;
}

enum status address_copy(struct address *address, const struct address *other) {
  *address = (struct address){.port = other->port};
  address->host = other->host ? strdup(other->host) : NULL;
  address->path = other->path ? strdup(other->path) : NULL;
  address->text = strdup(other->text);
  if (address->text && !address->host == !other->host && !address->path == !other->path) return STATUS_OK;
  address_clear(address);
  return STATUS_NO_MEMORY;
}

bool address_equal(const struct address *a, const struct address *b) { return strcmp(a->text, b->text) == 0; }
