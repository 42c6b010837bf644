/* A connection that is made when needed and dropped at the first doubt. libpq is used in its non-blocking way, so that no wait is
 * without a limit and pg_client_interrupt can end any of them: a statement given up is repeated by its caller anyway. */
#include "pg.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "hash.h"

#define CONNECT_LIMIT_MS 3000
/* The server's own limit is told to it in pg_session_settings; the client gives up a little later, on a server that hangs. */
#define STATEMENT_LIMIT_MS 40000 /* unless pg_client_limit says otherwise */
#define NO_LIMIT_MS (-1)
#define BACKOFF_FIRST_US INT64_C(50000)
#define BACKOFF_LAST_US INT64_C(2000000)

struct pg_client {
  char *url;
  char *application_name;
  const struct clock *clock;
  PGconn *connection;  /* NULL: none */
  int interrupt_fd;    /* eventfd: readable for ever once interrupted */
  int64_t next_try_us; /* no connecting before */
  int64_t backoff_us;  /* 0 after a statement that worked */
  uint64_t connects;
  int64_t limit_ms; /* 0: STATEMENT_LIMIT_MS */
  atomic_bool up;
  char error[512];
};

/* presence.append relies on READ COMMITTED, whatever the database's default. A limit the operator has set stays. */
static const char pg_session_settings[] =
    "SET default_transaction_isolation = 'read committed';"
    "SELECT set_config('statement_timeout', '30s', false) WHERE current_setting('statement_timeout') = '0'";

enum status pg_client_new(const char *url, const char *application_name, const struct clock *clock, struct pg_client **client) {
  PQconninfoOption *options = PQconninfoParse(url, NULL); /* its message may quote a password: not used */
  if (options == NULL) return STATUS_INVALID;
  PQconninfoFree(options);
  struct pg_client *new = calloc(1, sizeof *new);
  if (new == NULL) return STATUS_NO_MEMORY;
  new->clock = clock;
  new->url = strdup(url);
  new->application_name = strdup(application_name);
  new->interrupt_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (new->url == NULL || new->application_name == NULL || new->interrupt_fd < 0) {
    enum status status = new->interrupt_fd < 0 ? STATUS_IO : STATUS_NO_MEMORY;
    pg_client_free(new);
    return status;
  }
  *client = new;
  return STATUS_OK;
}

void pg_client_free(struct pg_client *client) {
  if (client == NULL) return;
  PQfinish(client->connection);
  if (client->interrupt_fd >= 0) close(client->interrupt_fd);
  free(client->url);
  free(client->application_name);
  free(client);
}

const char *pg_client_error(const struct pg_client *client) { return client->error; }

bool pg_client_is_up(const struct pg_client *client) { return atomic_load_explicit(&client->up, memory_order_relaxed); }

void pg_client_limit(struct pg_client *client, int64_t limit_ms) { client->limit_ms = limit_ms; }

void pg_client_interrupt(struct pg_client *client) {
  uint64_t one = 1;
  ssize_t written = write(client->interrupt_fd, &one, sizeof one); /* fails only where it is readable already */
  (void)written;
}

/* Keeps message as one line: libpq's have several. */
static void keep_error(struct pg_client *client, const char *message) {
  size_t len = 0;
  for (const char *at = message; *at != '\0' && len < sizeof client->error - 1; at++) {
    bool blank = *at == '\n' || *at == '\t' || *at == ' ';
    if (!blank)
      client->error[len++] = *at;
    else if (len > 0 && client->error[len - 1] != ' ')
      client->error[len++] = ' ';
  }
  while (len > 0 && client->error[len - 1] == ' ') len--;
  client->error[len] = '\0';
}

static void drop_connection(struct pg_client *client) {
  PQfinish(client->connection);
  client->connection = NULL;
  atomic_store_explicit(&client->up, false, memory_order_relaxed);
  uint32_t random = 0;
  if (random_bytes(&random, sizeof random) != STATUS_OK) random = 0; /* without jitter then */
  int64_t delay_us = client->backoff_us / 2 + (int64_t)(random % 1024) * (client->backoff_us / 2) / 1024;
  client->next_try_us = clock_monotonic_us(client->clock) + delay_us;
  client->backoff_us = client->backoff_us == 0                    ? BACKOFF_FIRST_US
                       : client->backoff_us < BACKOFF_LAST_US / 2 ? client->backoff_us * 2
                                                                  : BACKOFF_LAST_US;
}

