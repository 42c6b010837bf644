/* Sentinels, and a cluster, that let nobody in without a certificate, a user name and a password (P2, P5): only TLS on every
 * road, also among the servers, and the users of deploy/redis with no more rights than they need. Devices come and go, and a
 * fail-over makes no event. */
#include "support/test.h"

#include "support/fleet.h"
#include "support/redis_group.h"

#include <string.h>

enum { DEVICES = 30, PRIMARIES = 2 };

static const struct group_security *security;
static struct redis_group group;
static size_t primaries[PRIMARIES], primary_count; /* of the group, now */

static bool is_secured(void) {
  if (security == NULL && pki_is_here()) security = group_security_make();
  if (security == NULL) print_message("no openssl command\n");
  return security != NULL;
}

static int start_sentinels(void **state) {
  if (!is_secured()) return -1;
  sentinel_group_start(&group, 1, security);
  primary_count = 1;
  primaries[0] = 0;
  group_world_start(state, &group);
  return 0;
}

static int start_cluster(void **state) {
  if (!is_secured()) return -1;
  cluster_start(&group, PRIMARIES, 1, security);
  primary_count = PRIMARIES;
  for (size_t i = 0; i < PRIMARIES; i++) primaries[i] = i;
  group_world_start(state, &group);
  return 0;
}

static int stop(void **state) { return group_world_stop(state, &group); }

static int64_t unpublished(void) {
  int64_t sum = 0;
  for (size_t i = 0; i < primary_count; i++) sum += keyspace_unpublished(&group.servers[primaries[i]]);
  return sum;
}

static void check(struct world *world) {
  WAIT_UNTIL(unpublished() == 0, 20000);
  for (size_t i = 0; i < primary_count; i++) {
    struct redis_server *server = &group.servers[primaries[i]];
    keyspace_check(server);
    assert_string_equal(redis_text(server, "ACL LOG"), ""); /* nobody was refused what he asked for */
  }
  world_check(world);
}

static void comes_and_goes(struct world *world, const char *device) {
  WAIT_UNTIL(fleet_try_beat(world, device, 300) == 204, 20000);
  history_wait(&world->database, world->tenant, device, "online offline(timeout)");
}

static void lives_through(void **state, void (*fail_over)(void)) {
  struct world *world = world_begin(state);
  fleet_beat_until_taken(world, DEVICES, 60000);
  comes_and_goes(world, "before");
  group_wait_in_step(&group, primaries[0], 1);
  fail_over();
  fleet_beat_until_taken(world, DEVICES, 60000);
  comes_and_goes(world, "after");
  check(world);
  assert_int_equal(fleet_with_history(world, "online"), DEVICES);
  (void)world_control(world, "status", NULL);
}

static void the_primary_dies(void) {
  redis_server_kill(&group.servers[primaries[0]]);
  primaries[0] = group_wait_promoted(&group, primaries[0]);
}

static void test_p5_sentinels(void **state) { lives_through(state, the_primary_dies); }

static void the_replica_takes_over(void) {
  struct redis_server *replica = &group.servers[PRIMARIES];
  redis_text(replica, "CLUSTER FAILOVER");
  WAIT_UNTIL(group_is_primary(replica), 20000);
  primaries[0] = PRIMARIES;
}

static void test_p5_cluster(void **state) { lives_through(state, the_replica_takes_over); }

/* options: of presencectl, over those that fit. */
static void expect_refused(struct world *world, const char *option, const char *value, const char *why) {
  struct outcome outcome = world_presencectl(world, "counts", option, value, NULL);
  if (outcome.code != 1 || strstr(outcome.err, why) == NULL)
    fail_msg("exit code 1 and '%s' wanted, got %d: %s", why, outcome.code, outcome.err);
  assert_null(strstr(outcome.err, "not-this-one"));
}

static void test_others_are_refused(void **state) {
  struct world *world = world_begin(state);
  const char *url = strchr(group.environment[0], '=') + 1, *password = strchr(strstr(url, "://") + 3, ':') + 1;
  const char *wrong = text_format("%.*snot-this-one%s", (int)(password - url), url, strchr(password, '@'));
  expect_refused(world, "--redis-url", wrong, "WRONGPASS");
  const char *bare = text_format("%.*s%s", (int)(strstr(url, "://") + 3 - url), url, strchr(url, '@') + 1);
  expect_refused(world, "--redis-url", bare, "NOAUTH");
  expect_refused(world, "--redis-tls-ca", security->client.cert, "certificate verify failed");
  for (size_t i = 0; i < primary_count; i++) redis_text(&group.servers[primaries[i]], "ACL LOG RESET");
  check(world);
}

int main(void) {
  const struct CMUnitTest sentinels[] = {cmocka_unit_test(test_others_are_refused), cmocka_unit_test(test_p5_sentinels)};
  const struct CMUnitTest cluster[] = {cmocka_unit_test(test_others_are_refused), cmocka_unit_test(test_p5_cluster)};
  return cmocka_run_group_tests_name("Sentinels", sentinels, start_sentinels, stop) +
         cmocka_run_group_tests_name("a cluster", cluster, start_cluster, stop);
}
