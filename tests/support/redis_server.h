/* redis_server.h: a private Redis on a Unix socket, in one of the dialects, its clock in the test's hands where wanted. */
#ifndef PRESENCE_TEST_REDIS_SERVER_H
#define PRESENCE_TEST_REDIS_SERVER_H

#include <hiredis/hiredis.h>
#include <stdbool.h>
#include <stdint.h>

#include "support/child.h"
#include "support/host_clock.h"

/* How the service speaks to it. COMPAT_OLD is a real Redis 7.0 and skips the test where the machine has none. */
enum dialect { DIALECT_NATIVE, DIALECT_HPEXPIRE, DIALECT_COMPAT, DIALECT_COMPAT_OLD };
#define DIALECT_COUNT 4
const char *dialect_name(enum dialect dialect);
const char *dialect_mode(enum dialect dialect); /* the value of PRESENCE_REDIS_MODE */
bool dialect_is_here(enum dialect dialect);     /* false: there is no such server on this machine */
/* Where all tests run on one server (`make matrix`) that cannot do this dialect: the best that it can. A server is started with
 * it. */
enum dialect dialect_or_instead(enum dialect dialect);

struct redis_options {
  enum dialect dialect;
  bool own_clock;            /* the test moves server.clock (timeshim.h) */
  int64_t clock_ms;          /* … which stands still at this time from the start; 0: it shows the real time */
  bool appendonly;           /* survives redis_server_restart */
  bool rewrites_config;      /* others may have it rewrite its configuration file (Sentinels do): it gets one of its own */
  const char *const *config; /* further "name", "value" pairs, NULL-terminated; may be NULL */
  const char *login;         /* "USER PASSWORD" of the test's own connections, where the server asks for them; NULL: none */
};

struct redis_server {
  struct child child;
  enum dialect dialect;
  const char *socket; /* the path */
  const char *url;    /* unix://… */
  redisContext *context;
  struct timeshim *clock; /* NULL: the real time */
  /* private */
  const char *folder;
  struct host_clock host_clock;
  struct redis_options options;
};

/* Answers PING when it returns. */
void redis_server_start(struct redis_server *server, const struct redis_options *options);
void redis_server_stop(struct redis_server *server); /* also when it was never started */
void redis_server_kill(struct redis_server *server); /* kill -9; the folder stays */
/* After a stop or kill: the same folder and socket, a new process (and run_id). */
void redis_server_restart(struct redis_server *server);

/* From here on its clock stands still at now_ms. Valkey 9.1 looks at the clock once in a millisecond: it has seen the new time
 * when this returns. */
void redis_server_fix_clock(struct redis_server *server, int64_t now_ms);
/* A new context: a fail-over ends all connections, the test's too. */
void redis_server_reconnect(struct redis_server *server);
/* A further connection to any server's socket, the caller's to free; login as in redis_options. NULL: it does not answer. */
redisContext *redis_dial(const char *socket, const char *login);

/* One command on the server's own context, printf-style as redisCommand; never an error reply. The caller frees. */
redisReply *redis_command(struct redis_server *server, const char *format, ...);
/* The reply as text in one line ("1", "a b c", "(nil)"); lives as long as the program. */
const char *redis_text(struct redis_server *server, const char *format, ...);
int64_t redis_integer(struct redis_server *server, const char *format, ...);
int64_t redis_now_ms(struct redis_server *server); /* its TIME */
bool redis_is_valkey(struct redis_server *server);

#endif
