#include "connection.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "stream.h"

enum {
  TICK_US = 25000,
  VISITS_PER_TICK = 256, /* 10,000 idle connections: a round a second, 0.4 % of a core */
  VISIT_MIN_US = 50000,
  VISIT_MAX_US = 500000,
  TCP_STATE_CLOSE = 7,
  TCP_STATE_CLOSE_WAIT = 8, /* of the kernel's tcp_states.h; <netinet/tcp.h> has it, but an older tcp_info */
  VISITS_PER_TIMEOUT = 20,
  CLOSING_US = 1000000, /* what clients get to send and to read when the service stops */
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
  struct connection_list *list = &connections->lists[connection->state];
  if (list->visit_next == connection) list->visit_next = connection->next;
  unlink_from(list, connection);
}

static void enter(struct connections *connections, struct connection *connection, enum connection_state state) {
  connection->state = state;
  connection->since_us = loop_now_us(connections->loop);
  append_to(&connections->lists[state], connection);
}

/* The library sees the end of the stream and closes. */
void connections_cut(struct connections *connections, struct connection *connection) {
  if (connection->cut) return;
  connection->cut = true;
  connections->cut_count++;
  (void)shutdown(connection->fd, SHUT_RDWR);
  if (connection->stream != NULL) stream_wake(connection->stream); /* the library does not look at a suspended one */
}

/* While all places are taken the library accepts nobody, so one is kept free as long as anyone is idle. */
static void make_room(struct connections *connections) {
  struct connection *oldest = connections->lists[CONNECTION_IDLE].head;
  while (oldest != NULL && oldest->cut) oldest = oldest->next;
  if (oldest != NULL && connections->count - connections->cut_count >= connections->max) connections_cut(connections, oldest);
}

static bool ask_kernel(const struct connection *connection, struct tcp_info *info) {
  socklen_t len = sizeof *info;
  memset(info, 0, sizeof *info);
  return getsockopt(connection->fd, IPPROTO_TCP, TCP_INFO, info, &len) == 0;
}

/* The peer has reset it, or will send no more and the library has read all that there was. */
static bool has_ended(const struct connection *connection, const struct tcp_info *info) {
  int unread = 0;
  if (info->tcpi_state == TCP_STATE_CLOSE) return true;
  return info->tcpi_state == TCP_STATE_CLOSE_WAIT && ioctl(connection->fd, FIONREAD, &unread) == 0 && unread == 0;
}

bool connection_has_ended(const struct connection *connection) {
  struct tcp_info info;
  return ask_kernel(connection, &info) && has_ended(connection, &info);
}

static void visit(struct connections *connections, struct connection *connection) {
  struct tcp_info info;
  if (!ask_kernel(connection, &info)) return;
  if (has_ended(connection, &info))
    connections_cut(connections, connection);
  else if (connection->state == CONNECTION_IDLE && info.tcpi_bytes_received > connection->consumed)
    connections_move(connections, connection, CONNECTION_RECEIVING); /* a later request has begun */
}

/* Those that have been in their state for an interval; since_us orders the list. */
static void visit_some(struct connections *connections, struct connection_list *list, int64_t now_us) {
  if (list->visit_next == NULL && now_us - list->round_started_us >= connections->visit_us) {
    list->visit_next = list->head;
    list->round_started_us = now_us;
  }
  for (int visits = 0; visits < VISITS_PER_TICK && list->visit_next != NULL; visits++) {
    struct connection *connection = list->visit_next;
    if (now_us - connection->since_us < connections->visit_us) {
      list->visit_next = NULL; /* and all behind it came later */
      return;
    }
    list->visit_next = connection->next;
    visit(connections, connection);
  }
}

static void cut_overdue(struct connections *connections, enum connection_state state, int64_t before_us) {
  struct connection *connection = connections->lists[state].head;
  for (; connection != NULL && connection->since_us <= before_us; connection = connection->next)
    connections_cut(connections, connection);
}

static void on_tick(struct loop_timer *timer) {
  struct connections *connections = timer->context;
  int64_t now_us = loop_now_us(connections->loop);
  visit_some(connections, &connections->lists[CONNECTION_IDLE], now_us);
  visit_some(connections, &connections->lists[CONNECTION_RECEIVING], now_us);
  visit_some(connections, &connections->lists[CONNECTION_STREAMING], now_us);
  cut_overdue(connections, CONNECTION_RECEIVING, now_us - connections->request_timeout_us);
  cut_overdue(connections, CONNECTION_SENDING, now_us - connections->idle_timeout_us);
  cut_overdue(connections, CONNECTION_IDLE, now_us - connections->idle_timeout_us);
  cut_overdue(connections, CONNECTION_STREAM_SENDING, now_us - connections->stall_us);
  if (connections->count > 0) loop_timer_set(connections->loop, timer, TICK_US);
}

void connections_init(struct connections *connections, struct loop *loop, int64_t request_timeout_ms, int64_t idle_timeout_ms,
                      size_t max) {
  int64_t visit_us = request_timeout_ms * 1000 / VISITS_PER_TIMEOUT;
  *connections = (struct connections){
      .loop = loop,
      .request_timeout_us = request_timeout_ms * 1000,
      .idle_timeout_us = idle_timeout_ms * 1000,
      .stall_us = STREAM_STALL_MS * INT64_C(1000),
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
  connections->accepted++;
  make_room(connections);
  if (!connections->tick.armed) loop_timer_set(connections->loop, &connections->tick, TICK_US);
  return connection;
}

void connections_remove(struct connections *connections, struct connection *connection) {
  leave(connections, connection);
  connections->count--;
  if (connection->cut) connections->cut_count--;
  free(connection);
}

void connections_move(struct connections *connections, struct connection *connection, enum connection_state state) {
  leave(connections, connection);
  enter(connections, connection, state);
  if (state != CONNECTION_IDLE) return;
  if (connections->closing)
    connections_cut(connections, connection);
  else
    make_room(connections);
}

void connections_request_whole(struct connections *connections, struct connection *connection, uint64_t bytes) {
  struct tcp_info info;
  if (bytes > 0)
    connection->consumed += bytes;
  else if (ask_kernel(connection, &info))
    connection->consumed = info.tcpi_bytes_received;
  connections_move(connections, connection, CONNECTION_WORKING);
}

void connections_close(struct connections *connections) {
  connections->closing = true;
  if (connections->request_timeout_us > CLOSING_US) connections->request_timeout_us = CLOSING_US;
  if (connections->idle_timeout_us > CLOSING_US) connections->idle_timeout_us = CLOSING_US;
  if (connections->stall_us > CLOSING_US) connections->stall_us = CLOSING_US;
  struct connection *connection = connections->lists[CONNECTION_IDLE].head;
  for (; connection != NULL; connection = connection->next) connections_cut(connections, connection);
}

void connections_cut_all(struct connections *connections) {
  for (int state = 0; state < CONNECTION_STATE_COUNT; state++) {
    struct connection *connection = connections->lists[state].head;
    for (; connection != NULL; connection = connection->next) connections_cut(connections, connection);
  }
}
