/* /openapi.json is complete and true: it has the routes of routes.def and no others, every status that it names is provoked, and
 * every answer matches its schema.
 *
 * A new route needs its operation in service/http/openapi.json, and below one example for each status that the operation names;
 * those that all calls share (401, 403, 404 of a tenant, 503 with both servers away) are provoked for it by themselves. */
#include "support/test.h"

#include "http.h"
#include "http/router.h"
#include "support/json_schema.h"
#include "support/world.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum who { TENANT, ADMIN, NOBODY, FOREIGNER, NARROW /* of the tenant, without the scope */ };

struct example {
  const char *operation;
  const char *device;  /* for {device} */
  const char *query;   /* "limit=1" */
  const char *body;    /* NULL: none */
  const char *headers; /* each closed by \r\n */
  const char *tenant;  /* NULL: the world's */
  int status;
  enum who who;
};

/* In this order, against one service. The first success of an operation also stands for it where only a server is missing. */
static const struct example examples[] = {
    {.operation = "heartbeat", .status = 204, .device = "d1"},
    {.operation = "heartbeat", .status = 204, .device = "d1", .body = "{\"ttl_ms\":60000,\"meta\":{\"fw\":\"1.4.2\"}}"},
    {.operation = "heartbeat", .status = 200, .device = "d2", .headers = "Prefer: return=representation\r\n"},
    {.operation = "heartbeat", .status = 200, .device = "d2", .headers = "Prefer: return=representation\r\n"},
    {.operation = "heartbeat", .status = 400, .device = "d1", .body = "{\"ttl_ms\":\"x\"}"},
    {.operation = "heartbeat", .status = 400, .device = "%01"},
    {.operation = "heartbeats", .status = 200, .body = "[\"d1\",{\"device\":\"d3\",\"ttl_ms\":60000,\"meta\":null}]"},
    {.operation = "heartbeats", .status = 200, .body = "[]"},
    {.operation = "heartbeats",
     .status = 200,
     .body = "\"a\"\n{\"device\":\"\"}\n",
     .headers = "Content-Type: application/x-ndjson\r\n"},
    {.operation = "heartbeats", .status = 400, .body = "{}"},
    {.operation = "device", .status = 200, .device = "d1"},
    {.operation = "disconnect", .status = 204, .device = "d3"},
    {.operation = "disconnect", .status = 409, .device = "d1", .body = "{\"session\":\"1-0\"}"},
    {.operation = "disconnect", .status = 400, .device = "d1", .body = "[]"},
    {.operation = "device", .status = 200, .device = "d3"},
    {.operation = "device", .status = 404, .device = "never"},
    {.operation = "device", .status = 400, .device = "%01"},
    {.operation = "query", .status = 200, .body = "{\"devices\":[\"d1\",\"d3\",\"never\"]}"},
    {.operation = "query", .status = 400, .body = "{\"devices\":[\"\"]}"},
    {.operation = "list", .status = 200},
    {.operation = "list", .status = 200, .query = "limit=1"},
    {.operation = "list", .status = 400, .query = "limit=0"},
    {.operation = "counts", .status = 200},
    {.operation = "counts", .status = 400, .query = "x=1"},
    {.operation = "recalibrate", .status = 200, .body = "{}", .who = ADMIN},
    {.operation = "recalibrate", .status = 400, .body = "[]", .who = ADMIN},
    {.operation = "history", .status = 200, .device = "d1"},
    {.operation = "history", .status = 200, .device = "d3", .query = "limit=1"},
    {.operation = "history", .status = 400, .device = "d1", .query = "limit=0"},
    {.operation = "history", .status = 404, .device = "never"},
    {.operation = "events", .status = 200},
    {.operation = "events", .status = 200, .query = "after=1&limit=1&wait_ms=10"},
    {.operation = "events", .status = 400, .query = "wait_ms=30001"},
    {.operation = "events", .status = 410, .query = "after=0"},
    {.operation = "forget", .status = 204, .device = "d3", .who = ADMIN},
    {.operation = "forget", .status = 404, .device = "d3", .who = ADMIN},
    {.operation = "forget", .status = 400, .device = "%01", .who = ADMIN},
    {.operation = "heartbeat", .status = 403, .device = "new", .tenant = "small"}, /* device_limit */
    {.operation = "page", .status = 200},
    {.operation = "asset", .status = 200},
    {.operation = "healthz", .status = 200},
    {.operation = "readyz", .status = 200},
    {.operation = "metrics", .status = 200},
    {.operation = "openapi", .status = 200},
};