/* Waits until the socket is ready. deadline_us: on the monotonic clock, or NO_LIMIT_MS. */
static enum status wait_socket(struct pg_client *client, short events, int64_t deadline_us) {
  for (;;) {
    int timeout_ms = -1;
    if (deadline_us >= 0) {
      int64_t left_us = deadline_us - clock_monotonic_us(client->clock);
      timeout_ms = left_us > 0 ? (int)((left_us + 999) / 1000) : 0;
    }
    struct pollfd fds[] = {{.fd = PQsocket(client->connection), .events = events},
                           {.fd = client->interrupt_fd, .events = POLLIN}};
    int ready = poll(fds, 2, timeout_ms);
    if (ready < 0 && errno == EINTR) continue;
    if (ready < 0) {
      keep_error(client, "poll failed");
      return STATUS_IO;
    }
    if (fds[1].revents != 0) {
      keep_error(client, "interrupted");
      return STATUS_CLOSED;
    }
    if (ready > 0) return STATUS_OK;
    keep_error(client, "no answer in time");
    return STATUS_TIMEOUT;
  }
}

static int64_t deadline_after(const struct pg_client *client, int64_t limit_ms) {
  return limit_ms == NO_LIMIT_MS ? NO_LIMIT_MS : clock_monotonic_us(client->clock) + limit_ms * 1000;
}

static int64_t statement_deadline(const struct pg_client *client) {
  return deadline_after(client, client->limit_ms > 0 ? client->limit_ms : STATEMENT_LIMIT_MS);
}

static bool is_interrupted(const struct pg_client *client) {
  struct pollfd fd = {.fd = client->interrupt_fd, .events = POLLIN};
  return poll(&fd, 1, 0) > 0;
}

static void ignore_notice(void *context, const PGresult *notice) {
  (void)context;
  (void)notice;
}

/* Makes client->connection, with the deadline; on failure the caller drops it. */
static enum status connect_socket(struct pg_client *client) {
  /* Later words win, and the URL stands in their middle: what is before it are defaults, what is after it is not negotiable. */
  const char *const keywords[] = {"keepalives_idle",
                                  "keepalives_interval",
                                  "keepalives_count",
                                  "tcp_user_timeout",
                                  "dbname",
                                  "fallback_application_name",
                                  "client_encoding",
                                  "target_session_attrs",
                                  NULL};
  const char *const values[] = {"10", "3", "3", "15000", client->url, client->application_name, "UTF8", "read-write", NULL};
  client->connection = PQconnectStartParams(keywords, values, 1);
  if (client->connection == NULL) {
    keep_error(client, "out of memory");
    return STATUS_NO_MEMORY;
  }
  PQsetNoticeReceiver(client->connection, ignore_notice, NULL);
  int64_t deadline_us = deadline_after(client, CONNECT_LIMIT_MS);
  if (PQstatus(client->connection) == CONNECTION_BAD) goto refused;
  for (PostgresPollingStatusType step = PGRES_POLLING_WRITING; step != PGRES_POLLING_OK;
       step = PQconnectPoll(client->connection)) {
    if (step == PGRES_POLLING_FAILED) goto refused;
    enum status status = wait_socket(client, step == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline_us);
    if (status != STATUS_OK) return status;
  }
  return STATUS_OK;
refused:
  keep_error(client, PQerrorMessage(client->connection));
  return STATUS_CLOSED;
}

