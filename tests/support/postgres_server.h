/* postgres_server.h: one private PostgreSQL for the test program (it does not wait for the disk), and as many fresh databases as
 * the tests like. */
#ifndef PRESENCE_TEST_POSTGRES_SERVER_H
#define PRESENCE_TEST_POSTGRES_SERVER_H

#include <libpq-fe.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct database {
  const char *name;
  const char *url;    /* a libpq connection string */
  const char *socket; /* the path of the server's socket, for a proxy before it */
  PGconn *connection;
};

/* Starts the server at the first call. migrated: with the schema, copied from a database that `presencectl migrate` made once. */
void database_create(struct database *database, bool migrated);
void database_drop(struct database *database); /* also when it was never made; ends connections to it */
/* The connection string of the same database through another socket folder. */
const char *database_url_through(const struct database *database, const char *folder);
/* A further connection; the caller PQfinish()es it. */
PGconn *database_connect(const struct database *database);

void postgres_server_kill(void);    /* immediate shutdown: clients are cut, the next start recovers */
void postgres_server_restart(void); /* reconnects no database: see database_reconnect */
/* From here on it also listens on 127.0.0.1, at the port returned, with TLS. Before the first database is made. */
int postgres_server_speak_tls(const char *cert, const char *key);
void database_reconnect(struct database *database);
void postgres_server_show_log(void);

/* A second server that follows the first; nothing is committed that it does not have. Databases made from then on have both hosts
 * in their connection strings. Once in a program. */
void postgres_server_add_standby(void);
/* The first server ends in the middle of whatever it does; the second one becomes the primary. */
void postgres_server_fail_over(void);

/* Fills argv with the words of a command that does not run as root, as PostgreSQL and PgBouncer: another user does it then. */
void postgres_server_command(const char **argv, size_t room, const char *const *words);

/* One statement; text parameters, NULL-terminated, are $1, $2 …; never an error. The caller PQclear()s. */
PGresult *sql_query(struct database *database, const char *statement, ...) __attribute__((sentinel));
/* Its first value as text ("" for null or no row), all columns of all rows with " " between and "\n" after each row but the last.
 */
const char *sql_text(struct database *database, const char *statement, ...) __attribute__((sentinel));
int64_t sql_integer(struct database *database, const char *statement, ...) __attribute__((sentinel));
/* The SQLSTATE of a statement that must be an error. */
const char *sql_error(struct database *database, const char *statement);

#endif