struct operation {
  const char *id, *path, *method; /* method in capitals */
  const json_t *object;
  bool provoked[600]; /* by status */
};

struct walk {
  struct world *world;
  json_t *document;
  struct operation operations[ROUTE_COUNT + 8];
  size_t count;
  const char *tokens[NARROW + 1];
};

/* ---- The document */

static const char *capitals(const char *text) {
  char *out = text_format("%s", text);
  for (char *at = out; *at != '\0'; at++) *at = (char)toupper((unsigned char)*at);
  return out;
}

static void read_document(struct walk *walk) {
  const struct response *response = client_call(walk->world->client, "GET", "/openapi.json", NULL);
  assert_int_equal(response->status, 200);
  walk->document = json_loadb(response->body, response->body_length, JSON_REJECT_DUPLICATES, NULL);
  assert_non_null(walk->document);
  const char *path, *method;
  json_t *item, *operation;
  json_object_foreach(json_object_get(walk->document, "paths"), path, item) {
    json_object_foreach(item, method, operation) {
      if (strcmp(method, "parameters") == 0) continue;
      assert_true(walk->count < LENGTH(walk->operations));
      const char *id = json_string_value(json_object_get(operation, "operationId"));
      if (id == NULL) fail_msg("%s %s has no operationId", method, path);
      walk->operations[walk->count++] =
          (struct operation){.id = id, .path = path, .method = capitals(method), .object = operation};
    }
  }
}

static struct operation *operation_of(struct walk *walk, const char *id) {
  for (size_t i = 0; i < walk->count; i++)
    if (strcmp(walk->operations[i].id, id) == 0) return &walk->operations[i];
  fail_msg("the document has no operation %s", id);
  return NULL;
}

/* ---- One example */

static const char *replaced(const char *text, const char *what, const char *by) {
  const char *at = strstr(text, what);
  return at == NULL ? text : text_format("%.*s%s%s", (int)(at - text), text, by, at + strlen(what));
}

static void check_body(struct walk *walk, const struct operation *operation, const json_t *description,
                       const struct response *response) {
  const json_t *content = json_object_get(description, "content");
  if (content == NULL) {
    if (response->body_length > 0) fail_msg("%s %d: a body that is not described", operation->id, response->status);
    return;
  }
  const char *sent = response_header(response, "Content-Type");
  const char *type = sent != NULL ? text_format("%.*s", (int)strcspn(sent, ";"), sent) : "";
  const json_t *schema = json_object_get(json_object_get(content, type), "schema");
  if (schema == NULL) fail_msg("%s %d: the type %s is not described", operation->id, response->status, type);
  if (strcmp(type, "application/json") != 0) return;
  json_t *value = json_loadb(response->body, response->body_length, JSON_REJECT_DUPLICATES, NULL);
  if (value == NULL) fail_msg("%s %d: no JSON: %s", operation->id, response->status, response->body);
  const char *wrong = json_schema_mismatch(walk->document, schema, value);
  if (wrong != NULL) fail_msg("%s %d: %s: %s", operation->id, response->status, wrong, response->body);
  json_decref(value);
}

