/* What a webhook must never do: reach what is not public, follow a redirect, trust a stranger's certificate, show a secret. */
#include "support/test.h"

#include "support/hooks.h"
#include "support/scratch.h"

#include <stdlib.h>
#include <string.h>

static struct receiver *receiver;
static const char *certificate, *key;

static int teardown(void **state) {
  int result = world_teardown(state);
  receiver_stop(receiver);
  receiver = NULL;
  return result;
}

static struct world *start(void **state, const char *const *environment) {
  return world_start(state, &(struct world_options){.environment = environment});
}

static const char *const quick[] = {HOOKS_ENVIRONMENT, NULL};

static void wait_error(struct world *world, const char *id, const char *part) {
  const char *seen = "";
  WAIT_UNTIL_TEXT(strstr(seen = hook_column(world, id, "last_error"), part) != NULL, 30000, seen);
}

/* By its number (which presencectl would refuse) and by a name that resolves to it. */
static void test_private_addresses_are_not_reached(void **state) {
  static const char *const environment[] = {HOOKS_ENVIRONMENT, "PRESENCE_WEBHOOK_ALLOW_PRIVATE=no", NULL};
  static const char *const allow[] = {"--webhook-allow-private", "yes", NULL};
  receiver = receiver_start(NULL, NULL);
  struct world *world = start(state, environment);
  struct outcome outcome =
      world_presencectl(world, "webhook", "add", "--tenant", world->tenant, "--url", receiver_url(receiver, "/number"), NULL);
  assert_int_equal(outcome.code, 2);
  assert_non_null(strstr(outcome.err, "webhook-allow-private"));
  const char *number = hook_add(world, receiver, "/number", allow);
  const char *name =
      hook_add_url(world, receiver, "/name", text_format("http://localhost:%d/name", receiver_port(receiver)), NULL);
  const char *mapped = hook_add_url(world, receiver, "/mapped",
                                    text_format("http://[::ffff:127.0.0.1]:%d/mapped", receiver_port(receiver)), allow);
  hook_events(world, 0, 1);
  wait_error(world, number, "127.0.0.1 is no public address");
  wait_error(world, name, "1 is no public address");
  wait_error(world, mapped, "is no public address");
  assert_int_equal(receiver_came(receiver, "/number") + receiver_came(receiver, "/name") + receiver_came(receiver, "/mapped"), 0);
  assert_true(metric(world, "presence_webhook_deliveries_total{result=\"forbidden\"}") >= 3);
  world_end(world);
}

static void test_redirects_are_not_followed(void **state) {
  receiver = receiver_start(NULL, NULL);
  struct world *world = start(state, quick);
  receiver_set(receiver, &(struct receiver_manner){
                             .status = 302, .header = "Location", .value = receiver_url(receiver, "/elsewhere"), .only = "/x"});
  const char *id = hook_add(world, receiver, "/x", NULL);
  hook_events(world, 0, 1);
  wait_error(world, id, "status 302");
  WAIT_UNTIL(receiver_came(receiver, "/x") >= 3, 30000); /* a path that nobody has asked for would fail the test */
  world_end(world);
}

/* The environment names a proxy that would be asked. */
static void test_no_proxy_of_the_environment(void **state) {
  receiver = receiver_start(NULL, NULL);
  struct world *world = world_start(state, &(struct world_options){.environment = quick, .roles = "api"});
  world_process(
      world, "worker",
      (const char *[]){"http_proxy=http://127.0.0.1:1", "all_proxy=http://127.0.0.1:1", "ALL_PROXY=http://127.0.0.1:1", NULL});
  hook_add(world, receiver, "/x", NULL);
  hook_events(world, 0, 1);
  WAIT_UNTIL(receiver_accepted(receiver, "/x") == 2, 20000);
  world_end(world);
}

/* A body without end counts as what its status says; headers without end are a failure; an answer that does not come times out.
 */
