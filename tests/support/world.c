#include "support/test.h"

#include "support/scratch.h"
#include "support/world.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static void add_environment(struct world *world, const char *line) {
  for (size_t i = 0; i + 1 < LENGTH(world->environment); i++) {
    if (world->environment[i] != NULL) continue;
    world->environment[i] = line;
    return;
  }
  fail_msg("too many options");
}

static void start_servers(struct world *world) {
  const struct world_options *options = &world->options;
  redis_server_start(&world->redis, &(struct redis_options){.dialect = options->dialect,
                                                            .own_clock = options->own_clock || options->clock_ms != 0,
                                                            .clock_ms = options->clock_ms,
                                                            .appendonly = options->appendonly});
  world->clock_ms = options->clock_ms;
  database_create(&world->database, true);
  const char *redis_url = world->redis.url, *postgres_url = world->database.url;
  if (options->proxies) {
    const char *folder = scratch_folder("px");
    const char *redis_socket = text_format("%s/r", folder);
    world->redis_proxy = proxy_start(redis_socket, world->redis.socket);
    world->postgres_proxy = proxy_start(text_format("%s/.s.PGSQL.5432", folder), world->database.socket);
    redis_url = text_format("unix://%s", redis_socket);
    postgres_url = database_url_through(&world->database, folder);
  }
  add_environment(world, text_format("PRESENCE_REDIS_URL=%s", redis_url));
  add_environment(world, text_format("PRESENCE_POSTGRES_URL=%s", postgres_url));
  add_environment(world, text_format("PRESENCE_REDIS_MODE=%s", dialect_mode(world->redis.dialect)));
  add_environment(world, "PRESENCE_OUTAGE_MS=5000");
  add_environment(world, "PRESENCE_SETTLE_MS=0");
  add_environment(world, "PRESENCE_THREADS=1");
  for (const char *const *each = options->environment; each != NULL && *each != NULL; each++) add_environment(world, *each);
}

struct world *world_start(void **state, const struct world_options *options) {
  if (!dialect_is_here(dialect_or_instead(options->dialect))) {
    print_message("skipped: no %s here\n", dialect_name(options->dialect));
    skip();
  }
  struct world *world = calloc(1, sizeof *world);
  assert_non_null(world);
  *state = world;
  world->options = *options;
  start_servers(world);
  world->service = &world->processes[0];
  if (!options->no_service) world_process(world, options->roles, NULL);
  world->begun++;
  world_new_tenant(world, options->tenant);
  return world;
}

struct world *world_begin(void **state) {
  struct world *world = *state;
  world->begun++;
  world_new_tenant(world, NULL);
  return world;
}

enum dialect world_dialect;

int world_group_start(void **state) {
  struct world *world = world_start(state, &(struct world_options){.dialect = world_dialect});
  world->begun = 0;
  return 0;
}

void world_set_clock(struct world *world, int64_t now_ms) {
  world->clock_ms = now_ms;
  redis_server_fix_clock(&world->redis, now_ms);
}

void world_move_clock(struct world *world, int64_t by_ms) { world_set_clock(world, world->clock_ms + by_ms); }

const char *const *world_environment(const struct world *world) { return world->environment; }

void world_respawn(struct world *world, struct presenced *process, const char *roles, const char *const *environment) {
  const char *all[48] = {NULL};
  size_t count = 0;
  for (const char *const *each = world->environment; *each != NULL; each++) all[count++] = *each;
  if (roles != NULL) all[count++] = text_format("PRESENCE_ROLES=%s", roles);
  for (const char *const *each = environment; each != NULL && *each != NULL; each++) {
    assert_true(count + 1 < LENGTH(all));
    all[count++] = *each;
  }
  presenced_spawn(process, all);
}

struct presenced *world_spawn(struct world *world, const char *roles, const char *const *environment) {
  assert_true(world->process_count < WORLD_PROCESSES_MAX);
  struct presenced *process = &world->processes[world->process_count++];
  world_respawn(world, process, roles, environment);
  return process;
}

