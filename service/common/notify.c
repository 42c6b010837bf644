#include "notify.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

void notify_service_manager(const char *state) {
  const char *name = getenv("NOTIFY_SOCKET");
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  if (name == NULL || (name[0] != '/' && name[0] != '@')) return;
  size_t len = strlen(name);
  if (len >= sizeof address.sun_path) return;
  memcpy(address.sun_path, name, len);
  if (name[0] == '@') address.sun_path[0] = '\0'; /* in the abstract namespace */
  int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return;
  socklen_t address_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len);
  (void)sendto(fd, state, strlen(state), MSG_NOSIGNAL, (const struct sockaddr *)&address, address_len);
  close(fd);
}
