/* Snapshots, and what auth.h decides on them. */
#include "support/unit.h"

#include <stdio.h>

#include "directory/snapshot.h"
#include "http/auth.h"
#include "support/alloc_fail.h"

static enum status add_token(struct directory_snapshot *snapshot, const char *secret, const char *tenant, unsigned scopes,
                             int64_t expires_ms) {
  struct token token = {.tenant_id = str_from(tenant), .scopes = scopes, .expires_ms = expires_ms};
  enum status status = hash_sha256(str_from(secret), token.sha256);
  return status == STATUS_OK ? snapshot_add_token(snapshot, &token) : status;
}

static enum status add_tenant(struct directory_snapshot *snapshot, const char *id, bool deleting) {
  struct tenant tenant = {.id = str_from(id), .buckets = 1, .deleting = deleting, .known_devices = 7};
  return snapshot_add_tenant(snapshot, &tenant);
}

static struct directory_snapshot *make(void) {
  struct directory_snapshot *snapshot = NULL;
  char name[32];
  assert_status(STATUS_OK, snapshot_new(3, &snapshot));
  for (int i = 0; i < 1000; i++) {
    snprintf(name, sizeof name, "t%d", i);
    assert_status(STATUS_OK, add_tenant(snapshot, name, i == 999));
    assert_status(STATUS_OK, add_token(snapshot, name, name, SCOPE_DEVICE, INT64_MAX));
  }
  assert_status(STATUS_OK, add_token(snapshot, "admin", "", SCOPE_ADMIN, INT64_MAX));
  assert_status(STATUS_OK, add_token(snapshot, "expiring", "t1", SCOPE_READ, 5000));
  assert_status(STATUS_OK, snapshot_finish(snapshot));
  return snapshot;
}

static void finds_each_tenant_and_token(void **state) {
  (void)state;
  struct directory_snapshot *snapshot = make();
  char name[32];
  const struct token *token = NULL;
  for (int i = 0; i < 1000; i++) {
    snprintf(name, sizeof name, "t%d", i);
    assert_true(str_equal(directory_tenant(snapshot, str_from(name))->id, str_from(name)));
    assert_status(STATUS_OK, directory_token(snapshot, str_from(name), &token));
    assert_true(str_equal(token->tenant_id, str_from(name)));
  }
  assert_null(directory_tenant(snapshot, STR_LIT("t1000")));
  assert_null(directory_tenant(snapshot, STR_NONE));
  assert_status(STATUS_OK, directory_token(snapshot, STR_LIT("t1000"), &token));
  assert_null(token);
  directory_release(snapshot);
}

static void expiry_is_judged_by_the_other_clock(void **state) {
  (void)state;
  struct directory_snapshot *snapshot = make();
  const struct token *token = NULL;
  assert_status(STATUS_OK, directory_token(snapshot, STR_LIT("expiring"), &token));
  snapshot_set_clock_offset(snapshot, 4000); /* there it is 4 s later than here */
  assert_true(directory_token_is_valid(snapshot, token, 999999));
  assert_false(directory_token_is_valid(snapshot, token, 1000000));
  directory_release(snapshot);
}

static void twice_the_same_is_refused(void **state) {
  (void)state;
  struct directory_snapshot *snapshot = NULL;
  assert_status(STATUS_OK, snapshot_new(1, &snapshot));
  assert_status(STATUS_OK, add_tenant(snapshot, "t", false));
  assert_status(STATUS_OK, add_tenant(snapshot, "t", false));
  assert_status(STATUS_INVALID, snapshot_finish(snapshot));
  directory_release(snapshot);
}

static void a_copy_has_new_numbers_of_devices(void **state) {
  (void)state;
  struct directory_snapshot *snapshot = make();
  struct directory_snapshot *copy = NULL;
  int64_t known[1000] = {0};
  known[5] = 123;
  snapshot_set_clock_offset(snapshot, 4000);
  assert_status(STATUS_OK, snapshot_copy_with_known(snapshot, known, &copy));
  directory_release(snapshot);
  const struct token *token = NULL;
  assert_int_equal(directory_tenant(copy, STR_LIT("t5"))->known_devices, 123);
  assert_int_equal(directory_tenant(copy, STR_LIT("t6"))->known_devices, 0);
  assert_status(STATUS_OK, directory_token(copy, STR_LIT("expiring"), &token));
  assert_false(directory_token_is_valid(copy, token, 1000000));
  assert_int_equal(snapshot_version(copy), 3);
  directory_release(copy);
}

static bool build(void *context) {
  (void)context;
  struct directory_snapshot *snapshot = NULL;
  struct directory_snapshot *copy = NULL;
  int64_t known[40] = {0};
  char name[32];
  enum status status = snapshot_new(1, &snapshot);
  for (int i = 0; i < 40 && status == STATUS_OK; i++) {
    snprintf(name, sizeof name, "t%d", i);
    status = add_tenant(snapshot, name, false);
    if (status == STATUS_OK) status = add_token(snapshot, name, name, SCOPE_READ, INT64_MAX);
  }
  if (status == STATUS_OK) status = snapshot_finish(snapshot);
  if (status == STATUS_OK) status = snapshot_copy_with_known(snapshot, known, &copy);
  directory_release(snapshot);
  directory_release(copy);
  assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
  return status == STATUS_OK;
}

static void lives_with_failed_allocations(void **state) {
  (void)state;
  assert_true(alloc_fail_sweep(build, NULL) > 10);
}

