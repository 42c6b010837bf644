/* URLs of Redis: no crash, a refusal is one line, and what is accepted is whole. */
#include <stdlib.h>

#include "redis/target.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
  if (!holds) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  char *url = strndup((const char *)data, size), *error = NULL;
  if (!url) return 0;
  struct redis_target target = {0};
  bool tls = false;
  enum status status = target_parse_url(&target, url, &tls, &error);
  check(status == STATUS_OK || status == STATUS_INVALID);
  check((error != NULL) == (status == STATUS_INVALID));
  if (status == STATUS_OK) {
    check(target.address_count >= 1 && target.address_count <= TARGET_ADDRESSES_MAX);
    check(target.kind != TARGET_SERVER || target.address_count == 1);
    check((target.kind == TARGET_SENTINEL) == (target.master_name != NULL));
    for (size_t i = 0; i < target.address_count; i++) {
      const struct address *address = &target.addresses[i];
      check((address->host != NULL) != (address->path != NULL) && address->text != NULL);
      check(!address->host || (address->port >= 1 && address->port <= 65535));
      check(!address->path || target.kind == TARGET_SERVER);
    }
    check(target.database >= 0 && target.database <= 65535);
  }
  target_clear_url(&target);
  free(error);
  free(url);
  return 0;
}
