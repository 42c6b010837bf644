#include "support/test.h"

#include "support/redis_server.h"
#include "support/scratch.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *name, *mode, *program;
} dialects[DIALECT_COUNT] = {
    [DIALECT_NATIVE] = {"native", "native", "redis8-server"},
    [DIALECT_HPEXPIRE] = {"hpexpire", "hpexpire", "redis8-server"},
    [DIALECT_COMPAT] = {"compat", "compat", "redis8-server"},
    [DIALECT_COMPAT_OLD] = {"compat on Redis 7.0", "auto", "redis7-server"},
};

/* What `make matrix` asks for: all on one server. PRESENCE_TEST_SERVER="valkey9-server native": its program and the best it can
 * do. */
static const char *only_program; /* NULL: the table */
static enum dialect only_best;

__attribute__((constructor)) static void read_environment(void) {
  static char program[64];
  const char *text = getenv("PRESENCE_TEST_SERVER"), *blank = text != NULL ? strchr(text, ' ') : NULL;
  if (blank == NULL || (size_t)(blank - text) >= sizeof program) return;
  memcpy(program, text, (size_t)(blank - text));
  only_program = program;
  for (only_best = DIALECT_NATIVE; only_best < DIALECT_COMPAT && strcmp(dialects[only_best].name, blank + 1) != 0;) only_best++;
}

static const char *program_of(enum dialect dialect) { return only_program != NULL ? only_program : dialects[dialect].program; }

const char *dialect_name(enum dialect dialect) { return dialects[dialect].name; }
const char *dialect_mode(enum dialect dialect) {
  return only_program != NULL && dialect == only_best ? "auto" : dialects[dialect].mode;
}
bool dialect_is_here(enum dialect dialect) {
  if (only_program != NULL && (dialect < only_best || dialect == DIALECT_COMPAT_OLD)) return false;
  return place_server(program_of(dialect)) != NULL;
}
enum dialect dialect_or_instead(enum dialect dialect) {
  return only_program != NULL && dialect < only_best ? only_best : dialect;
}

static bool says_ok(redisContext *context, const char *command) {
  redisReply *reply = redisCommand(context, command); // NOLINT(clang-diagnostic-format-security): the test's own words
  bool ok = reply != NULL && reply->type == REDIS_REPLY_STATUS;
  freeReplyObject(reply);
  return ok;
}

redisContext *redis_dial(const char *socket, const char *login) {
  redisContext *context = redisConnectUnixWithTimeout(socket, (struct timeval){.tv_sec = 10});
  bool open = context != NULL && context->err == 0;
  if (open) redisSetTimeout(context, (struct timeval){.tv_sec = 30});
  if (open && (login == NULL || says_ok(context, text_format("AUTH %s", login)))) return context;
  redisFree(context);
  return NULL;
}

static bool connect_to(struct redis_server *server) {
  if (!child_is_running(&server->child)) {
    child_show_log("redis", server->child.log);
    fail_msg("Redis did not start");
  }
  redisContext *context = redis_dial(server->socket, server->options.login);
  bool ready = context != NULL && says_ok(context, "PING"); /* an error while it loads its file */
  if (ready)
    server->context = context;
  else
    redisFree(context);
  return ready;
}

/* The configuration as shipped; a copy where the server may be told to rewrite it. */
static const char *configuration(const struct redis_server *server) {
  const char *shipped = text_format("%s/deploy/redis/presence.conf", place_root());
  if (!server->options.rewrites_config) return shipped;
  const char *copy = text_format("%s/redis.conf", server->folder);
  FILE *file = fopen(copy, "wx");
  if (file != NULL) { /* else it is there from the start before */
    fputs(place_text(shipped), file);
    fclose(file);
  }
  return copy;
}

static void start_process(struct redis_server *server) {
  const char *argv[64] = {place_server(program_of(server->dialect)), configuration(server)};
  size_t count = 2;
  const char *fixed[] = {
      "--port",       "0",           "--unixsocket", server->socket, "--dir",
      server->folder, "--daemonize", "no",           "--appendonly", server->options.appendonly ? "yes" : "no",
  };
  for (size_t i = 0; i < LENGTH(fixed); i++) argv[count++] = fixed[i];
  for (const char *const *each = server->options.config; each != NULL && *each != NULL; each += 2) {
    assert_true(count + 3 < LENGTH(argv));
    argv[count++] = text_format("--%s", each[0]);
    argv[count++] = each[1];
  }
  if (server->clock != NULL) {
    /* Its timed waits end at times of the moved clock, which have long gone by: it would spin. */
    argv[count++] = "--jemalloc-bg-thread";
    argv[count++] = "no";
  }
  server->child = child_start(&(struct child_options){
      .argv = argv, .environment = server->host_clock.environment, .log = text_format("%s/redis.log", server->folder)});
  WAIT_UNTIL(connect_to(server), 15000);
}