struct presenced *world_process(struct world *world, const char *roles, const char *const *environment) {
  struct presenced *process = world_spawn(world, roles, environment);
  presenced_wait_listening(process);
  /* An api alone is ready only once some worker has adopted the server. */
  if (roles == NULL || strcmp(roles, "api") != 0) presenced_wait_ready(process);
  return process;
}

void world_talk_to(struct world *world, const struct presenced *process) {
  client_close(world->client);
  world->client = process->address != NULL ? client_open_as(process->address, world->token) : NULL;
}

static struct outcome control(struct world *world, va_list words) {
  const char *arguments[32] = {NULL};
  size_t count = 0;
  for (const char *each; (each = va_arg(words, const char *)) != NULL;) {
    assert_true(count + 1 < LENGTH(arguments));
    arguments[count++] = each;
  }
  return run_program("presencectl", world->environment, arguments);
}

struct outcome world_presencectl(struct world *world, ...) {
  va_list words;
  va_start(words, world);
  struct outcome outcome = control(world, words);
  va_end(words);
  return outcome;
}

const char *world_control(struct world *world, ...) {
  va_list words;
  va_start(words, world);
  struct outcome outcome = control(world, words);
  va_end(words);
  if (outcome.code != 0) fail_msg("presencectl ended with %d: %s", outcome.code, outcome.err);
  return outcome.out;
}

void world_new_tenant(struct world *world, const char *const *arguments) {
  static unsigned tenants;
  world->tenant = text_format("t%u", ++tenants);
  const char *words[24] = {"tenant", "create", world->tenant, "--min-ttl-ms", "100", "--max-devices", "100000"};
  size_t count = 7;
  for (const char *const *each = arguments; each != NULL && *each != NULL; each++) words[count++] = *each;
  struct outcome outcome = run_program("presencectl", world->environment, words);
  if (outcome.code != 0) fail_msg("tenant create ended with %d: %s", outcome.code, outcome.err);
  world->token = world_token(world, world->tenant, "device,read,events");
  world_talk_to(world, world->service);
}

const char *world_token(struct world *world, const char *tenant, const char *scopes) {
  const char *out = scopes == NULL
                        ? world_control(world, "token", "create", "--admin", "--json", NULL)
                        : world_control(world, "token", "create", "--tenant", tenant, "--scope", scopes, "--json", NULL);
  json_t *json = json_loads(out, 0, NULL);
  const char *secret = json_string_value(json_object_get(json, "secret"));
  if (secret == NULL) fail_msg("token create --json gave no secret: %s", out);
  const char *kept = text_format("%s", secret);
  json_decref(json);
  return kept;
}

void world_drain(struct world *world) { WAIT_UNTIL(keyspace_unpublished(&world->redis) == 0, 20000); }

void world_check(struct world *world) {
  world_drain(world);
  keyspace_check(&world->redis);
  history_check(&world->database, &(struct history_rules){.clock_stepped = world->clock_stepped});
  world->checked = world->begun;
}

/* SIGTERM to all that run; the exit code of the last one that did not end with 0. */
static int stop_processes(struct world *world) {
  int wrong = 0;
  for (size_t i = 0; i < world->process_count; i++) {
    struct presenced *process = &world->processes[i];
    int code = child_is_running(&process->child) ? presenced_stop(process) : 0;
    if (code != 0) wrong = code;
  }
  return wrong;
}

void world_end(struct world *world) {
  world_check(world);
  int code = stop_processes(world);
  if (code == 0) return;
  world->checked = 0;
  fail_msg("presenced ended with %d on SIGTERM", code);
}

/* A finding of a sanitizer stands in the log also of a process that was killed. */
static bool has_finding(const struct world *world) {
  for (size_t i = 0; i < world->process_count; i++) {
    const struct presenced *process = &world->processes[i];
    if (!presenced_logged(process, "Sanitizer: ") && !presenced_logged(process, "runtime error: ")) continue;
    print_error("a sanitizer complains about process %zu\n", i);
    return true;
  }
  return false;
}

