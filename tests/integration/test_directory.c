/* The directory against a real PostgreSQL: loading, changes, questions at once, and PostgreSQL gone. */
#include "support/test.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "directory.h"
#include "metrics.h"
#include "support/postgres_server.h"

static struct database database;
static struct directory *directory;
static struct loop *loop;
static pthread_t loop_thread;

static void must(enum status status) { assert_string_equal(status_name(status), "ok"); }

static void *run_loop(void *context) {
  (void)context;
  must(loop_run(loop));
  return NULL;
}

static void add_tenant(const char *id) {
  PQclear(sql_query(&database, "INSERT INTO presence.tenant (id, buckets) VALUES ($1, 4)", id, NULL));
}

/* scopes: "{device,read}"; tenant NULL: an admin's. */
static void add_token(const char *secret, const char *tenant, const char *scopes, const char *expires_in) {
  if (tenant == NULL)
    PQclear(sql_query(&database, "INSERT INTO presence.token (sha256, scopes) VALUES (sha256($1::text::bytea), $2::text[])",
                      secret, scopes, NULL));
  else
    PQclear(sql_query(&database,
                      "INSERT INTO presence.token (sha256, tenant, scopes, expires_at)"
                      " VALUES (sha256($1::text::bytea), $2, $3::text[], now() + nullif($4::text, '')::interval)",
                      secret, tenant, scopes, expires_in, NULL));
}

/* What the newest snapshot says of a token: its scopes; 0 unknown, -1 revoked or expired. */
static int scopes_of(const char *secret) {
  const struct token *token = NULL;
  struct directory_snapshot *snapshot = directory_hold(directory);
  must(directory_token(snapshot, str_from(secret), &token));
  int64_t now_us = clock_monotonic_us(clock_system());
  int scopes = token == NULL ? 0 : directory_token_is_valid(snapshot, token, now_us) ? (int)token->scopes : -1;
  directory_release(snapshot);
  return scopes;
}

static bool knows_tenant(const char *id, struct tenant *copy) {
  struct directory_snapshot *snapshot = directory_hold(directory);
  const struct tenant *tenant = directory_tenant(snapshot, str_from(id));
  if (tenant != NULL && copy != NULL) *copy = *tenant;
  directory_release(snapshot);
  return tenant != NULL;
}

static int64_t known_devices(const char *id) {
  struct tenant tenant = {0};
  return knows_tenant(id, &tenant) ? tenant.known_devices : -1;
}

static int start(void **state) {
  (void)state;
  must(metrics_init());
  database_create(&database, true);
  add_tenant("t");
  add_token("first", "t", "{device,read}", "");
  must(loop_new(clock_system(), &loop));
  assert_int_equal(pthread_create(&loop_thread, NULL, run_loop, NULL), 0);
  must(directory_new(database.url, clock_system(), &directory));
  must(directory_start(directory, 5000));
  return 0;
}

static int stop(void **state) {
  (void)state;
  directory_stop(directory);
  loop_stop(loop);
  pthread_join(loop_thread, NULL);
  loop_free(loop);
  directory_free(directory);
  database_drop(&database);
  metrics_free();
  return 0;
}

/* ---- Questions at once */

struct question {
  struct directory_waiter waiter;
  atomic_int answer; /* -1: none yet */
};
static void answered(struct directory_waiter *waiter, bool refreshed) {
  atomic_store(&((struct question *)(void *)waiter)->answer, refreshed);
}
static enum status ask(struct question *question) {
  *question = (struct question){.waiter = {.done = answered, .loop = loop}, .answer = -1};
  return directory_refresh(directory, &question->waiter);
}
static bool refreshed(void) {
  struct question question;
  must(ask(&question));
  WAIT_UNTIL(atomic_load(&question.answer) >= 0, 15000);
  return atomic_load(&question.answer) == 1;
}

static void what_is_there_at_the_start(void **state) {
  (void)state;
  struct tenant tenant;
  assert_true(knows_tenant("t", &tenant));
  assert_int_equal(tenant.buckets, 4);
  assert_int_equal(tenant.default_ttl_ms, 90000);
  assert_int_equal(tenant.known_devices, 0);
  assert_false(tenant.deleting);
  assert_int_equal(scopes_of("first"), SCOPE_DEVICE | SCOPE_READ);
  assert_int_equal(scopes_of("second"), 0);
  assert_true(directory_is_up(directory));
}

static void changes_are_in_force_within_5_s(void **state) {
  (void)state;
  add_tenant("u");
  add_token("admin", NULL, "{admin}", NULL);
  add_token("brief", "u", "{events}", "1 second");
  WAIT_UNTIL(knows_tenant("u", NULL) && scopes_of("admin") == SCOPE_ADMIN, 5000);
  WAIT_UNTIL(scopes_of("brief") == -1, 5000);
  PQclear(sql_query(&database, "UPDATE presence.token SET revoked_at = now() WHERE tenant = 't'", NULL));
  WAIT_UNTIL(scopes_of("first") == -1, 5000);
  PQclear(sql_query(&database, "UPDATE presence.tenant SET max_ttl_ms = 100000, deleting = true WHERE id = 't'", NULL));
  struct tenant tenant = {0};
  WAIT_UNTIL(knows_tenant("t", &tenant) && tenant.deleting && tenant.max_ttl_ms == 100000, 5000);
  PQclear(sql_query(&database, "DELETE FROM presence.tenant WHERE id = 'u'", NULL));
  WAIT_UNTIL(!knows_tenant("u", NULL) && scopes_of("brief") == 0, 5000);
}