/* Sends what libpq has buffered; reads meanwhile, so that the server is not stuck on its own output. */
static enum status flush_statement(struct pg_client *client, int64_t deadline_us) {
  for (;;) {
    int pending = PQflush(client->connection);
    if (pending == 0) return STATUS_OK;
    enum status status = pending < 0 ? STATUS_CLOSED : wait_socket(client, POLLIN | POLLOUT, deadline_us);
    if (status == STATUS_OK && PQconsumeInput(client->connection) == 1) continue;
    if (status == STATUS_OK || pending < 0) keep_error(client, PQerrorMessage(client->connection));
    return STATUS_CLOSED;
  }
}

/* libpq keeps notifications until they are fetched. Through PgBouncer they may be anybody's. */
static void drop_notifications(struct pg_client *client) {
  for (PGnotify *notification; (notification = PQnotifies(client->connection)) != NULL;) PQfreemem(notification);
}

/* Reads results until the last; *result is the first error or the last result. */
static enum status collect_result(struct pg_client *client, int64_t deadline_us, PGresult **result) {
  for (;;) {
    while (PQisBusy(client->connection)) {
      if (wait_socket(client, POLLIN, deadline_us) != STATUS_OK) return STATUS_CLOSED;
      if (PQconsumeInput(client->connection) == 0) goto broken;
    }
    PGresult *next = PQgetResult(client->connection);
    if (next == NULL) break;
    bool keep_first = *result != NULL && PQresultStatus(*result) == PGRES_FATAL_ERROR;
    PQclear(keep_first ? next : *result);
    if (!keep_first) *result = next;
  }
  drop_notifications(client);
  if (*result != NULL && PQstatus(client->connection) == CONNECTION_OK) return STATUS_OK;
broken:
  keep_error(client, PQerrorMessage(client->connection));
  return STATUS_CLOSED;
}

/* What a whole answer means. */
static enum status judge_result(struct pg_client *client, const PGresult *result) {
  switch (PQresultStatus(result)) {
  case PGRES_COMMAND_OK:
  case PGRES_TUPLES_OK:
  case PGRES_EMPTY_QUERY:
    client->backoff_us = 0;
    atomic_store_explicit(&client->up, true, memory_order_relaxed);
    return STATUS_OK;
  case PGRES_FATAL_ERROR: break;
  default: keep_error(client, "an answer of an unexpected kind"); return STATUS_CLOSED;
  }
  keep_error(client, PQresultErrorMessage(result));
  const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
  /* none: libpq's own; 25006: turned read-only, a primary is elsewhere; 57P0x: shutting down */
  if (sqlstate == NULL || strcmp(sqlstate, "25006") == 0 || strncmp(sqlstate, "57P0", 4) == 0) return STATUS_CLOSED;
  client->backoff_us = 0;
  atomic_store_explicit(&client->up, true, memory_order_relaxed);
  return STATUS_REFUSED;
}

/* `sent` is what PQsendQuery… said. Anything but STATUS_OK drops the connection. */
static enum status send_statement(struct pg_client *client, int sent, int64_t deadline_us) {
  enum status status = STATUS_CLOSED;
  if (sent == 1)
    status = flush_statement(client, deadline_us);
  else
    keep_error(client, PQerrorMessage(client->connection));
  if (status != STATUS_OK) drop_connection(client);
  return status;
}

static enum status receive_statement(struct pg_client *client, int64_t deadline_us, PGresult **result) {
  enum status status = collect_result(client, deadline_us, result);
  if (status == STATUS_OK) status = judge_result(client, *result);
  if (status == STATUS_OK || status == STATUS_REFUSED) return status;
  drop_connection(client);
  return STATUS_CLOSED;
}

static enum status run_script(struct pg_client *client, const char *sql, int64_t limit_ms, PGresult **result) {
  int64_t deadline_us = deadline_after(client, limit_ms);
  enum status status = send_statement(client, PQsendQuery(client->connection, sql), deadline_us);
  return status == STATUS_OK ? receive_statement(client, deadline_us, result) : status;
}

