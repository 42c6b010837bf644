#include "worker/worker_id.h"

#include <ctype.h>
#include <stdio.h>
#include <unistd.h>

#include "hash.h"

enum status worker_id_make(char id[WORKER_ID_MAX], uint32_t *number) {
  char host[65] = "";
  enum status status = random_bytes(number, sizeof *number);
  if (status != STATUS_OK) return status;
  if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
  for (char *at = host; *at != '\0'; at++) {
    if (!isalnum((unsigned char)*at) && *at != '.' && *at != '-') *at = '-';
  }
  (void)snprintf(id, WORKER_ID_MAX, "%s-%ld-%08x", host, (long)getpid(), (unsigned)*number);
  return STATUS_OK;
}
