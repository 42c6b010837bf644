/* URLs of Redis: what is understood, what is refused and how, and that no secret shows. */
#include "support/unit.h"

#include <stdlib.h>
#include <string.h>

#include "redis/target.h"

struct parsed {
  const char *url, *host, *path, *user, *password, *address;
  int port, database;
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

static void test_understood(void **state) {
  (void)state;
  static const struct parsed cases[] = {
      {.url = "redis://127.0.0.1:6379/0", .host = "127.0.0.1", .port = 6379, .address = "127.0.0.1:6379/0"},
      {.url = "redis://redis.example", .host = "redis.example", .port = 6379, .address = "redis.example:6379/0"},
      {.url = "redis://h/", .host = "h", .port = 6379, .address = "h:6379/0"},
      {.url = "redis://h:1/15", .host = "h", .port = 1, .database = 15, .address = "h:1/15"},
      {.url = "redis://[::1]", .host = "::1", .port = 6379, .address = "[::1]:6379/0"},
      {.url = "redis://[::1]:7000/2", .host = "::1", .port = 7000, .database = 2, .address = "[::1]:7000/2"},
      {.url = "redis://:secret@h", .host = "h", .password = "secret", .port = 6379, .address = "h:6379/0"},
      {.url = "redis://me:secret@h:2", .host = "h", .user = "me", .password = "secret", .port = 2, .address = "h:2/0"},
      {.url = "redis://me:a%40b%2Fc%3A@h", .host = "h", .user = "me", .password = "a@b/c:", .port = 6379, .address = "h:6379/0"},
      {.url = "redis://me:a@b@h", .host = "h", .user = "me", .password = "a@b", .port = 6379, .address = "h:6379/0"},
      {.url = "rediss://h:3", .host = "h", .port = 3, .tls = true, .address = "h:3/0"},
      {.url = "unix:///run/redis.sock", .path = "/run/redis.sock", .address = "unix:/run/redis.sock?db=0"},
      {.url = "unix:///a%20b?db=4", .path = "/a b", .database = 4, .address = "unix:/a b?db=4"},
      {.url = "unix://me:pw@/s", .path = "/s", .user = "me", .password = "pw", .address = "unix:/s?db=0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    const struct parsed *expected = &cases[i];
    struct redis_target target = {0};
    char *error = NULL;
    bool tls;
    assert_status(STATUS_OK, target_parse_url(&target, expected->url, &tls, &error));
    assert_text(expected->host, target.host);
    assert_text(expected->path, target.path);
    assert_text(expected->user, target.user);
    assert_text(expected->password, target.password);
    assert_text(expected->address, target.address);
    assert_int_equal(target.port, expected->port);
    assert_int_equal(target.database, expected->database);
    assert_int_equal(tls, expected->tls);
    free(target.host);
    free(target.path);
    free(target.user);
    free(target.password);
    free(target.address);
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
    free(target.host);
    free(target.path);
    free(target.user);
    free(target.password);
    free(target.address);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_understood), cmocka_unit_test(test_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
