/* The config file parser: no crash, and every refusal is one bounded line. */
#include <stdlib.h>

#include "common/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
  if (!holds) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct config config = {0};
  char *error = NULL;
  enum status status = config_read_defaults(&config);
  if (status == STATUS_OK) status = config_read_text(&config, "fuzz", (struct str){(const char *)data, size}, &error);
  check(status == STATUS_OK || status == STATUS_INVALID);
  check((error != NULL) == (status == STATUS_INVALID));
  if (error != NULL) check(strlen(error) < 1024 && strpbrk(error, "\r\n\x1b") == NULL);
  check(config.outage_ms >= 50 && config.partitions >= 1 && config.partitions <= 1024 && config.roles != 0);
  check(config.listen != NULL && config.env[0] != '\0');
  free(error);
  config_free(&config);
  return 0;
}