static void bearer_headers(void **state) {
  (void)state;
  static const struct {
    const char *header, *secret;
  } cases[] = {{"Bearer abc", "abc"}, {"bEARER   abc  ", "abc"}, {"Bearer a=b/c+d", "a=b/c+d"},
               {"Bearer", NULL},      {"Bearer ", NULL},         {"Bearer    ", NULL},
               {"Bearerabc", NULL},   {"Basic abc", NULL},       {"", NULL},
               {"abc", NULL},         {"Bearer a b", NULL}};
  struct str secret;
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    bool found = auth_bearer(str_from(cases[i].header), &secret);
    assert_int_equal(found, cases[i].secret != NULL);
    if (found) assert_true(str_equal(secret, str_from(cases[i].secret)));
  }
  assert_false(auth_bearer(STR_NONE, &secret));
  char longest[300] = "Bearer ";
  memset(longest + 7, 'x', 257);
  assert_false(auth_bearer((struct str){longest, 7 + 257}, &secret));
  assert_true(auth_bearer((struct str){longest, 7 + 256}, &secret));
}

static enum auth_verdict decide(const struct directory_snapshot *snapshot, const char *header, unsigned scopes, const char *id) {
  struct auth_memo memo = {0};
  const struct token *token = NULL;
  const struct tenant *tenant = NULL;
  enum auth_verdict verdict = auth_token(snapshot, 1, str_from(header), &memo, 0, &token);
  struct str tenant_id = id != NULL ? str_from(id) : STR_NONE;
  if (verdict == AUTH_ALLOWED) verdict = auth_decide(snapshot, token, scopes, id != NULL ? &tenant_id : NULL, &tenant);
  return verdict;
}

static void verdicts(void **state) {
  (void)state;
  struct directory_snapshot *snapshot = make();
  assert_int_equal(decide(snapshot, "Bearer t1", SCOPE_DEVICE, "t1"), AUTH_ALLOWED);
  assert_int_equal(decide(snapshot, "Bearer t1", SCOPE_READ, "t1"), AUTH_NO_SCOPE);
  assert_int_equal(decide(snapshot, "Bearer t1", SCOPE_DEVICE | SCOPE_READ, "t1"), AUTH_NO_SCOPE);
  assert_int_equal(decide(snapshot, "Bearer t1", SCOPE_DEVICE, "t2"), AUTH_FORBIDDEN);
  assert_int_equal(decide(snapshot, "Bearer t1", SCOPE_DEVICE, "nobody"), AUTH_FORBIDDEN);
  assert_int_equal(decide(snapshot, "Bearer t1", SCOPE_ADMIN, NULL), AUTH_NO_SCOPE);
  assert_int_equal(decide(snapshot, "Bearer t999", SCOPE_DEVICE, "t999"), AUTH_FORBIDDEN); /* being deleted */
  assert_int_equal(decide(snapshot, "Bearer admin", SCOPE_DEVICE, "t1"), AUTH_ALLOWED);
  assert_int_equal(decide(snapshot, "Bearer admin", SCOPE_ADMIN, NULL), AUTH_ALLOWED);
  assert_int_equal(decide(snapshot, "Bearer admin", SCOPE_DEVICE, "nobody"), AUTH_UNKNOWN_TENANT);
  assert_int_equal(decide(snapshot, "Bearer admin", SCOPE_DEVICE, "t999"), AUTH_UNKNOWN_TENANT);
  assert_int_equal(decide(snapshot, "Bearer nonsense", SCOPE_DEVICE, "t1"), AUTH_UNKNOWN_TOKEN);
  assert_int_equal(decide(snapshot, "Bearer ", SCOPE_DEVICE, "t1"), AUTH_NO_TOKEN);
  directory_release(snapshot);
}

static void the_memo_is_of_one_snapshot_and_one_header(void **state) {
  (void)state;
  struct directory_snapshot *snapshot = make();
  struct directory_snapshot *other = NULL;
  assert_status(STATUS_OK, snapshot_new(4, &other));
  assert_status(STATUS_OK, snapshot_finish(other));
  struct auth_memo memo = {0};
  const struct token *token = NULL;
  const struct token *again = NULL;
  assert_int_equal(auth_token(snapshot, 1, STR_LIT("Bearer t1"), &memo, 0, &token), AUTH_ALLOWED);
  assert_int_equal(auth_token(snapshot, 1, STR_LIT("Bearer t1"), &memo, 0, &again), AUTH_ALLOWED);
  assert_ptr_equal(token, again);
  assert_int_equal(auth_token(snapshot, 1, STR_LIT("Bearer t2"), &memo, 0, &again), AUTH_ALLOWED);
  assert_true(str_equal(again->tenant_id, STR_LIT("t2")));
  assert_int_equal(auth_token(snapshot, 1, STR_LIT("Bearer t2x"), &memo, 0, &again), AUTH_UNKNOWN_TOKEN);
  assert_int_equal(auth_token(snapshot, 1, STR_NONE, &memo, 0, &again), AUTH_NO_TOKEN);
  assert_int_equal(auth_token(other, 2, STR_LIT("Bearer t2"), &memo, 0, &again), AUTH_UNKNOWN_TOKEN);
  /* It expires although it is remembered. */
  assert_int_equal(auth_token(snapshot, 3, STR_LIT("Bearer expiring"), &memo, 4999999, &again), AUTH_ALLOWED);
  assert_int_equal(auth_token(snapshot, 3, STR_LIT("Bearer expiring"), &memo, 5000000, &again), AUTH_NO_TOKEN);
  directory_release(snapshot);
  directory_release(other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(finds_each_tenant_and_token),
      cmocka_unit_test(expiry_is_judged_by_the_other_clock),
      cmocka_unit_test(twice_the_same_is_refused),
      cmocka_unit_test(a_copy_has_new_numbers_of_devices),
      cmocka_unit_test(lives_with_failed_allocations),
      cmocka_unit_test(bearer_headers),
      cmocka_unit_test(verdicts),
      cmocka_unit_test(the_memo_is_of_one_snapshot_and_one_header),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