static void check_request(struct walk *walk, const struct operation *operation, const struct example *example) {
  if (example->body == NULL || example->status >= 300 || example->headers != NULL) return;
  const json_t *content = json_object_get(json_object_get(operation->object, "requestBody"), "content");
  const json_t *schema = json_object_get(json_object_get(content, "application/json"), "schema");
  if (schema == NULL) fail_msg("%s: its body is not described", operation->id);
  json_t *value = json_loads(example->body, JSON_DECODE_ANY, NULL);
  const char *wrong = json_schema_mismatch(walk->document, schema, value);
  if (wrong != NULL) fail_msg("%s: the body sent: %s", operation->id, wrong);
  json_decref(value);
}

static const struct response *ask(struct walk *walk, const struct operation *operation, const struct example *example) {
  const char *path = replaced(operation->path, "{tenant}", example->tenant != NULL ? example->tenant : walk->world->tenant);
  path = replaced(path, "{device}", example->device != NULL ? example->device : "d1");
  path = replaced(path, "{asset}", "page.css");
  if (example->query != NULL) path = text_format("%s?%s", path, example->query);
  struct client *client = walk->world->client;
  client->token = walk->tokens[example->who];
  client->headers = example->headers;
  const struct response *response = client_call(client, operation->method, path, example->body);
  client->headers = NULL;
  return response;
}

static void check_answer(struct walk *walk, struct operation *operation, const struct response *response) {
  const json_t *responses = json_object_get(operation->object, "responses");
  const json_t *description = json_object_get(responses, text_format("%d", response->status));
  if (description == NULL) fail_msg("%s: the status %d is not described: %s", operation->id, response->status, response->body);
  check_body(walk, operation, json_schema_resolve(walk->document, description), response);
  operation->provoked[response->status] = true;
}

static void run(struct walk *walk, const struct example *example) {
  struct operation *operation = operation_of(walk, example->operation);
  check_request(walk, operation, example);
  const struct response *response = ask(walk, operation, example);
  if (response->status != example->status)
    fail_msg("%s: %d, wanted %d: %s", operation->id, response->status, example->status, response->body);
  check_answer(walk, operation, response);
}

/* ---- What all calls share */

static bool names(const struct operation *operation, const char *status) {
  return json_object_get(json_object_get(operation->object, "responses"), status) != NULL;
}

static const struct example *success_of(const struct operation *operation) {
  for (size_t i = 0; i < LENGTH(examples); i++)
    if (examples[i].status < 300 && strcmp(examples[i].operation, operation->id) == 0) return &examples[i];
  fail_msg("%s has no example that succeeds", operation->id);
  return NULL;
}

static void run_as(struct walk *walk, const struct operation *operation, int status, enum who who, const char *tenant) {
  struct example example = *success_of(operation);
  example.status = status;
  example.who = who;
  example.tenant = tenant;
  run(walk, &example);
}

/* All query parameters with the values that the document gives as examples. */
static void run_with_parameters(struct walk *walk, const struct operation *operation) {
  struct example example = *success_of(operation);
  const json_t *parameters = json_object_get(operation->object, "parameters");
  const char *query = "";
  for (size_t i = 0; i < json_array_size(parameters); i++) {
    const json_t *parameter = json_schema_resolve(walk->document, json_array_get(parameters, i));
    const json_t *value = json_object_get(parameter, "example");
    if (value == NULL || strcmp(json_string_value(json_object_get(parameter, "in")), "query") != 0) continue;
    const char *text =
        json_is_string(value) ? json_string_value(value) : text_format("%lld", (long long)json_integer_value(value));
    query =
        text_format("%s%s%s=%s", query, query[0] != '\0' ? "&" : "", json_string_value(json_object_get(parameter, "name")), text);
  }
  if (query[0] == '\0') return;
  example.query = query;
  run(walk, &example);
}