static void test_answers_are_limited(void **state) {
  static const char *const environment[] = {HOOKS_ENVIRONMENT, "PRESENCE_WEBHOOK_TIMEOUT_MS=500", NULL};
  receiver = receiver_start(NULL, NULL);
  struct world *world = start(state, environment);
  receiver_set(receiver, &(struct receiver_manner){.status = 200, .body = 10000000});
  const char *id = hook_add(world, receiver, "/x", NULL);
  hook_events(world, 0, 1);
  WAIT_UNTIL(strcmp(hook_column(world, id, "oldest_pending IS NULL"), "t") == 0, 30000);
  receiver_set(receiver, &(struct receiver_manner){.status = 200, .header_bytes = 100000});
  hook_events(world, 0, 1);
  wait_error(world, id, "headers are too large");
  receiver_set(receiver, &(struct receiver_manner){.hang = true});
  wait_error(world, id, "imed out");
  WAIT_UNTIL(metric(world, "presence_webhook_deliveries_total{result=\"timeout\"}") >= 1, 20000);
  receiver_set(receiver, &(struct receiver_manner){.drop = true});
  wait_error(world, id, "mpty reply");
  receiver_set(receiver, &(struct receiver_manner){0});
  WAIT_UNTIL(strcmp(hook_column(world, id, "oldest_pending IS NULL"), "t") == 0, 30000);
  world_end(world);
}

static void make_certificate(void) {
  certificate = scratch_path("cert.pem");
  key = scratch_path("key.pem");
  const char *command = text_format("openssl req -x509 -newkey rsa:2048 -nodes -keyout %s -out %s -subj /CN=localhost -days 2"
                                    " -addext subjectAltName=IP:127.0.0.1 2>/dev/null",
                                    key, certificate);
  if (system(command) == 0) return; // NOLINT(cert-env33-c): a fixed command
  print_message("skipped: no openssl command\n");
  skip();
}

static void test_certificates_are_verified(void **state) {
  make_certificate();
  receiver = receiver_start(certificate, key);
  struct world *world = start(state, quick);
  const char *id = hook_add(world, receiver, "/x", NULL);
  hook_events(world, 0, 1);
  wait_error(world, id, "ertificate");
  assert_int_equal(receiver_came(receiver, "/x"), 0);
  assert_int_equal(presenced_stop(world->service), 0);
  const char *trusting[] = {text_format("PRESENCE_WEBHOOK_CA=%s", certificate), NULL};
  world_talk_to(world, world_process(world, NULL, trusting));
  WAIT_UNTIL_TEXT(receiver_accepted(receiver, "/x") == 2, 30000, hook_column(world, id, "last_error"));
  world_end(world);
}

/* The secret and the URL, which may hold one as well, are nowhere but in the row. */
static void test_p7_secrets_are_not_shown(void **state) {
  static const char *const environment[] = {HOOKS_ENVIRONMENT, "PRESENCE_LOG_LEVEL=debug", "PRESENCE_WEBHOOK_PAUSE_AFTER_MS=100",
                                            NULL};
  receiver = receiver_start(NULL, NULL);
  struct world *world = start(state, environment);
  receiver_set(receiver, &(struct receiver_manner){.status = 500});
  const char *id = hook_add(world, receiver, "/token-4711", NULL);
  hook_events(world, 0, 1);
  hook_wait_state(world, id, "paused failing");
  const char *secret = sql_text(&world->database, "SELECT encode(secret, 'base64') FROM presence.webhook", NULL);
  const char *hex = sql_text(&world->database, "SELECT encode(secret, 'hex') FROM presence.webhook", NULL);
  static const char *const forbidden[] = {"whsec_", "token-4711", "v1,"};
  WAIT_UNTIL(presenced_logged(world->service, "event=webhook_paused"), 10000);
  assert_true(presenced_logged(world->service, text_format("tenant=%s webhook=%s", world->tenant, id)));
  for (size_t i = 0; i < LENGTH(forbidden); i++) assert_false(presenced_logged(world->service, forbidden[i]));
  assert_false(presenced_logged(world->service, secret));
  assert_false(presenced_logged(world->service, hex));
  assert_null(strstr(world_control(world, "webhook", "list", "--json", NULL), secret));
  assert_null(strstr(world_control(world, "webhook", "show", id, "--json", NULL), "secret"));
  struct outcome outcome =
      world_presencectl(world, "webhook", "add", "--tenant", world->tenant, "--url", "https://me:pass4711@example.com/", NULL);
  assert_int_equal(outcome.code, 2);
  assert_null(strstr(outcome.err, "pass4711"));
  world_end(world);
}

