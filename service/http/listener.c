#include "listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "config.h"

enum { BACKLOG = 4096 }; /* the kernel cuts it to net.core.somaxconn */

static enum status parse(struct listener *listener, const char *listen) {
  struct str host = STR_NONE;
  uint16_t port = 0;
  char text[INET6_ADDRSTRLEN];
  if (config_split_listen(str_from(listen), &host, &port) != STATUS_OK || host.len >= sizeof text) return STATUS_INVALID;
  memcpy(text, host.data, host.len);
  text[host.len] = '\0';

  struct sockaddr_in *v4 = (struct sockaddr_in *)&listener->address;
  struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)&listener->address;
  if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    listener->address_len = sizeof *v4;
  } else if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    listener->address_len = sizeof *v6;
  } else {
    return STATUS_INVALID;
  }
  return STATUS_OK;
}

/* A bound, listening socket. join: into the group of our sockets on this address. */
static int open_socket(const struct listener *listener, bool join) {
  int on = 1;
  int fd = socket(listener->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  /* An address with connections in TIME_WAIT, of the process before us, is free. */
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
      (!join || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0) &&
      bind(fd, (const struct sockaddr *)&listener->address, listener->address_len) == 0 &&
      (join || setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof on) == 0) && listen(fd, BACKLOG) == 0)
    return fd;
  int saved_errno = errno;
  close(fd);
  errno = saved_errno;
  return -1;
}

enum status listener_open(struct listener *listener, const char *listen, char **error) {
  *listener = (struct listener){.fd = -1};
  *error = NULL;
  if (parse(listener, listen) != STATUS_OK) {
    if (asprintf(error, "listen %s: not a numeric address:port", listen) < 0) *error = NULL;
    return STATUS_INVALID;
  }
  listener->fd = open_socket(listener, false);
  socklen_t len = sizeof listener->address;
  if (listener->fd >= 0 && getsockname(listener->fd, (struct sockaddr *)&listener->address, &len) == 0) return STATUS_OK;

  int saved_errno = errno;
  listener_close(listener);
  const char *why = saved_errno == EADDRINUSE ? "port in use: another process listens on it" : strerror(saved_errno);
  if (asprintf(error, "listen %s: %s", listen, why) < 0) *error = NULL;
  return STATUS_IO;
}

enum status listener_take(struct listener *listener, int *fd) {
  *fd = listener->fd >= 0 ? listener->fd : open_socket(listener, true);
  listener->fd = -1;
  return *fd >= 0 ? STATUS_OK : STATUS_IO;
}

void listener_close(struct listener *listener) {
  if (listener->fd >= 0) close(listener->fd);
  listener->fd = -1;
}

void listener_format(const struct listener *listener, char out[LISTENER_TEXT_MAX]) {
  char host[INET6_ADDRSTRLEN] = "?";
  if (listener->address.ss_family == AF_INET6) {
    const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&listener->address;
    inet_ntop(AF_INET6, &v6->sin6_addr, host, sizeof host);
    snprintf(out, LISTENER_TEXT_MAX, "[%s]:%u", host, ntohs(v6->sin6_port));
  } else {
    const struct sockaddr_in *v4 = (const struct sockaddr_in *)&listener->address;
    inet_ntop(AF_INET, &v4->sin_addr, host, sizeof host);
    snprintf(out, LISTENER_TEXT_MAX, "%s:%u", host, ntohs(v4->sin_port));
  }
}

int64_t listener_raise_file_limit(int64_t max_connections, int64_t others) {
  struct rlimit limit;
  rlim_t wanted = (rlim_t)(max_connections + others);
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return max_connections;
  if (limit.rlim_cur < wanted) {
    struct rlimit higher = {.rlim_cur = wanted, .rlim_max = limit.rlim_max < wanted ? wanted : limit.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &higher) != 0) { /* beyond the hard limit only for root */
      higher = (struct rlimit){.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
      (void)setrlimit(RLIMIT_NOFILE, &higher);
    }
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return max_connections;
  }
  if (limit.rlim_cur >= wanted) return max_connections;
  int64_t room = (int64_t)limit.rlim_cur - others;
  return room > 1 ? room : 1;
}
