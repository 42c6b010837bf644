/* URLs of Redis: what is understood, what is refused and how, and that no secret shows. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/target.h"

struct parsed {
  const char *url;
  enum target_kind kind;
  const char *addresses; /* with a blank between two */
  const char *user, *password, *master_name;
  int database;
  bool tls;
};

static void assert_text(const char *expected, const char *got) {
  if (!expected) {
    assert_null(got);
  } else {
    assert_non_null(got);
    assert_string_equal(got, expected);
  }
}

static const char *join_addresses(const struct redis_target *target) {
  static char text[2048];
  size_t length = 0;
  text[0] = '\0';
  for (size_t i = 0; i < target->address_count; i++) {
    length += (size_t)snprintf(text + length, sizeof text - length, "%s%s", i > 0 ? " " : "", target->addresses[i].text);
  }
  return text;
}

static void test_understood(void **state) {
  (void)state;
  static const struct parsed cases[] = {
      {"redis://127.0.0.1:6379/0", .addresses = "127.0.0.1:6379"},
      {"redis://redis.example", .addresses = "redis.example:6379"},
      {"redis://h/", .addresses = "h:6379"},
      {"redis://h:1/15", .addresses = "h:1", .database = 15},
      {"redis://[::1]", .addresses = "[::1]:6379"},
      {"redis://[::1]:7000/2", .addresses = "[::1]:7000", .database = 2},
      {"redis://:secret@h", .addresses = "h:6379", .password = "secret"},
      {"redis://me:secret@h:2", .addresses = "h:2", .user = "me", .password = "secret"},
      {"redis://me:a%40b%2Fc%3A@h", .addresses = "h:6379", .user = "me", .password = "a@b/c:"},
      {"redis://me:a@b@h", .addresses = "h:6379", .user = "me", .password = "a@b"},
      {"rediss://h:3", .addresses = "h:3", .tls = true},
      {"unix:///run/redis.sock", .addresses = "unix:/run/redis.sock"},
      {"unix:///a%20b?db=4", .addresses = "unix:/a b", .database = 4},
      {"unix://me:pw@/s", .addresses = "unix:/s", .user = "me", .password = "pw"},
      {"redis+sentinel://h/main", TARGET_SENTINEL, "h:26379", .master_name = "main"},
      {"redis+sentinel://a:1,b,[::1]:3/my%20main/2", TARGET_SENTINEL, "a:1 b:26379 [::1]:3", .master_name = "my main",
       .database = 2},
      {"rediss+sentinel://me:a,b@h/main/", TARGET_SENTINEL, "h:26379", "me", "a,b", "main", .tls = true},
      {"redis+cluster://h", TARGET_CLUSTER, .addresses = "h:6379"},
      {"redis+cluster://a:1,b:2,[::1]/", TARGET_CLUSTER, .addresses = "a:1 b:2 [::1]:6379"},
      {"redis+cluster://a/0", TARGET_CLUSTER, .addresses = "a:6379"},
      {"rediss+cluster://:secret@a,b", TARGET_CLUSTER, "a:6379 b:6379", .password = "secret", .tls = true},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const struct parsed *expected = &cases[i];
    struct redis_target target = {0};
    char *error = NULL;
    bool tls;
    assert_status(STATUS_OK, target_parse_url(&target, expected->url, &tls, &error));
    assert_int_equal(target.kind, expected->kind);
    assert_string_equal(join_addresses(&target), expected->addresses);
    assert_text(expected->user, target.user);
    assert_text(expected->password, target.password);
    assert_text(expected->master_name, target.master_name);
    assert_int_equal(target.database, expected->database);
    assert_int_equal(tls, expected->tls);
    target_clear_url(&target);
  }
}

/* As many addresses as there may be, and one more. */
static void test_many_addresses(void **state) {
  (void)state;
  for (size_t count = TARGET_ADDRESSES_MAX; count <= TARGET_ADDRESSES_MAX + 1; count++) {
    char url[1024];
    size_t length = (size_t)snprintf(url, sizeof url, "redis+cluster://h");
    for (size_t i = 1; i < count; i++) length += (size_t)snprintf(url + length, sizeof url - length, ",h%zu", i);
    struct redis_target target = {0};
    char *error = NULL;
    bool tls;
    enum status status = target_parse_url(&target, url, &tls, &error);
    assert_int_equal(status, count > TARGET_ADDRESSES_MAX ? STATUS_INVALID : STATUS_OK);
    free(error);
    target_clear_url(&target);
  }
}

static void test_refused(void **state) {
  (void)state;
  static const struct {
    const char *url, *why;
  } cases[] = {
      {"", "the scheme is not known"},
      {"127.0.0.1:6379", "the scheme is not known"},
      {"http://h", "the scheme is not known"},
      {"redis://", "the host is missing"},
      {"redis://:secret@", "the host is missing"},
      {"redis://h:0", "the port must be 1 to 65535"},
      {"redis://h:65536", "the port must be 1 to 65535"},
      {"redis://h:", "the port must be 1 to 65535"},
      {"redis://h:x", "the port must be 1 to 65535"},
      {"redis://h/x", "the database must be a number"},
      {"redis://h/65536", "the database must be a number"},
      {"redis://::1", "an IPv6 address needs brackets"},
      {"redis://[::1", "a [ without its ]"},
      {"redis://[::1]7", "only a :port can follow the ]"},
      {"redis://me:secret%4@h", "user or password has a broken percent code"},
      {"redis://me:secret%00@h", "user or password has a broken percent code"},
      {"redis://%zz", "the host has a broken percent code"},
      {"unix://", "the path of the socket must be absolute"},
      {"unix://relative", "the path of the socket must be absolute"},
      {"unix:///", "the path of the socket must be absolute"},
      {"unix:///s?x=1", "only ?db=n can follow the path"},
      {"unix:///s?db=x", "the database must be a number"},
      {"unix:///s%", "the path has a broken percent code"},
      {"redis://a,b", "several addresses are for redis+sentinel:// and redis+cluster://"},
      {"redis+sentinel://h", "the name of the primary is missing"},
      {"redis+sentinel://h/", "the name of the primary is missing"},
      {"redis+sentinel:///main", "the host is missing"},
      {"redis+sentinel://a,/main", "the host is missing"},
      {"redis+sentinel://h/%zz", "the name of the primary has a broken percent code"},
      {"redis+sentinel://h/main/x", "the database must be a number"},
      {"redis+cluster://", "the host is missing"},
      {"redis+cluster://,h", "the host is missing"},
      {"redis+cluster://a,b:0", "the port must be 1 to 65535"},
      {"redis+cluster://h/1", "a cluster has only database 0"},
      {"redis+other://h", "the scheme is not known"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    struct redis_target target = {0};
    char *error = NULL;
    bool tls;
    assert_status(STATUS_INVALID, target_parse_url(&target, cases[i].url, &tls, &error));
    assert_non_null(error);
    assert_non_null(strstr(error, cases[i].why));
    assert_null(strstr(error, "secret"));
    free(error);
    target_clear_url(&target);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_understood), cmocka_unit_test(test_many_addresses),
                                     cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
