/* Migrations: the files of migrations/ in the order of their numbers, each in a transaction of its own that holds a lock, so that
 * two processes at once take turns. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "embedded.h"
#include "hash.h"
#include "outbox.h"

#define SHA256_TEXT_MAX (2 * HASH_SHA256_BYTES + 1)

/* presence.append's lock is (7021947, 1). The statement limit is for work, not for changing large tables. */
#define BEGIN_SQL "BEGIN; SET LOCAL statement_timeout = 0; SELECT pg_advisory_xact_lock(7021947, 0);"

static void set_message(char **message, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void set_message(char **message, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  free(*message);
  if (vasprintf(message, format, arguments) < 0) *message = NULL;
  va_end(arguments);
}

/* "0002_append.sql" → 2; STATUS_INVALID for any other form. */
static enum status file_version(const struct embedded_file *file, int64_t *version) {
  const char *underscore = strchr(file->name, '_');
  if (underscore == NULL) return STATUS_INVALID;
  return str_to_int64((struct str){file->name, (size_t)(underscore - file->name)}, version);
}

static enum status file_sha256(const struct embedded_file *file, char text[SHA256_TEXT_MAX]) {
  uint8_t digest[HASH_SHA256_BYTES];
  enum status status = hash_sha256((struct str){file->bytes, file->length}, digest);
  if (status != STATUS_OK) return status;
  hex_encode(digest, sizeof digest, text);
  text[SHA256_TEXT_MAX - 1] = '\0';
  return STATUS_OK;
}

/* Runs SQL inside the transaction at hand. On an error *message says where it happened and the connection is dropped. */
static enum status run(struct pg_client *client, const char *what, const char *sql, char **message) {
  PGresult *result;
  enum status status = pg_client_script(client, sql, &result);
  PQclear(result);
  if (status != STATUS_OK) set_message(message, "%s: %s", what, pg_client_error(client));
  return status;
}

/* Whether the file has been applied; STATUS_REFUSED where another file of this number has. */
static enum status find_applied(struct pg_client *client, int64_t version, const struct embedded_file *file, const char *sha256,
                                bool *applied, char **message) {
  char version_text[24];
  (void)snprintf(version_text, sizeof version_text, "%" PRId64, version);
  const char *parameters[] = {version_text};
  PGresult *result;
  enum status status =
      pg_client_exec(client, "SELECT name, sha256 FROM presence.migration WHERE version = $1", 1, parameters, &result);
  if (status != STATUS_OK) {
    set_message(message, "%s", pg_client_error(client));
  } else {
    *applied = PQntuples(result) == 1;
    if (*applied && strcmp(PQgetvalue(result, 0, 1), sha256) != 0) {
      set_message(message, "migration %s has been applied to this database with other contents (as %s)", file->name,
                  PQgetvalue(result, 0, 0));
      status = STATUS_REFUSED;
    }
  }
  PQclear(result);
  return status;
}

static enum status record(struct pg_client *client, int64_t version, const struct embedded_file *file, const char *sha256,
                          char **message) {
  char version_text[24];
  (void)snprintf(version_text, sizeof version_text, "%" PRId64, version);
  const char *parameters[] = {version_text, file->name, sha256};
  PGresult *result;
  enum status status = pg_client_exec(client, "INSERT INTO presence.migration (version, name, sha256) VALUES ($1, $2, $3)", 3,
                                      parameters, &result);
  PQclear(result);
  if (status != STATUS_OK) set_message(message, "%s: %s", file->name, pg_client_error(client));
  return status;
}

static enum status apply(struct pg_client *client, const struct embedded_file *file, size_t *applied_count, char **message) {
  int64_t version = 0;
  char sha256[SHA256_TEXT_MAX];
  bool applied = false;
  enum status status = file_version(file, &version);
  if (status != STATUS_OK) {
    set_message(message, "%s is no name of a migration", file->name);
    return status;
  }
  status = file_sha256(file, sha256);
  if (status == STATUS_OK) status = run(client, "migrations", BEGIN_SQL, message);
  if (status != STATUS_OK) return status;
  if (version > 0) status = find_applied(client, version, file, sha256, &applied, message);
  if (status == STATUS_OK && !applied) status = run(client, file->name, file->bytes, message);
  if (status == STATUS_OK && !applied && version > 0) status = record(client, version, file, sha256, message);
  if (status == STATUS_OK) status = run(client, file->name, "COMMIT", message);
  if (status == STATUS_OK && !applied && version > 0) (*applied_count)++;
  if (status == STATUS_REFUSED) { /* nothing of this file stays */
    PGresult *result;
    enum status rolled_back = pg_client_script(client, "ROLLBACK", &result);
    PQclear(result);
    (void)rolled_back; /* where it fails the connection is gone, and the transaction with it */
  }
  return status;
}

/* Names hold any Unicode character and metadata as well. */
static enum status check_encoding(struct pg_client *client, char **message) {
  PGconn *connection;
  enum status status = pg_client_connection(client, &connection);
  if (status != STATUS_OK) {
    set_message(message, "%s", pg_client_error(client));
    return status;
  }
  const char *encoding = PQparameterStatus(connection, "server_encoding");
  if (encoding != NULL && strcmp(encoding, "UTF8") == 0) return STATUS_OK;
  set_message(message, "the database's encoding is %s; it must be UTF8", encoding == NULL ? "unknown" : encoding);
  return STATUS_REFUSED;
}

enum status outbox_migrate(struct pg_client *client, size_t *applied, char **message) {
  *applied = 0;
  *message = NULL;
  enum status status = check_encoding(client, message);
  for (size_t i = 0; i < embedded_migrations_count && status == STATUS_OK; i++) {
    status = apply(client, &embedded_migrations[i], applied, message);
  }
  return status;
}

static enum status newest_version(int64_t *version) {
  *version = 0;
  return embedded_migrations_count == 0 ? STATUS_OK : file_version(&embedded_migrations[embedded_migrations_count - 1], version);
}

/* One number of the database; STATUS_NOT_FOUND where the row, or the table it would be in, is not there. */
static enum status ask_number(struct pg_client *client, const char *sql, int count, const char *const *parameters,
                              int64_t *number) {
  PGresult *result;
  enum status status = pg_client_exec(client, sql, count, parameters, &result);
  if (status == STATUS_REFUSED) {
    const char *sqlstate = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    bool missing = strcmp(sqlstate, "42P01") == 0 || strcmp(sqlstate, "3F000") == 0; /* no such table, no such schema */
    status = missing ? STATUS_NOT_FOUND : STATUS_UNAVAILABLE;
  } else if (status == STATUS_OK && (PQntuples(result) == 0 || PQgetisnull(result, 0, 0))) {
    status = STATUS_NOT_FOUND;
  } else if (status == STATUS_OK) {
    status = str_to_int64(str_from(PQgetvalue(result, 0, 0)), number) == STATUS_OK ? STATUS_OK : STATUS_PROTOCOL;
  }
  PQclear(result);
  return status;
}

enum status outbox_check_deployment(struct pg_client *client, int64_t partitions, char **message) {
  *message = NULL;
  int64_t wanted, found = 0, recorded = 0;
  enum status status = newest_version(&wanted);
  if (status == STATUS_OK) status = ask_number(client, "SELECT max(version) FROM presence.migration", 0, NULL, &found);
  if (status == STATUS_NOT_FOUND || (status == STATUS_OK && found < wanted)) {
    set_message(message,
                "the database's schema version is %" PRId64 ", this program needs %" PRId64 ": run `presencectl migrate`", found,
                wanted);
    return STATUS_REFUSED;
  }
  if (status != STATUS_OK) return status;
  char partitions_text[24];
  (void)snprintf(partitions_text, sizeof partitions_text, "%" PRId64, partitions);
  const char *parameters[] = {partitions_text};
  status = ask_number(client, "SELECT presence.record_partitions($1)", 1, parameters, &recorded);
  if (status != STATUS_OK) return status;
  if (recorded == partitions) return STATUS_OK;
  set_message(message,
              "this deployment was made with PRESENCE_PARTITIONS=%" PRId64 ", not %" PRId64
              ": every device's place depends on it",
              recorded, partitions);
  return STATUS_REFUSED;
}
