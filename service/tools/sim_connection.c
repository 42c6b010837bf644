#include "sim_connection.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum { RETRY_FIRST_US = 50000, RETRY_LAST_US = 2000000, RECEIVE_BYTES = 4096 };

/* Target */

enum status sim_target_resolve(const struct sim_url *url, struct sim_target *target, char **error) {
  char host[256], port[8];
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_family = AF_UNSPEC}, *found = NULL;
  *error = NULL;
  snprintf(host, sizeof host, "%.*s", STR_ARG(url->host));
  snprintf(port, sizeof port, "%u", (unsigned)url->port);
  int code = getaddrinfo(host, port, &hints, &found);
  if (code != 0) {
    struct buf message = {0};
    enum status status = buf_printf(&message, "--url: host %s: %s", host, gai_strerror(code));
    if (status == STATUS_OK) status = buf_append(&message, "", 1);
    if (status == STATUS_OK)
      *error = message.data;
    else
      buf_free(&message);
    return status == STATUS_OK ? STATUS_INVALID : status;
  }
  memcpy(&target->address, found->ai_addr, found->ai_addrlen);
  target->address_len = found->ai_addrlen;
  freeaddrinfo(found);
  return STATUS_OK;
}

/* Connection */

static void shut(struct sim_connection *connection) {
  if (connection->state != SIM_CLOSED && connection->watch.fd >= 0) {
    loop_watch_remove(connection->loop, &connection->watch);
    close(connection->watch.fd);
  }
  connection->watch.fd = -1;
  connection->state = SIM_CLOSED;
  buf_clear(&connection->received);
}

static void fail(struct sim_connection *connection, const char *reason) {
  bool lost = connection->state == SIM_BUSY;
  shut(connection);
  loop_timer_set(connection->loop, &connection->retry, connection->retry_delay_us);
  connection->retry_delay_us *= 2;
  if (connection->retry_delay_us > RETRY_LAST_US) connection->retry_delay_us = RETRY_LAST_US;
  connection->events->failed(connection, reason, lost);
}

static void connected(struct sim_connection *connection) {
  int code = 0;
  socklen_t size = sizeof code;
  if (getsockopt(connection->watch.fd, SOL_SOCKET, SO_ERROR, &code, &size) < 0 || code != 0) {
    fail(connection, "connect");
    return;
  }
  if (loop_watch_change(connection->loop, &connection->watch, EPOLLIN) != STATUS_OK) {
    fail(connection, "epoll");
    return;
  }
  connection->state = SIM_IDLE;
  connection->events->ready(connection);
}

/* Writes what it can; asks for EPOLLOUT where the socket takes no more. Errors come up at the next read. */
static void flush(struct sim_connection *connection) {
  struct str *request = &connection->request;
  while (request->len > 0) {
    ssize_t count = send(connection->watch.fd, request->data, request->len, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) break;
    request->data += count;
    request->len -= (size_t)count;
  }
  uint32_t events = request->len > 0 ? EPOLLIN | EPOLLOUT : EPOLLIN;
  if (loop_watch_change(connection->loop, &connection->watch, events) != STATUS_OK)
    (void)shutdown(connection->watch.fd, SHUT_RDWR); /* the next read fails it */
}

static void answer(struct sim_connection *connection, const struct sim_answer *got) {
  connection->retry_delay_us = RETRY_FIRST_US;
  connection->state = SIM_IDLE;
  if (!got->close) {
    connection->events->answered(connection, got); /* its bytes stay: nothing is received in there */
    return;
  }
  /* The owner sends the next request once the new connection is ready. */
  struct buf kept = connection->received;
  connection->received = (struct buf){0};
  shut(connection);
  loop_timer_set(connection->loop, &connection->retry, 0);
  connection->events->answered(connection, got);
  buf_free(&kept);
}

static void receive(struct sim_connection *connection) {
  struct buf *received = &connection->received;
  if (buf_reserve(received, RECEIVE_BYTES) != STATUS_OK) {
    fail(connection, "memory");
    return;
  }
  ssize_t count = recv(connection->watch.fd, received->data + received->len, received->capacity - received->len, 0);
  if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (count <= 0) {
    fail(connection, connection->state == SIM_IDLE ? SIM_IDLE_CLOSED : count == 0 ? "closed" : "reset");
    return;
  }
  received->len += (size_t)count;
  struct sim_answer got;
  enum sim_parse parse = connection->state == SIM_BUSY ? sim_answer_parse(buf_str(received), &got) : SIM_PARSE_BAD;
  if (parse == SIM_PARSE_MORE) return;
  if (parse == SIM_PARSE_BAD || got.size != received->len) { /* also: bytes that nobody asked for */
    fail(connection, "protocol");
    return;
  }
  if (connection->request.len > 0) got.close = true; /* refused before the request was written whole */
  buf_clear(received);
  answer(connection, &got);
}

static void on_ready(struct loop_watch *watch, uint32_t events) {
  struct sim_connection *connection = watch->context;
  if (connection->state == SIM_CONNECTING) {
    connected(connection);
    return;
  }
  if (events & EPOLLOUT) flush(connection);
  if (events & (EPOLLIN | EPOLLERR | EPOLLHUP)) receive(connection);
}

static enum status start_connecting(struct sim_connection *connection) {
  const struct sockaddr *address = (const struct sockaddr *)&connection->target->address;
  int fd = socket(address->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) return STATUS_IO;
  int on = 1;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  connection->watch = (struct loop_watch){.fd = fd, .events = EPOLLOUT, .ready = on_ready, .context = connection};
  if ((connect(fd, address, connection->target->address_len) < 0 && errno != EINPROGRESS) ||
      loop_watch_add(connection->loop, &connection->watch) != STATUS_OK) {
    close(fd);
    connection->watch.fd = -1;
    return STATUS_IO;
  }
  connection->state = SIM_CONNECTING;
  connection->sent_us = loop_now_us(connection->loop);
  return STATUS_OK;
}

static void on_retry(struct loop_timer *timer) {
  struct sim_connection *connection = timer->context;
  if (start_connecting(connection) != STATUS_OK) fail(connection, "connect");
}

void sim_connection_open(struct sim_connection *connection) {
  connection->state = SIM_CLOSED;
  connection->watch.fd = -1;
  connection->retry = (struct loop_timer){.fire = on_retry, .context = connection};
  connection->retry_delay_us = RETRY_FIRST_US;
  loop_timer_set(connection->loop, &connection->retry, 0);
}

void sim_connection_close(struct sim_connection *connection) {
  loop_timer_cancel(connection->loop, &connection->retry);
  shut(connection);
  buf_free(&connection->received);
}

void sim_connection_send(struct sim_connection *connection, struct str request, int64_t now_us) {
  connection->state = SIM_BUSY;
  connection->sent_us = now_us;
  connection->request = request;
  flush(connection);
}

void sim_connection_check(struct sim_connection *connection, int64_t now_us, int64_t limit_us) {
  bool waiting = connection->state == SIM_CONNECTING || connection->state == SIM_BUSY;
  if (waiting && now_us - connection->sent_us > limit_us) fail(connection, "timeout");
}