static void show_logs(const struct world *world) {
  for (size_t i = 0; i < world->process_count; i++) child_show_log(text_format("process %zu", i), world->processes[i].log);
}

int world_teardown(void **state) {
  struct world *world = *state;
  if (world == NULL) return 0; /* skipped */
  bool passed = world->begun == world->checked;
  bool stopped = (!passed || stop_processes(world) == 0) && !has_finding(world);
  if (!passed || !stopped) show_logs(world);
  for (size_t i = 0; i < world->process_count; i++) presenced_kill(&world->processes[i]);
  client_close(world->client);
  proxy_stop(world->redis_proxy);
  proxy_stop(world->postgres_proxy);
  redis_server_stop(&world->redis);
  database_drop(&world->database);
  free(world);
  *state = NULL;
  return stopped ? 0 : -1;
}

void expect_history(struct world *world, const char *device, const char *wanted) {
  world_drain(world);
  const char *seen = history_of(&world->database, world->tenant, device);
  if (strcmp(seen, wanted) != 0) fail_msg("the history of %s: '%s', wanted '%s'", device, seen, wanted);
}

static const char *percent_encode(const char *text) {
  char *encoded = malloc(strlen(text) * 3 + 1), *at = encoded;
  assert_non_null(encoded);
  for (const unsigned char *each = (const unsigned char *)text; *each != '\0'; each++) {
    static const char digits[] = "0123456789ABCDEF";
    if (isalnum(*each) || strchr("-._~", *each) != NULL) {
      *at++ = (char)*each;
    } else {
      *at++ = '%';
      *at++ = digits[*each >> 4];
      *at++ = digits[*each & 15];
    }
  }
  *at = '\0';
  const char *kept = text_format("%s", encoded);
  free(encoded);
  return kept;
}

const char *device_path(const struct world *world, const char *device, const char *rest) {
  return text_format("/v1/tenants/%s/devices/%s%s", world->tenant, percent_encode(device), rest);
}

const char *tenant_path(const struct world *world, const char *rest) {
  return text_format("/v1/tenants/%s%s", world->tenant, rest);
}

void beat(struct world *world, const char *device, int64_t ttl_ms) {
  const char *body = ttl_ms > 0 ? text_format("{\"ttl_ms\":%lld}", (long long)ttl_ms) : NULL;
  expect_status(world->client, 204, "POST", device_path(world, device, "/heartbeat"), body);
}

json_t *device_object(struct world *world, const char *device) {
  return expect(world->client, 200, "GET", device_path(world, device, ""), NULL);
}

const char *device_state(struct world *world, const char *device) {
  const struct response *response = client_call(world->client, "GET", device_path(world, device, ""), NULL);
  if (response->status == 404) return "404";
  if (response->status != 200) fail_msg("status of %s: %d %s", device, response->status, response->body);
  json_t *json = json_loads(response->body, 0, NULL);
  const char *state = json_string_value(json_object_get(json, "state"));
  const char *kept = text_format("%s", state != NULL ? state : "(none)");
  json_decref(json);
  return kept;
}

int64_t device_number(struct world *world, const char *device, const char *member) {
  json_t *object = device_object(world, device);
  json_t *value = json_object_get(object, member);
  if (!json_is_integer(value)) fail_msg("%s of %s is no integer", member, device);
  int64_t number = json_integer_value(value);
  json_decref(object);
  return number;
}

double metric(struct world *world, const char *series) {
  struct client *client = client_open(world->service->address);
  const struct response *response = client_call(client, "GET", "/metrics", NULL);
  assert_int_equal(response->status, 200);
  double value = -1;
  const char *at = response->body;
  size_t length = strlen(series);
  while (at != NULL && value < 0) {
    if (strncmp(at, series, length) == 0 && at[length] == ' ') value = strtod(at + length, NULL);
    at = strchr(at, '\n');
    if (at != NULL) at++;
  }
  client_close(client);
  return value;
}
