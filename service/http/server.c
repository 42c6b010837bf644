#include "server.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "certificate.h"
#include "server_state.h"

enum {
  CONNECTION_MEMORY_INCREMENT = 1024,
  CLIENT_DISCIPLINE = 1, /* refuses what request smuggling needs, forgives what old clients do */
  ACCEPT_ROUNDS_MAX = 1000,
  LIBRARY_LOG_US = 10000000,
};

static const unsigned counted_statuses[] = {200, 204, 400, 401, 403, 404, 405, 408, 409,
                                            410, 413, 414, 429, 431, 500, 501, 503, 505};
_Static_assert(sizeof counted_statuses / sizeof counted_statuses[0] < STATUS_SLOTS, "the last slot is for all others");

void server_count(struct http_server *server, enum route_id route, unsigned http_status) {
  size_t slot = 0;
  size_t known = sizeof counted_statuses / sizeof counted_statuses[0];
  while (slot < known && counted_statuses[slot] != http_status) slot++;
  struct metric_series **series = &server->answered[route][slot];
  if (*series == NULL) {
    char label[ROUTE_LABEL_MAX];
    char status[8] = "other";
    route_label(route, label);
    if (slot < known) snprintf(status, sizeof status, "%u", http_status);
    *series = metrics_series(METRIC_HTTP_REQUESTS, label, status);
  }
  metric_add(*series, 1);
}

/* Most of what the library says is about clients that went away. */
static bool is_our_trouble(const char *format) {
  static const char *const starts[] = {"Hit process", "Error allocating", "Error accepting", "Call to epoll"};
  for (size_t i = 0; i < sizeof starts / sizeof starts[0]; i++)
    if (strncmp(format, starts[i], strlen(starts[i])) == 0) return true;
  return false;
}

/* The library tells only its log what it refuses before a request is parsed. Neither arguments nor anything of the client's goes
 * into ours. */
static void on_library_log(void *context, const char *format, va_list arguments) {
  struct http_server *server = context;
  if (strstr(format, "(HTTP response code is %u (") != NULL) {
    server_count(server, ROUTE_COUNT, va_arg(arguments, unsigned));
    return;
  }
  int64_t suppressed = 0;
  if (!log_limit_pass(&server->library_log, loop_now_us(server->loop), LIBRARY_LOG_US, &suppressed)) return;
  struct str message = {format, strcspn(format, "\n")};
  log_at(is_our_trouble(format) ? LOG_LEVEL_WARN : LOG_LEVEL_DEBUG, "http_library", LOG_TEXT("message", message),
         LOG_INT("suppressed", suppressed));
}

/* Path and query are decoded by us, after they are split. */
static size_t leave_as_is(void *context, struct MHD_Connection *mhd, char *text) {
  (void)context, (void)mhd;
  return strlen(text);
}

static bool is_loopback(const struct sockaddr *address) {
  if (address == NULL) return false;
  if (address->sa_family == AF_INET)
    return ntohl(((const struct sockaddr_in *)(const void *)address)->sin_addr.s_addr) >> 24 == 127;
  if (address->sa_family != AF_INET6) return false;
  const struct in6_addr *v6 = &((const struct sockaddr_in6 *)(const void *)address)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(v6) || (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == 127);
}

static void on_connection(void *context, struct MHD_Connection *mhd, void **socket_context,
                          enum MHD_ConnectionNotificationCode code) {
  struct http_server *server = context;
  struct connection *connection = *socket_context;
  int fd = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CONNECTION_FD)->connect_fd;
  if (code == MHD_CONNECTION_NOTIFY_STARTED) {
    const union MHD_ConnectionInfo *peer = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    *socket_context = connections_add(&server->connections, fd, peer != NULL && is_loopback(peer->client_addr));
    if (*socket_context == NULL) (void)shutdown(fd, SHUT_RDWR);
  } else if (connection != NULL) {
    bool still_sends = connection->rejected_early || connection->state == CONNECTION_RECEIVING;
    if (still_sends && !connection->cut && !server->draining) linger_start(&server->closing, server->loop, fd);
    connections_remove(&server->connections, connection);
    server->run_due = true; /* the library looks at its full listener again only when it is run */
  }
}

static void run_library(struct http_server *server) {
  server->run_due = false;
  server->last_run_us = loop_now_us(server->loop);
  (void)MHD_run(server->daemon);
}

static void on_ready(struct loop_watch *watch, uint32_t events) {
  (void)events;
  run_library(watch->context);
}

/* What a cautious client of today speaks (https://www.gnutls.org/manual/html_node/Priority-Strings.html). */
static char tls_priorities[] = "NORMAL:-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2";

