#include "support/test.h"

#include "support/pgbouncer.h"
#include "support/scratch.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

enum { PORT = 6432, SERVER_CONNECTIONS = 4 };

bool pgbouncer_is_here(void) { return place_server("pgbouncer") != NULL; }

const char *pgbouncer_url(const struct pgbouncer *pooler, const struct database *database) {
  return text_format("host=%s port=%d user=presence dbname=%s", pooler->folder, PORT, database->name);
}

static bool accepts_connections(struct pgbouncer *pooler, const struct database *database) {
  if (!child_is_running(&pooler->child)) {
    child_show_log("PgBouncer", pooler->child.log);
    fail_msg("PgBouncer did not start");
  }
  return PQping(pgbouncer_url(pooler, database)) == PQPING_OK;
}

void pgbouncer_start(struct pgbouncer *pooler, const struct database *database) {
  pooler->folder = scratch_folder("pb");
  const char *settings = text_format("%s/pgbouncer.ini", pooler->folder);
  const char *socket_name = strrchr(database->socket, '/');
  FILE *file = fopen(settings, "w");
  assert_non_null(file);
  fprintf(file,
          "[databases]\n* = host=%.*s user=presence\n[pgbouncer]\nlisten_addr =\nlisten_port = %d\nunix_socket_dir = %s\n"
          "auth_type = any\npool_mode = transaction\ndefault_pool_size = %d\nmax_client_conn = 100\n",
          (int)(socket_name - database->socket), database->socket, PORT, pooler->folder, SERVER_CONNECTIONS);
  assert_int_equal(fclose(file), 0);
  const char *argv[32];
  postgres_server_command(argv, LENGTH(argv), (const char *const[]){place_server("pgbouncer"), settings, NULL});
  pooler->child = child_start(&(struct child_options){.argv = argv, .log = text_format("%s.log", pooler->folder)});
  WAIT_UNTIL(accepts_connections(pooler, database), 15000);
}

void pgbouncer_stop(struct pgbouncer *pooler) { (void)child_stop(&pooler->child, SIGTERM, 10000); }