/* A token of the tenant that lacks the scope that the operation asks for. */
static const char *narrow_token(struct walk *walk, const struct operation *operation) {
  const json_t *scopes = json_object_get(json_array_get(json_object_get(operation->object, "security"), 0), "bearer");
  const char *scope = json_string_value(json_array_get(scopes, 0));
  return world_token(walk->world, walk->world->tenant, scope != NULL && strcmp(scope, "read") == 0 ? "device" : "read");
}

static void run_shared(struct walk *walk) {
  for (size_t i = 0; i < walk->count; i++) {
    const struct operation *operation = &walk->operations[i];
    run_with_parameters(walk, operation);
    if (names(operation, "401")) run_as(walk, operation, 401, NOBODY, NULL);
    if (names(operation, "403")) {
      run_as(walk, operation, 403, FOREIGNER, NULL);
      walk->tokens[NARROW] = narrow_token(walk, operation);
      run_as(walk, operation, 403, NARROW, NULL);
    }
    if (names(operation, "404")) run_as(walk, operation, 404, ADMIN, "nobody");
  }
}

/* Bodies that are too large for any call, and too many heartbeats for a tenant. */
static void run_large(struct walk *walk) {
  enum { SIZE = 1048577 };
  char *body = malloc(SIZE + 1);
  assert_non_null(body);
  memset(body, ' ', SIZE);
  body[SIZE] = '\0';
  char batch[4002] = "["; /* 1000 times "a" */
  for (size_t i = 0; i < 1000; i++) (void)snprintf(batch + 1 + 4 * i, 5, "\"a\"%c", i < 999 ? ',' : ']');
  for (size_t i = 0; i < walk->count; i++) {
    const struct operation *operation = &walk->operations[i];
    struct example example = *success_of(operation);
    example.body = body;
    example.status = 413;
    if (names(operation, "413")) run(walk, &example);
  }
  free(body);
  run(walk, &(struct example){.operation = "heartbeats", .status = 200, .body = batch, .tenant = "slow", .who = ADMIN});
  run(walk, &(struct example){.operation = "heartbeats", .status = 429, .body = batch, .tenant = "slow", .who = ADMIN});
  WAIT_UNTIL(ask(walk, operation_of(walk, "heartbeat"), &(struct example){.tenant = "slow", .who = ADMIN})->status == 429, 10000);
  run(walk, &(struct example){.operation = "heartbeat", .status = 429, .tenant = "slow", .who = ADMIN});
}

static void run_without_servers(struct walk *walk) {
  struct client *client = walk->world->client;
  proxy_refuse(walk->world->redis_proxy, true);
  proxy_refuse(walk->world->postgres_proxy, true);
  WAIT_UNTIL(client_call(client, "GET", "/readyz", NULL)->status == 503, 10000);
  for (size_t i = 0; i < walk->count; i++) {
    struct operation *operation = &walk->operations[i];
    struct example example = *success_of(operation);
    if (!names(operation, "503")) continue;
    example.status = 503;
    run(walk, &example);
  }
  proxy_refuse(walk->world->redis_proxy, false);
  proxy_refuse(walk->world->postgres_proxy, false);
  WAIT_UNTIL(client_call(client, "GET", "/readyz", NULL)->status == 200, 10000);
}

static void begin(struct walk *walk, struct world *world) {
  *walk = (struct walk){.world = world};
  world_control(world, "tenant", "create", "foreign", NULL);
  world_control(world, "tenant", "create", "small", "--max-devices", "1", NULL);
  world_control(world, "tenant", "create", "slow", "--heartbeats-per-second", "1", NULL);
  walk->tokens[TENANT] = world->token;
  walk->tokens[ADMIN] = world_token(world, NULL, NULL);
  walk->tokens[FOREIGNER] = world_token(world, "foreign", "device,read,events");
  read_document(walk);
}

static void expect_all_provoked(const struct walk *walk) {
  for (size_t i = 0; i < walk->count; i++) {
    const char *status;
    json_t *ignored;
    json_object_foreach(json_object_get(walk->operations[i].object, "responses"), status, ignored) {
      if (strcmp(status, "default") != 0 && !walk->operations[i].provoked[strtoul(status, NULL, 10)])
        fail_msg("nothing here provokes %s of %s", status, walk->operations[i].id);
    }
  }
}

