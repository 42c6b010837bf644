/* A named consumer in C:  cc -o consumer consumer.c $(pkg-config --cflags --libs libpq) && ./consumer billing
 *
 * The database is that of libpq's variables (PGHOST, PGDATABASE, ...). With a second word, "once", it ends when all is read. */
#include <libpq-fe.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PAGE_ROWS = 500 };

/* Your own effect. In this database: in the same transaction, and it happens exactly once. Elsewhere: drop repeats by id. */
static void handle(const PGresult *rows, int i) {
  printf("%s %s %s %s %s\n", PQgetvalue(rows, i, 0), PQgetvalue(rows, i, 1), PQgetvalue(rows, i, 2), PQgetvalue(rows, i, 3),
         PQgetvalue(rows, i, 4));
}

static int run(PGconn *connection, const char *sql) {
  PGresult *result = PQexec(connection, sql);
  int ok = PQresultStatus(result) == PGRES_COMMAND_OK;
  PQclear(result);
  return ok;
}

static PGresult *ask(PGconn *connection, const char *sql, const char *name, const char *number) {
  const char *parameters[] = {name, number};
  return PQexecParams(connection, sql, number ? 2 : 1, NULL, parameters, NULL, NULL, 0);
}

/* Reads and handles one page: how many rows, -1 after an error. */
static int turn(PGconn *connection, const char *name) {
  if (!run(connection, "BEGIN")) return -1;
  PGresult *rows = ask(connection,
                       "SELECT seq, id, type, tenant || '/' || device, coalesce(payload->>'reason', '-')"
                       " FROM presence.poll($1, $2::int)",
                       name, "500"); /* locks the cursor until COMMIT: a second process of this name waits */
  int count = PQresultStatus(rows) == PGRES_TUPLES_OK ? PQntuples(rows) : -1;
  for (int i = 0; i < count; i++) handle(rows, i);
  if (count > 0) {
    PGresult *moved = ask(connection, "SELECT presence.commit($1, $2::bigint)", name, PQgetvalue(rows, count - 1, 0));
    if (PQresultStatus(moved) != PGRES_TUPLES_OK) count = -1;
    PQclear(moved);
  }
  PQclear(rows);
  if (count < 0) fprintf(stderr, "%s", PQerrorMessage(connection)); /* SQLSTATE PR410: rows were dropped unread */
  return run(connection, count < 0 ? "ROLLBACK" : "COMMIT") ? count : -1;
}

int main(int argc, char **argv) {
  if (argc < 2) return fprintf(stderr, "usage: consumer NAME [once]\n"), 2;
  int once = argc > 2 && strcmp(argv[2], "once") == 0;
  PGconn *connection = PQconnectdb("");
  PQclear(ask(connection, "SELECT presence.create_consumer($1, 'oldest')", argv[1], NULL)); /* fails where it exists: fine */
  for (;;) {
    int count = turn(connection, argv[1]);
    if (fflush(stdout) != 0) return 1;
    if (count == PAGE_ROWS) continue; /* there is more */
    if (once) return PQfinish(connection), count < 0;
    sleep(1);
    if (PQstatus(connection) != CONNECTION_OK) PQreset(connection);
  }
}