/* Only the service reads secrets, by its function, and only what people may change is changed by them. */
static void test_roles(void **state) {
  receiver = receiver_start(NULL, NULL);
  struct world *world = start(state, quick);
  const char *id = hook_add(world, receiver, "/x", NULL);
  static const char *const roles[] = {"presence_service", "presence_consumer", "presence_admin"};
  for (size_t i = 0; i < LENGTH(roles); i++) {
    PQclear(sql_query(&world->database, text_format("SET ROLE %s", roles[i]), NULL));
    assert_string_equal(sql_error(&world->database, "SELECT secret FROM presence.webhook"), "42501");
    assert_string_equal(sql_error(&world->database, "UPDATE presence.webhook SET url = 'x'"), "42501");
  }
  PQclear(sql_query(&world->database, "SET ROLE presence_admin", NULL));
  assert_string_equal(sql_error(&world->database, "SELECT * FROM presence.load_webhook('w', 1)"), "42501");
  assert_string_equal(sql_text(&world->database, "SELECT presence.pause_webhook($1)", id, NULL), "t");
  assert_string_equal(sql_text(&world->database, "SELECT state FROM presence.webhook_status", NULL), "paused");
  PQclear(sql_query(&world->database, "SET ROLE presence_service", NULL));
  assert_string_equal(sql_error(&world->database, "SELECT presence.remove_webhook(1)"), "42501");
  assert_int_equal(sql_integer(&world->database, "SELECT count(*) FROM presence.lease_webhooks('w', 1000, 10)", NULL), 0);
  PQclear(sql_query(&world->database, "RESET ROLE", NULL));
  world_end(world);
}

/* Usage errors say what is allowed. */
static void test_usage(void **state) {
  static const struct {
    const char *words[10];
    int code;
    const char *says;
  } cases[] = {
      {{"webhook", "add", "--url", "https://example.com/"}, 2, "needs --tenant and --url"},
      {{"webhook", "add", "--tenant", "nobody", "--url", "https://example.com/"}, 1, "no tenant has the id nobody"},
      {{"webhook", "add", "--tenant", "nobody", "--url", "ftp://example.com/"}, 2, "only http and https are"},
      {{"webhook", "add", "--tenant", "nobody", "--url", "https://example.com/", "--types", "device"},
       2,
       "some of presence.device.online"},
      {{"webhook", "add", "--tenant", "nobody", "--url", "https://example.com/", "--start", "then"}, 2, "now, oldest or a seq"},
      {{"webhook", "show", "x"}, 2, "no webhook id"},
      {{"webhook", "pause", "4711"}, 1, "no such webhook"},
      {{"webhook", "resume", "4711"}, 1, "no such webhook"},
      {{"webhook", "replay", "4711"}, 2, "needs --from"},
      {{"webhook", "replay", "4711", "--from", "1"}, 1, "no such webhook"},
  };
  struct world *world = world_start(state, &(struct world_options){.no_service = true});
  for (size_t i = 0; i < LENGTH(cases); i++) {
    struct outcome outcome = run_program("presencectl", world_environment(world), cases[i].words);
    if (outcome.code != cases[i].code || strstr(outcome.err, cases[i].says) == NULL)
      fail_msg("case %zu: %d %s", i, outcome.code, outcome.err);
  }
  world->checked = world->begun; /* there is no worker to end with */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_private_addresses_are_not_reached, teardown),
      cmocka_unit_test_teardown(test_redirects_are_not_followed, teardown),
      cmocka_unit_test_teardown(test_no_proxy_of_the_environment, teardown),
      cmocka_unit_test_teardown(test_answers_are_limited, teardown),
      cmocka_unit_test_teardown(test_certificates_are_verified, teardown),
      cmocka_unit_test_teardown(test_p7_secrets_are_not_shown, teardown),
      cmocka_unit_test_teardown(test_roles, teardown),
      cmocka_unit_test_teardown(test_usage, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
