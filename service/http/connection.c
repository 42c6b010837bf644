#include "connection.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

enum {
  TICK_US = 25000,
  VISITS_PER_TICK = 256, /* 10,000 idle connections: a round a second, 0.4 % of a core */
  VISIT_MIN_US = 50000,
  VISIT_MAX_US = 500000,
  VISITS_PER_TIMEOUT = 20,
};

static void unlink_from(struct connection_list *list, struct connection *connection) {
  if (connection->previous != NULL)
    connection->previous->next = connection->next;
  else
    list->head = connection->next;
  if (connection->next != NULL)
    connection->next->previous = connection->previous;
  else
    list->tail = connection->previous;
}

static void append_to(struct connection_list *list, struct connection *connection) {
  connection->next = NULL;
  connection->previous = list->tail;
  if (list->tail != NULL)
    list->tail->next = connection;
  else
    list->head = connection;
  list->tail = connection;
}

static void leave(struct connections *connections, struct connection *connection) {
  if (connections->visit_next == connection) connections->visit_next = connection->next;
  unlink_from(&connections->lists[connection->state], connection);
}

static void enter(struct connections *connections, struct connection *connection, enum connection_state state) {
  connection->state = state;
  connection->since_us = loop_now_us(connections->loop);
  append_to(&connections->lists[state], connection);
}

/* The library sees the end of the stream and closes. */
static void cut(struct connection *connection) {
  if (connection->cut) return;
  connection->cut = true;
  (void)shutdown(connection->fd, SHUT_RDWR);
}

static uint64_t bytes_received(const struct connection *connection) {
  struct tcp_info info = {0};
  socklen_t len = sizeof info;
  if (getsockopt(connection->fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0) return 0;
  return info.tcpi_bytes_received;
}

/* Idle connections that have been so for an interval: has a later request begun? In rounds, since since_us orders the list. */
static void visit_idle(struct connections *connections, int64_t now_us) {
  if (connections->visit_next == NULL && now_us - connections->round_started_us >= connections->visit_us) {
    connections->visit_next = connections->lists[CONNECTION_IDLE].head;
    connections->round_started_us = now_us;
  }
  for (int visits = 0; visits < VISITS_PER_TICK && connections->visit_next != NULL; visits++) {
    struct connection *connection = connections->visit_next;
    connections->visit_next = connection->next;
    if (now_us - connection->since_us < connections->visit_us) {
      connections->visit_next = NULL; /* and all behind it came later */
    } else if (bytes_received(connection) > connection->consumed) {
      connections_move(connections, connection, CONNECTION_RECEIVING);
    }
  }
}

static void cut_overdue(struct connections *connections, enum connection_state state, int64_t before_us) {
  struct connection *connection = connections->lists[state].head;
  for (; connection != NULL && connection->since_us <= before_us; connection = connection->next) cut(connection);
}

static void on_tick(struct loop_timer *timer) {
  struct connections *connections = timer->context;
  int64_t now_us = loop_now_us(connections->loop);
  visit_idle(connections, now_us);
  cut_overdue(connections, CONNECTION_RECEIVING, now_us - connections->request_timeout_us);
  cut_overdue(connections, CONNECTION_SENDING, now_us - connections->idle_timeout_us);
  cut_overdue(connections, CONNECTION_IDLE, now_us - connections->idle_timeout_us);
  if (connections->count > 0) loop_timer_set(connections->loop, timer, TICK_US);
}

void connections_init(struct connections *connections, struct loop *loop, int64_t request_timeout_ms, int64_t idle_timeout_ms,
                      size_t max) {
  int64_t visit_us = request_timeout_ms * 1000 / VISITS_PER_TIMEOUT;
  *connections = (struct connections){
      .loop = loop,
      .request_timeout_us = request_timeout_ms * 1000,
      .idle_timeout_us = idle_timeout_ms * 1000,
      .visit_us = visit_us < VISIT_MIN_US   ? VISIT_MIN_US
                  : visit_us > VISIT_MAX_US ? VISIT_MAX_US
                                            : visit_us,
      .max = max,
      .tick = {.fire = on_tick, .context = connections},
  };
}

void connections_stop(struct connections *connections) { loop_timer_cancel(connections->loop, &connections->tick); }

struct connection *connections_add(struct connections *connections, int fd, bool peer_is_local) {
  struct connection *connection = calloc(1, sizeof *connection);
  if (connection == NULL) return NULL;
  connection->fd = fd;
  connection->peer_is_local = peer_is_local;
  enter(connections, connection, CONNECTION_RECEIVING);
  connections->count++;
  struct connection *oldest = connections->lists[CONNECTION_IDLE].head;
  if (connections->count >= connections->max && oldest != NULL) {
    connections_move(connections, oldest, CONNECTION_SENDING); /* not the oldest idle one any more, if yet another comes */
    cut(oldest);
  }
  if (!connections->tick.armed) loop_timer_set(connections->loop, &connections->tick, TICK_US);
  return connection;
}

void connections_remove(struct connections *connections, struct connection *connection) {
  leave(connections, connection);
  connections->count--;
  free(connection);
}

void connections_move(struct connections *connections, struct connection *connection, enum connection_state state) {
  leave(connections, connection);
  enter(connections, connection, state);
  if (state == CONNECTION_IDLE && connections->closing) cut(connection);
}

void connections_request_whole(struct connections *connections, struct connection *connection, uint64_t bytes) {
  if (bytes > 0)
    connection->consumed += bytes;
  else
    connection->consumed = bytes_received(connection);
  connections_move(connections, connection, CONNECTION_WORKING);
}

void connections_close_idle(struct connections *connections) {
  connections->closing = true;
  struct connection *connection = connections->lists[CONNECTION_IDLE].head;
  for (; connection != NULL; connection = connection->next) cut(connection);
}

void connections_cut_all(struct connections *connections) {
  for (int state = 0; state < CONNECTION_STATE_COUNT; state++) {
    struct connection *connection = connections->lists[state].head;
    for (; connection != NULL; connection = connection->next) cut(connection);
  }
}