static void numbers_of_devices_follow(void **state) {
  (void)state;
  PQclear(sql_query(&database, "INSERT INTO presence.tenant_stats (tenant, known) VALUES ('t', 42)", NULL));
  WAIT_UNTIL(known_devices("t") == 42, 5000);
  assert_int_equal(scopes_of("first"), SCOPE_DEVICE | SCOPE_READ);
  PQclear(sql_query(&database, "UPDATE presence.tenant_stats SET known = 41", NULL));
  WAIT_UNTIL(known_devices("t") == 41, 5000);
}

static void an_answer_is_as_fresh_as_its_question(void **state) {
  (void)state;
  for (int i = 0; i < 20; i++) {
    const char *secret = text_format("secret-%d", i);
    add_token(secret, "t", "{device}", "");
    assert_true(refreshed());
    assert_int_equal(scopes_of(secret), SCOPE_DEVICE);
  }
}

static void a_flood_of_questions_is_bounded(void **state) {
  (void)state;
  enum { FLOOD = 20000 };
  static struct question questions[FLOOD];
  int64_t before = sql_integer(&database, "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()", NULL);
  int full = 0;
  for (int i = 0; i < FLOOD; i++) {
    enum status status = ask(&questions[i]);
    if (status == STATUS_OK) continue;
    assert_int_equal(status, STATUS_FULL);
    atomic_store(&questions[i].answer, 1);
    full++;
  }
  for (int i = 0; i < FLOOD; i++) WAIT_UNTIL(atomic_load(&questions[i].answer) >= 0, 15000);
  assert_true(full > 0);
  int64_t after = sql_integer(&database, "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()", NULL);
  assert_true(after - before < 200);
}

static void postgres_gone_keeps_what_is_known(void **state) {
  (void)state;
  postgres_server_kill();
  WAIT_UNTIL(!directory_is_up(directory), 15000);
  assert_false(refreshed());
  assert_int_equal(scopes_of("first"), SCOPE_DEVICE | SCOPE_READ);
  assert_true(knows_tenant("t", NULL));
  postgres_server_restart();
  database_reconnect(&database);
  WAIT_UNTIL(directory_is_up(directory), 15000);
  add_token("later", "t", "{read}", "");
  WAIT_UNTIL(scopes_of("later") == SCOPE_READ, 5000);
}

static void nobody_there_at_the_start(void **state) {
  (void)state;
  struct directory *lonely = NULL;
  must(metrics_init());
  must(directory_new("host=/nowhere connect_timeout=1", clock_system(), &lonely));
  assert_int_equal(directory_start(lonely, 300), STATUS_UNAVAILABLE);
  struct question question = {.waiter = {.done = answered}, .answer = -1};
  assert_int_equal(directory_refresh(lonely, &question.waiter), STATUS_UNAVAILABLE);
  directory_free(lonely);
  metrics_free();
}

/* Loops hold and compare snapshots while the thread makes new ones: for the thread sanitizer. */
static atomic_bool reading;
static void *read_on(void *context) {
  (void)context;
  struct directory_snapshot *snapshot = directory_hold(directory);
  while (atomic_load(&reading)) {
    const struct token *token = NULL;
    if (!directory_is_newest(directory, snapshot)) {
      directory_release(snapshot);
      snapshot = directory_hold(directory);
    }
    must(directory_token(snapshot, str_from("first"), &token));
    assert_true(directory_token_is_valid(snapshot, token, clock_monotonic_us(clock_system())));
  }
  directory_release(snapshot);
  return NULL;
}

static void readers_and_the_thread(void **state) {
  (void)state;
  pthread_t readers[2];
  atomic_store(&reading, true);
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&readers[i], NULL, read_on, NULL), 0);
  for (int i = 0; i < 10; i++) {
    add_token(text_format("more-%d", i), "t", "{read}", "");
    assert_true(refreshed());
  }
  atomic_store(&reading, false);
  for (int i = 0; i < 2; i++) pthread_join(readers[i], NULL);
}

int main(void) {
#define WITH_DIRECTORY(test) cmocka_unit_test_setup_teardown(test, start, stop)
  const struct CMUnitTest tests[] = {
      WITH_DIRECTORY(what_is_there_at_the_start),        WITH_DIRECTORY(changes_are_in_force_within_5_s),
      WITH_DIRECTORY(numbers_of_devices_follow),         WITH_DIRECTORY(an_answer_is_as_fresh_as_its_question),
      WITH_DIRECTORY(a_flood_of_questions_is_bounded),   WITH_DIRECTORY(readers_and_the_thread),
      WITH_DIRECTORY(postgres_gone_keeps_what_is_known), cmocka_unit_test(nobody_there_at_the_start),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