/* The limit is soft: newcomers of the last seconds are not counted yet. */
static void fill_small_tenant(struct walk *walk) {
  int devices = 0;
  walk->tokens[TENANT] = world_token(walk->world, "small", "device");
  WAIT_UNTIL(
      ask(walk, operation_of(walk, "heartbeat"), &(struct example){.tenant = "small", .device = text_format("d%d", devices++)})
              ->status == 403,
      10000);
}

static void test_every_status_and_schema(void **state) {
  static struct walk walk;
  begin(&walk, world_start(state, &(struct world_options){.proxies = true}));
  for (size_t i = 0; i < LENGTH(examples); i++) {
    if (examples[i].tenant != NULL && strcmp(examples[i].tenant, "small") == 0) fill_small_tenant(&walk);
    static const char *const late[] = {"history", "list", "events"}; /* they lag behind by what is not published */
    for (size_t k = 0; k < LENGTH(late); k++)
      if (strcmp(examples[i].operation, late[k]) == 0) world_drain(walk.world);
    if (examples[i].status == 410)
      PQclear(sql_query(&walk.world->database, "UPDATE presence.outbox_horizon SET dropped_seq = 1", NULL));
    run(&walk, &examples[i]);
    walk.tokens[TENANT] = walk.world->token;
  }
  run_shared(&walk);
  run_large(&walk);
  run_without_servers(&walk);
  expect_all_provoked(&walk);
  json_decref(walk.document);
  world_drain(walk.world);
  world_end(walk.world);
}

/* ---- Routes */

static const char *scope_of(unsigned scopes) {
  switch (scopes) {
  case SCOPE_DEVICE: return "[{\"bearer\":[\"device\"]}]";
  case SCOPE_READ: return "[{\"bearer\":[\"read\"]}]";
  case SCOPE_EVENTS: return "[{\"bearer\":[\"events\"]}]";
  case SCOPE_ADMIN: return "[{\"bearer\":[\"admin\"]}]";
  case SCOPE_ADMIN_UNLESS_LOCAL: return "[{},{\"bearer\":[\"admin\"]}]";
  case 0: return "[]";
  default: fail_msg("scopes %u are none of those that a route has", scopes); return NULL;
  }
}

static void test_the_routes_are_those_of_the_table(void **state) {
  static const struct {
    const char *method, *path;
    unsigned scopes;
    size_t body_max;
  } routes[] = {
#define ROUTE(id, method, pattern, scopes, body_max, handler) {#method, pattern, scopes, body_max},
#include "http/routes.def"
#undef ROUTE
  };
  static struct walk walk;
  walk.world = world_start(state, &(struct world_options){0});
  read_document(&walk);
  for (size_t i = 0; i < LENGTH(routes); i++) {
    const struct operation *found = NULL;
    for (size_t k = 0; k < walk.count && found == NULL; k++)
      if (strcmp(walk.operations[k].path, routes[i].path) == 0 && strcmp(walk.operations[k].method, routes[i].method) == 0)
        found = &walk.operations[k];
    if (found == NULL) fail_msg("the document lacks %s %s", routes[i].method, routes[i].path);
    char *security = json_dumps(json_object_get(found->object, "security"), JSON_COMPACT | JSON_ENCODE_ANY);
    assert_string_equal(security, scope_of(routes[i].scopes));
    free(security);
    assert_int_equal(json_object_get(found->object, "requestBody") != NULL, routes[i].body_max > 0);
  }
  assert_int_equal(walk.count, LENGTH(routes)); /* and no other */
  json_decref(walk.document);
  world_end(walk.world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_the_routes_are_those_of_the_table, world_teardown),
      cmocka_unit_test_teardown(test_every_status_and_schema, world_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
