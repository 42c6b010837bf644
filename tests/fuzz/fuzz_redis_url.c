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
    check((target.host != NULL) != (target.path != NULL) && target.address != NULL);
    check(!target.host || (target.port >= 1 && target.port <= 65535));
    check(target.database >= 0 && target.database <= 65535);
  }
  free(target.host);
  free(target.path);
  free(target.user);
  free(target.password);
  free(target.address);
  free(error);
  free(url);
  return 0;
}
