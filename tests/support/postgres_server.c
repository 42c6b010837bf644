#include "support/test.h"

#include "support/child.h"
#include "support/postgres_server.h"
#include "support/scratch.h"

#include <fcntl.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
  struct child child, standby;
  const char *folder, *log;
  const char *standby_folder; /* NULL: there is no standby */
  unsigned databases;
  bool has_template;
  int port; /* 0: none, only the socket, which is called after 5432 then */
} server;

#define TEMPLATE "presence_template"

static const char *url_in(const char *name, const char *folder) {
  const char *port = server.port > 0 ? text_format(" port=%d", server.port) : "";
  return text_format("host=%s%s user=presence dbname=%s", folder, port, name);
}

/* Both servers', where there is a standby. */
static const char *url_of(const char *name, const char *folder) {
  bool two = server.standby_folder != NULL && folder == server.folder;
  return url_in(name, two ? text_format("%s,%s", folder, server.standby_folder) : folder);
}

static const struct passwd *server_user(void) {
  const struct passwd *user = getpwnam("postgres");
  if (user == NULL) user = getpwnam("nobody");
  assert_non_null(user);
  return user;
}

static const char *program(const char *name) {
  const char *path = place_server(name);
  if (path == NULL) fail_msg("there is no %s here: run the set-up", name);
  return path;
}

/* The other user may enter the checkout, whatever its folders' modes are, by one capability. */
void postgres_server_command(const char **argv, size_t room, const char *const *words) {
  size_t count = 0;
  if (geteuid() == 0) {
    const struct passwd *user = server_user();
    const char *prefix[] = {
        "/usr/bin/setpriv", text_format("--reuid=%u", user->pw_uid), text_format("--regid=%u", user->pw_gid),
        "--clear-groups",   "--inh-caps=-all,+dac_override",         "--ambient-caps=-all,+dac_override",
        "--pdeathsig=QUIT",
    };
    for (size_t i = 0; i < LENGTH(prefix); i++) argv[count++] = prefix[i];
  }
  for (size_t i = 0; words[i] != NULL; i++) {
    assert_true(count + 1 < room);
    argv[count++] = words[i];
  }
  argv[count] = NULL;
}

static bool accepts_connections(struct child *child, const char *folder) {
  if (!child_is_running(child)) {
    postgres_server_show_log();
    fail_msg("PostgreSQL did not start");
  }
  return PQping(url_in("postgres", folder)) == PQPING_OK;
}

static void start_in(struct child *child, const char *folder) {
  bool tls = server.port > 0;
  const char *words[] = {
      program("pg-postgres"),
      "-D",
      text_format("%s/data", folder),
      "-k",
      folder,
      "-h",
      tls ? "127.0.0.1" : "",
      "-p",
      text_format("%d", tls ? server.port : 5432),
      "-c",
      text_format("ssl=%s", tls ? "on" : "off"),
      "-c",
      text_format("ssl_cert_file=%s/tls.crt", server.folder),
      "-c",
      text_format("ssl_key_file=%s/tls.key", server.folder),
      "-c",
      "fsync=off",
      "-c",
      "full_page_writes=off",
      "-c",
      "dynamic_shared_memory_type=mmap", /* in its folder, which goes away; a quick stop leaves the others' files in /dev/shm */
      "-c",
      "max_wal_size=128MB",
      "-c",
      "shared_buffers=32MB",
      "-c",
      "max_connections=60",
      "-c",
      "autovacuum=off",
      "-c",
      "jit=off",
      NULL,
  };
  const char *argv[48];
  postgres_server_command(argv, LENGTH(argv), words);
  /* Its children notice the end of the first process; SIGQUIT is its quick stop. */
  *child = child_start(&(struct child_options){.argv = argv, .log = server.log, .death_signal = SIGQUIT});
  WAIT_UNTIL(accepts_connections(child, folder), 30000);
}

static void start_process(void) { start_in(&server.child, server.folder); }

/* A killed one would leave its System V shared memory to the machine, which has room for 4096 of them. */
static void stop_quickly(struct child *child) {
  if (child->pid == 0) return;
  child_signal(child, SIGCONT);
  child_signal(child, SIGQUIT);
  for (int64_t until_ms = wait_now_ms() + 10000; child_is_running(child) && wait_now_ms() < until_ms;) wait_pause();
  child_kill(child); /* where it does not end */
}