static struct MHD_Daemon *start_daemon(struct http_server *server) {
  const struct http_server_options *options = &server->options;
  unsigned flags = MHD_USE_EPOLL | MHD_USE_NO_THREAD_SAFETY | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG;
  struct MHD_OptionItem tls[] = {
      {MHD_OPTION_HTTPS_PRIORITIES, 0, tls_priorities},
      {MHD_OPTION_END, 0, NULL},
  };
  if (options->tls)
    flags |= MHD_USE_TLS;
  else
    tls[0] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
  enum MHD_OPTION with_certificate = options->tls ? MHD_OPTION_HTTPS_CERT_CALLBACK2 : MHD_OPTION_END;
  /* The log first, so that it hears of the other options. */
  return MHD_start_daemon(flags, 0, NULL, NULL, dispatch_handle, server,                               //
                          MHD_OPTION_EXTERNAL_LOGGER, on_library_log, server,                          //
                          MHD_OPTION_LISTEN_SOCKET, options->listen_fd,                                //
                          MHD_OPTION_CLIENT_DISCIPLINE_LVL, CLIENT_DISCIPLINE,                         //
                          MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_MEMORY_BYTES,         //
                          MHD_OPTION_CONNECTION_MEMORY_INCREMENT, (size_t)CONNECTION_MEMORY_INCREMENT, //
                          MHD_OPTION_CONNECTION_LIMIT, (unsigned)options->max_connections,             //
                          MHD_OPTION_URI_LOG_CALLBACK, dispatch_begin, server,                         //
                          MHD_OPTION_UNESCAPE_CALLBACK, leave_as_is, server,                           //
                          MHD_OPTION_NOTIFY_CONNECTION, on_connection, server,                         //
                          MHD_OPTION_NOTIFY_COMPLETED, dispatch_completed, server,                     //
                          MHD_OPTION_ARRAY, tls,                                                       //
                          with_certificate, certificate_retrieve,                                      //
                          MHD_OPTION_END);
}

enum status http_server_new(const struct http_server_options *options, struct http_server **out, char **error) {
  *out = NULL;
  *error = NULL;
  struct http_server *server = calloc(1, sizeof *server);
  if (server == NULL) {
    close(options->listen_fd);
    return STATUS_NO_MEMORY;
  }
  server->options = *options;
  server->loop = options->api->loop;
  server->seconds = metrics_series(METRIC_HTTP_SECONDS);
  connections_init(&server->connections, server->loop, options->request_timeout_ms, options->idle_timeout_ms,
                   options->max_connections);
  enum status status = replies_init(&server->replies, options->cors_origin);
  if (status != STATUS_OK) {
    close(options->listen_fd);
    goto out;
  }
  server->daemon = start_daemon(server);
  if (server->daemon == NULL) { /* which has closed the listener */
    *error = strdup(options->tls ? "the HTTPS server does not start" : "the HTTP server does not start");
    status = STATUS_IO;
    goto out;
  }
  server->watch = (struct loop_watch){.fd = MHD_get_daemon_info(server->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd,
                                      .events = EPOLLIN,
                                      .ready = on_ready,
                                      .context = server};
  status = loop_watch_add(server->loop, &server->watch);
  if (status != STATUS_OK) server->watch.ready = NULL;
out:
  if (status != STATUS_OK) {
    http_server_free(server);
    return status;
  }
  *out = server;
  return STATUS_OK;
}

static bool is_resting(const struct http_server *server) { return server->watch.events == 0; }

void http_server_run(struct http_server *server) {
  if (!server->run_due && !is_resting(server) && http_server_sleep_us(server) != 0) return;
  run_library(server);
}

bool http_server_may_hear(const struct http_server *server) {
  const struct connection_list *lists = server->connections.lists;
  return lists[CONNECTION_IDLE].head != NULL || lists[CONNECTION_RECEIVING].head != NULL ||
         lists[CONNECTION_SENDING].head != NULL;
}

bool http_server_rest(struct http_server *server, bool rest) {
  return loop_watch_change(server->loop, &server->watch, rest ? 0 : EPOLLIN) == STATUS_OK && rest;
}

int64_t http_server_sleep_us(struct http_server *server) {
  if (server->run_due) return 0;
  int64_t wait_ms = MHD_get_timeout64s(server->daemon);
  if (wait_ms != 0 || server->polled_count == 0) return wait_ms < 0 ? -1 : wait_ms * 1000;
  int64_t left_us = server->last_run_us + POLLED_SLEEP_US - loop_now_us(server->loop);
  return left_us > 0 ? left_us : 0;
}

void http_server_drain(struct http_server *server) {
  if (server->draining) return;
  uint64_t before = 0;
  for (int round = 0; round < ACCEPT_ROUNDS_MAX; round++) { /* the library accepts a few per run */
    before = server->connections.accepted;
    run_library(server);
    if (server->connections.accepted == before) break;
  }
  server->draining = true;
  int listen_fd = MHD_quiesce_daemon(server->daemon);
  if (listen_fd >= 0) close(listen_fd);
  replies_close_connections(&server->replies);
  connections_close(&server->connections);
  linger_stop_all(&server->closing);
}

void http_server_cut(struct http_server *server) { connections_cut_all(&server->connections); }

bool http_server_is_idle(const struct http_server *server) {
  return server->connections.count == 0 && server->requests_alive == 0;
}

void http_server_free(struct http_server *server) {
  if (server == NULL) return;
  if (server->watch.ready != NULL) loop_watch_remove(server->loop, &server->watch);
  linger_stop_all(&server->closing);
  if (server->daemon != NULL) MHD_stop_daemon(server->daemon);
  connections_stop(&server->connections);
  replies_free(&server->replies);
  directory_release(server->snapshot);
  request_pool_free(&server->requests);
  body_pool_free(&server->bodies);
  free(server);
}
