#include "faults/post.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static int dial(const char *address, int timeout_ms) {
  const char *colon = strrchr(address, ':');
  if (colon == NULL) return -1;
  struct sockaddr_in to = {
      .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons((uint16_t)strtol(colon + 1, NULL, 10))};
  struct timeval limit = {.tv_sec = timeout_ms / 1000, .tv_usec = (timeout_ms % 1000) * 1000};
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit) != 0 ||
      setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0 || connect(fd, (struct sockaddr *)&to, sizeof to) != 0) {
    close(fd);
    return -1;
  }
  return fd;
}

static int send_all(int fd, const char *data, size_t length) {
  while (length > 0) {
    ssize_t sent = send(fd, data, length, MSG_NOSIGNAL);
    if (sent <= 0) return -1;
    data += sent;
    length -= (size_t)sent;
  }
  return 0;
}

int post(const char *address, const char *token, const char *path, const char *body, int timeout_ms, char *answer, size_t room) {
  char head[512];
  size_t length = strlen(body), got = 0;
  int status = 0, fd = dial(address, timeout_ms);
  if (fd < 0) return 0;
  int head_length = snprintf(head, sizeof head,
                             "POST %s HTTP/1.1\r\nHost: t\r\nAuthorization: Bearer %s\r\nConnection: close\r\n"
                             "Content-Length: %zu\r\n\r\n",
                             path, token, length);
  char *all = malloc(65536);
  if (all == NULL || send_all(fd, head, (size_t)head_length) != 0 || send_all(fd, body, length) != 0) goto out;
  for (ssize_t some; got < 65535 && (some = recv(fd, all + got, 65535 - got, 0)) != 0; got += (size_t)some) {
    if (some < 0) goto out; /* cut, or too slow: what came may be a part */
  }
  all[got] = '\0';
  if (strncmp(all, "HTTP/1.1 ", 9) == 0) status = (int)strtol(all + 9, NULL, 10);
  const char *rest = strstr(all, "\r\n\r\n");
  snprintf(answer, room, "%s", rest != NULL ? rest + 4 : "");
out:
  free(all);
  close(fd);
  return status;
}
