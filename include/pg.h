/* pg.h: one PostgreSQL connection for one thread, kept alive across failures. Blocking: never on an API loop. */
#ifndef PRESENCE_PG_H
#define PRESENCE_PG_H

#include <libpq-fe.h>
#include <stdbool.h>

#include "clock.h"
#include "status.h"
#include "str.h"

struct pg_client;

/* url (any libpq connection string) is copied. application_name shows in pg_stat_activity. Does not connect yet.
 * STATUS_INVALID where url cannot be parsed. */
enum status pg_client_new(const char *url, const char *application_name, const struct clock *clock,
                          struct pg_client **client) MUST_CHECK;
void pg_client_free(struct pg_client *client);

/* A usable connection, connecting if needed (a connect timeout and a statement limit are set, TCP keep-alives on, a read-only
 * server is refused: target_session_attrs=read-write). STATUS_UNAVAILABLE while it can't; back-off (50 ms doubling to 2 s with
 * jitter) makes repeated calls cheap: it returns at once until the next try is due. */
enum status pg_client_connection(struct pg_client *client, PGconn **connection) MUST_CHECK;
/* Another connection has just reached the server: the next call may connect at once. */
void pg_client_end_backoff(struct pg_client *client);

/* Any statement, in one piece and in autocommit: text parameters (NULL = null). A broken connection is dropped, so that the next
 * call connects anew: STATUS_CLOSED = the effect is unknown. STATUS_REFUSED = PostgreSQL answered with an error: *result then
 * holds it (PQresultErrorField). 25006 (read-only) and 57P0x (shutting down) drop the connection too and count as CLOSED.
 * The caller PQclear()s *result, also when NULL. */
enum status pg_client_exec(struct pg_client *client, const char *sql, int parameter_count, const char *const *parameters,
                           PGresult **result) MUST_CHECK;
/* The same with types, lengths and formats as PQexecParams takes them (binary arrays). */
enum status pg_client_exec_params(struct pg_client *client, const char *sql, int parameter_count, const Oid *types,
                                  const char *const *values, const int *lengths, const int *formats, int result_format,
                                  PGresult **result) MUST_CHECK;
/* Its two halves: after pg_client_send the statement is on its way, whole; pg_client_receive waits for the answer. */
enum status pg_client_send(struct pg_client *client, const char *sql, int parameter_count, const Oid *types,
                           const char *const *values, const int *lengths, const int *formats, int result_format) MUST_CHECK;
enum status pg_client_receive(struct pg_client *client, PGresult **result) MUST_CHECK;

/* How long pg_client_send and pg_client_receive, each, wait for a server that hangs, from now on; 0: the limit as it was at
 * first, somewhat longer than the server's own. */
void pg_client_limit(struct pg_client *client, int64_t limit_ms);

/* Several statements at once, without parameters and without the statement limit; one implicit transaction unless it says BEGIN.
 * *result is the last statement's or the first error's. After an error in a transaction that it began the connection is dropped.
 */
enum status pg_client_script(struct pg_client *client, const char *sql, PGresult **result) MUST_CHECK;

/* How many connections it has made so far. What a statement has set up in a session (LISTEN) is gone with the next one. */
uint64_t pg_client_connects(const struct pg_client *client);
/* Waits until the server says something unasked (a notification; its end), wake_fd is readable, or the client is interrupted; at
 * most timeout_ms, -1: without a limit. Notifications are not kept: only that one came counts. */
void pg_client_wait(struct pg_client *client, int wake_fd, int64_t timeout_ms);

/* The last error as one line without secrets; valid until the next call. */
const char *pg_client_error(const struct pg_client *client);
bool pg_client_is_up(const struct pg_client *client);
/* For a quick stop: whatever waits for PostgreSQL ends at once (STATUS_CLOSED, or UNAVAILABLE while connecting), and every later
 * call is STATUS_UNAVAILABLE. Any thread. */
void pg_client_interrupt(struct pg_client *client);

#endif
