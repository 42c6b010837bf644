/* json_scan beside an independent parser: the same texts are well-formed, in range and of the same value. */
#include <stdio.h>

#include "support/json_oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  const char *difference = oracle_compare((struct str){(const char *)data, size});
  if (difference == NULL) return 0;
  fprintf(stderr, "%s\n", difference);
  abort();
}