static void stop_at_exit(void) {
  stop_quickly(&server.child);
  stop_quickly(&server.standby);
}

static const char *server_folder(const char *name) {
  const char *folder = scratch_folder(name);
  if (geteuid() == 0) assert_int_equal(chown(folder, server_user()->pw_uid, server_user()->pw_gid), 0);
  return folder;
}

static void start_once(void) {
  if (server.folder != NULL) return;
  const char *folder = server_folder("pg");
  server.log = text_format("%s.log", folder);
  const char *words[] = {program("pg-initdb"),
                         "-D",
                         text_format("%s/data", folder),
                         "--no-sync",
                         "-A",
                         "trust",
                         "-U",
                         "presence",
                         "-E",
                         "UTF8",
                         "--locale=C",
                         "--wal-segsize=1",
                         NULL};
  const char *argv[32];
  postgres_server_command(argv, LENGTH(argv), words);
  struct child initdb = child_start(&(struct child_options){.argv = argv, .log = server.log});
  if (child_wait(&initdb, 60000) != 0) {
    child_show_log("initdb", server.log);
    fail_msg("initdb failed");
  }
  server.folder = folder;
  atexit(stop_at_exit);
  start_process();
}

void postgres_server_show_log(void) { child_show_log("PostgreSQL", server.log); }

void postgres_server_kill(void) { (void)child_stop(&server.child, SIGQUIT, 10000); }

void postgres_server_restart(void) {
  assert_int_equal(server.child.pid, 0);
  start_process();
}

static void give(const char *from, const char *name) {
  const char *to = text_format("%s/%s", server.folder, name);
  size_t length = 0;
  char *text = place_read(from, &length);
  int fd = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, length), length);
  if (geteuid() == 0) assert_int_equal(fchown(fd, server_user()->pw_uid, server_user()->pw_gid), 0);
  assert_int_equal(close(fd), 0);
  free(text);
}

int postgres_server_speak_tls(const char *cert, const char *key) {
  start_once();
  postgres_server_kill();
  give(cert, "tls.crt");
  give(key, "tls.key");
  server.port = free_port();
  start_process();
  return server.port;
}

static PGconn *connect_to(const char *url) {
  PGconn *connection = PQconnectdb(text_format("%s target_session_attrs=read-write", url));
  if (PQstatus(connection) != CONNECTION_OK) fail_msg("%s", PQerrorMessage(connection));
  return connection;
}

static void administer(const char *statement) {
  PGconn *connection = connect_to(url_of("postgres", server.folder));
  PGresult *result = PQexec(connection, statement);
  if (PQresultStatus(result) != PGRES_COMMAND_OK && PQresultStatus(result) != PGRES_TUPLES_OK)
    fail_msg("%s: %s", statement, PQerrorMessage(connection));
  PQclear(result);
  PQfinish(connection);
}

void postgres_server_add_standby(void) {
  start_once();
  const char *folder = server_folder("pg-standby");
  administer(text_format("ALTER SYSTEM SET primary_conninfo = 'host=%s user=presence application_name=standby'", server.folder));
  assert_int_equal(child_stop(&server.child, SIGINT, 30000), 0);
  const char *words[] = {"/bin/sh", "-c",
                         text_format("cp -R '%s/data' '%s' && chmod 700 '%s/data' && : >'%s/data/standby.signal'", server.folder,
                                     folder, folder, folder),
                         NULL};
  const char *argv[32];
  postgres_server_command(argv, LENGTH(argv), words);
  struct child copy = child_start(&(struct child_options){.argv = argv, .log = server.log});
  assert_int_equal(child_wait(&copy, 60000), 0);
  start_process();
  start_in(&server.standby, folder);
  administer("ALTER SYSTEM SET synchronous_standby_names = 'standby'");
  administer("SELECT pg_reload_conf()");
  server.standby_folder = folder;
}

