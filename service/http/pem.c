#include "pem.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PEM_MAX_BYTES = 1 << 20 };

static void wipe(char **text) {
  if (*text == NULL) return;
  explicit_bzero(*text, strlen(*text));
  free(*text);
  *text = NULL;
}

static enum status read_all(int fd, char *text) {
  size_t used = 0;
  while (used < PEM_MAX_BYTES) {
    ssize_t got = read(fd, text + used, PEM_MAX_BYTES - used);
    if (got == 0) return STATUS_OK;
    if (got > 0)
      used += (size_t)got;
    else if (errno != EINTR)
      return STATUS_IO;
  }
  errno = EFBIG;
  return STATUS_IO;
}

static enum status read_file(const char *option, const char *path, char **text, char **error) {
  enum status status = STATUS_IO;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  *text = fd >= 0 ? calloc(1, PEM_MAX_BYTES + 1) : NULL;
  if (fd >= 0) status = *text != NULL ? read_all(fd, *text) : STATUS_NO_MEMORY;
  if (status == STATUS_IO && asprintf(error, "%s %s: %s", option, path, strerror(errno)) < 0) *error = NULL;
  if (fd >= 0) close(fd);
  return status;
}

enum status pem_load(struct pem *pem, const char *cert_path, const char *key_path, char **error) {
  *pem = (struct pem){0};
  if (cert_path[0] == '\0') return STATUS_OK;
  enum status status = read_file("tls-cert", cert_path, &pem->cert, error);
  if (status == STATUS_OK) status = read_file("tls-key", key_path, &pem->key, error);
  return status;
}

void pem_free(struct pem *pem) {
  wipe(&pem->cert);
  wipe(&pem->key);
}