static enum status connect_session(struct pg_client *client) {
  if (connect_socket(client) != STATUS_OK || PQsetnonblocking(client->connection, 1) != 0) {
    drop_connection(client);
    return STATUS_UNAVAILABLE;
  }
  PGresult *result = NULL;
  enum status status = run_script(client, pg_session_settings, CONNECT_LIMIT_MS, &result);
  PQclear(result);
  if (status == STATUS_REFUSED) drop_connection(client);
  if (status == STATUS_OK) client->connects++;
  return status == STATUS_OK ? STATUS_OK : STATUS_UNAVAILABLE;
}

/* A server that went away while nothing was asked of it: better seen before a statement is sent than after. Its last words come
 * first, the end of the stream only with the next read. */
static void drop_if_closed(struct pg_client *client) {
  enum { READS_MAX = 16 };
  struct pollfd fd = {.fd = PQsocket(client->connection), .events = POLLIN};
  for (int reads = 0; reads < READS_MAX && poll(&fd, 1, 0) > 0; reads++) {
    bool open = PQconsumeInput(client->connection) == 1 && PQstatus(client->connection) == CONNECTION_OK;
    drop_notifications(client);
    if (open) continue;
    keep_error(client, PQerrorMessage(client->connection));
    drop_connection(client);
    return;
  }
}

enum status pg_client_connection(struct pg_client *client, PGconn **connection) {
  if (is_interrupted(client)) return STATUS_UNAVAILABLE;
  if (client->connection != NULL) drop_if_closed(client);
  if (client->connection == NULL) {
    if (clock_monotonic_us(client->clock) < client->next_try_us) return STATUS_UNAVAILABLE;
    enum status status = connect_session(client);
    if (status != STATUS_OK) return status;
  }
  *connection = client->connection;
  return STATUS_OK;
}

void pg_client_end_backoff(struct pg_client *client) { client->next_try_us = INT64_MIN; }

uint64_t pg_client_connects(const struct pg_client *client) { return client->connects; }

void pg_client_wait(struct pg_client *client, int wake_fd, int64_t timeout_ms) {
  struct pollfd fds[] = {{.fd = wake_fd, .events = POLLIN},
                         {.fd = client->interrupt_fd, .events = POLLIN},
                         {.fd = client->connection != NULL ? PQsocket(client->connection) : -1, .events = POLLIN}};
  int limit_ms = timeout_ms > INT_MAX ? INT_MAX : (int)timeout_ms;
  if (poll(fds, sizeof fds / sizeof fds[0], limit_ms) > 0 && fds[2].revents != 0) drop_if_closed(client);
}

enum status pg_client_send(struct pg_client *client, const char *sql, int parameter_count, const Oid *types,
                           const char *const *values, const int *lengths, const int *formats, int result_format) {
  PGconn *connection;
  enum status status = pg_client_connection(client, &connection);
  if (status != STATUS_OK) return status;
  int sent = PQsendQueryParams(connection, sql, parameter_count, types, values, lengths, formats, result_format);
  return send_statement(client, sent, statement_deadline(client));
}

enum status pg_client_receive(struct pg_client *client, PGresult **result) {
  *result = NULL;
  return receive_statement(client, statement_deadline(client), result);
}

enum status pg_client_exec_params(struct pg_client *client, const char *sql, int parameter_count, const Oid *types,
                                  const char *const *values, const int *lengths, const int *formats, int result_format,
                                  PGresult **result) {
  *result = NULL;
  enum status status = pg_client_send(client, sql, parameter_count, types, values, lengths, formats, result_format);
  return status == STATUS_OK ? pg_client_receive(client, result) : status;
}

enum status pg_client_exec(struct pg_client *client, const char *sql, int parameter_count, const char *const *parameters,
                           PGresult **result) {
  return pg_client_exec_params(client, sql, parameter_count, NULL, parameters, NULL, NULL, 0, result);
}

enum status pg_client_script(struct pg_client *client, const char *sql, PGresult **result) {
  *result = NULL;
  PGconn *connection;
  enum status status = pg_client_connection(client, &connection);
  if (status != STATUS_OK) return status;
  status = run_script(client, sql, NO_LIMIT_MS, result);
  if (status == STATUS_REFUSED && PQtransactionStatus(client->connection) != PQTRANS_IDLE) drop_connection(client);
  return status;
}