void postgres_server_fail_over(void) {
  (void)child_stop(&server.child, SIGQUIT, 10000);
  server.child = server.standby;
  server.standby = (struct child){0};
  server.folder = server.standby_folder;
  server.standby_folder = NULL;
  PGconn *connection = PQconnectdb(url_in("postgres", server.folder));
  PGresult *result = PQexec(connection, "SELECT pg_promote(true, 60)");
  if (PQresultStatus(result) != PGRES_TUPLES_OK || strcmp(PQgetvalue(result, 0, 0), "t") != 0)
    fail_msg("the standby did not become the primary: %s", PQerrorMessage(connection));
  PQclear(result);
  PQfinish(connection);
}

static void make_template(void) {
  if (server.has_template) return;
  administer("CREATE DATABASE " TEMPLATE);
  const char *log = scratch_path("migrate.log");
  const char *environment[] = {text_format("PRESENCE_POSTGRES_URL=%s", url_of(TEMPLATE, server.folder)), NULL};
  const char *argv[] = {place_built("presencectl"), "migrate", NULL};
  struct child migrate = child_start(&(struct child_options){.argv = argv, .environment = environment, .log = log});
  if (child_wait(&migrate, 30000) != 0) {
    child_show_log("presencectl migrate", log);
    fail_msg("presencectl migrate failed");
  }
  server.has_template = true;
}

void database_create(struct database *database, bool migrated) {
  start_once();
  if (migrated) make_template();
  *database = (struct database){.name = text_format("t%u", server.databases++)};
  administer(text_format("CREATE DATABASE %s TEMPLATE %s", database->name, migrated ? TEMPLATE : "template1"));
  database->url = url_of(database->name, server.folder);
  database->socket = text_format("%s/.s.PGSQL.5432", server.folder);
  database->connection = connect_to(database->url);
}

void database_drop(struct database *database) {
  if (database->name == NULL) return;
  PQfinish(database->connection);
  if (child_is_running(&server.child)) administer(text_format("DROP DATABASE %s WITH (FORCE)", database->name));
  *database = (struct database){0};
}

const char *database_url_through(const struct database *database, const char *folder) { return url_of(database->name, folder); }

PGconn *database_connect(const struct database *database) { return connect_to(database->url); }

void database_reconnect(struct database *database) {
  PQfinish(database->connection);
  database->connection = connect_to(database->url);
}

#define PARAMETERS_MAX 8

static PGresult *query(struct database *database, const char *statement, va_list arguments) {
  const char *parameters[PARAMETERS_MAX];
  int count = 0;
  for (const char *each; (each = va_arg(arguments, const char *)) != NULL;) {
    assert_true(count < PARAMETERS_MAX);
    parameters[count++] = each;
  }
  PGresult *result = PQexecParams(database->connection, statement, count, NULL, parameters, NULL, NULL, 0);
  ExecStatusType status = PQresultStatus(result);
  if (status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK)
    fail_msg("%s\n%s", statement, PQerrorMessage(database->connection));
  return result;
}

PGresult *sql_query(struct database *database, const char *statement, ...) {
  va_list arguments;
  va_start(arguments, statement);
  PGresult *result = query(database, statement, arguments);
  va_end(arguments);
  return result;
}

const char *sql_text(struct database *database, const char *statement, ...) {
  va_list arguments;
  va_start(arguments, statement);
  PGresult *result = query(database, statement, arguments);
  va_end(arguments);
  char *text = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&text, &length);
  assert_non_null(out);
  for (int row = 0; row < PQntuples(result); row++)
    for (int column = 0; column < PQnfields(result); column++)
      fprintf(out, "%s%s", column > 0 ? " " : row > 0 ? "\n" : "", PQgetvalue(result, row, column));
  fclose(out);
  PQclear(result);
  const char *kept = text_format("%s", text);
  free(text);
  return kept;
}

int64_t sql_integer(struct database *database, const char *statement, ...) {
  va_list arguments;
  va_start(arguments, statement);
  PGresult *result = query(database, statement, arguments);
  va_end(arguments);
  int64_t value = PQntuples(result) > 0 ? strtoll(PQgetvalue(result, 0, 0), NULL, 10) : 0;
  PQclear(result);
  return value;
}

const char *sql_error(struct database *database, const char *statement) {
  PGresult *result = PQexec(database->connection, statement);
  if (PQresultStatus(result) != PGRES_FATAL_ERROR) fail_msg("no error: %s", statement);
  const char *sqlstate = text_format("%s", PQresultErrorField(result, PG_DIAG_SQLSTATE));
  PQclear(result);
  return sqlstate;
}