void redis_server_start(struct redis_server *server, const struct redis_options *options) {
  *server = (struct redis_server){.dialect = dialect_or_instead(options->dialect), .options = *options};
  if (!dialect_is_here(server->dialect)) fail_msg("there is no %s here: run the set-up", program_of(server->dialect));
  server->folder = scratch_folder("redis");
  server->socket = text_format("%s/s", server->folder);
  server->url = text_format("unix://%s", server->socket);
  if (options->own_clock) {
    host_clock_open(&server->host_clock, text_format("%s/clock", server->folder));
    server->clock = server->host_clock.shim;
    if (options->clock_ms != 0) timeshim_fix(server->clock, options->clock_ms);
  }
  start_process(server);
}

void redis_server_fix_clock(struct redis_server *server, int64_t now_ms) {
  assert_non_null(server->clock);
  timeshim_fix(server->clock, now_ms);
  for (int asked = 0; server->context != NULL && redis_now_ms(server) != now_ms; asked++) assert_true(asked < 1000000);
}

static void disconnect(struct redis_server *server) {
  redisFree(server->context);
  server->context = NULL;
}

void redis_server_reconnect(struct redis_server *server) {
  if (server->context != NULL) disconnect(server);
  WAIT_UNTIL(connect_to(server), 15000);
}

void redis_server_kill(struct redis_server *server) {
  disconnect(server);
  child_kill(&server->child);
}

void redis_server_restart(struct redis_server *server) {
  assert_int_equal(server->child.pid, 0);
  start_process(server);
}

void redis_server_stop(struct redis_server *server) {
  redis_server_kill(server);
  host_clock_close(&server->host_clock);
  server->clock = NULL;
}

static redisReply *command(struct redis_server *server, const char *format, va_list arguments) {
  redisReply *reply = redisvCommand(server->context, format, arguments);
  if (reply == NULL) fail_msg("Redis does not answer to %s: %s", format, server->context->errstr);
  if (reply->type == REDIS_REPLY_ERROR) fail_msg("Redis refuses %s: %s", format, reply->str);
  return reply;
}

redisReply *redis_command(struct redis_server *server, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  redisReply *reply = command(server, format, arguments);
  va_end(arguments);
  return reply;
}

static void print_reply(FILE *out, const redisReply *reply) {
  switch (reply->type) {
  case REDIS_REPLY_NIL: fputs("(nil)", out); return;
  case REDIS_REPLY_INTEGER: fprintf(out, "%lld", reply->integer); return;
  case REDIS_REPLY_ARRAY:
    for (size_t i = 0; i < reply->elements; i++) {
      if (i > 0) fputc(' ', out);
      print_reply(out, reply->element[i]);
    }
    return;
  default: fwrite(reply->str, 1, reply->len, out);
  }
}

const char *redis_text(struct redis_server *server, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  redisReply *reply = command(server, format, arguments);
  va_end(arguments);
  char *text = NULL;
  size_t length = 0;
  FILE *out = open_memstream(&text, &length);
  assert_non_null(out);
  print_reply(out, reply);
  fclose(out);
  freeReplyObject(reply);
  const char *kept = text_format("%s", text);
  free(text);
  return kept;
}

int64_t redis_integer(struct redis_server *server, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  redisReply *reply = command(server, format, arguments);
  va_end(arguments);
  int64_t value = reply->type == REDIS_REPLY_INTEGER ? reply->integer : reply->str != NULL ? strtoll(reply->str, NULL, 10) : 0;
  freeReplyObject(reply);
  return value;
}

bool redis_is_valkey(struct redis_server *server) { return strstr(redis_text(server, "INFO server"), "valkey_version:") != NULL; }

int64_t redis_now_ms(struct redis_server *server) {
  redisReply *reply = redis_command(server, "TIME");
  assert_int_equal(reply->elements, 2);
  int64_t now = strtoll(reply->element[0]->str, NULL, 10) * 1000 + strtoll(reply->element[1]->str, NULL, 10) / 1000;
  freeReplyObject(reply);
  return now;
}
