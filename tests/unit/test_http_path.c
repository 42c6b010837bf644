#include "support/unit.h"

#include <stdio.h>

#include "http/path.h"

static struct str text(const char *literal) { return str_from(literal); }

static void assert_segments(const char *raw, const char *joined) {
  struct path path;
  char seen[256] = "";
  if (!path_split(text(raw), &path)) {
    assert_null(joined);
    return;
  }
  size_t used = 0;
  for (size_t i = 0; i < path.count; i++)
    used += (size_t)snprintf(seen + used, sizeof seen - used, "%s%.*s", i > 0 ? "|" : "", STR_ARG(path.segments[i]));
  assert_non_null(joined);
  assert_string_equal(seen, joined);
}

static void splits_at_each_slash(void **state) {
  (void)state;
  assert_segments("/", "");
  assert_segments("/healthz", "healthz");
  assert_segments("/healthz/", "healthz|");
  assert_segments("//", "|");
  assert_segments("/v1/tenants/t/devices/a%2Fb/heartbeat", "v1|tenants|t|devices|a%2Fb|heartbeat");
  assert_segments("/a/../b/.", "a|..|b|.");
  assert_segments("/1/2/3/4/5/6/7/8", "1|2|3|4|5|6|7|8");
  assert_segments("/1/2/3/4/5/6/7/8/9", NULL);
  assert_segments("/1/2/3/4/5/6/7/8/", NULL);
  assert_segments("", NULL);
  assert_segments("*", NULL);
  assert_segments("healthz", NULL);
  assert_segments("http://host:80/a/b", "a|b");
  assert_segments("HTTPS://host", "");
  assert_segments("ftp://host/a", NULL);
}

static void assert_decoded(const char *raw, const char *expected) {
  char out[16];
  size_t len = 99;
  enum status status = path_decode(text(raw), out, sizeof out, &len);
  if (expected == NULL) {
    assert_status(STATUS_INVALID, status);
    return;
  }
  assert_status(STATUS_OK, status);
  assert_int_equal(len, strlen(expected));
  assert_memory_equal(out, expected, len);
}

static void decodes_once(void **state) {
  (void)state;
  assert_decoded("", "");
  assert_decoded("a+b", "a+b");
  assert_decoded("%61%62", "ab");
  assert_decoded("%2f%2F", "//");
  assert_decoded("%252F", "%2F");
  assert_decoded("%F0%9f%A4%96", "\xF0\x9F\xA4\x96");
  static const char *const broken[] = {"%", "%1", "a%", "a%2", "%g0", "%0g", "%%20", "% 20", "%-1", "%+1"};
  for (size_t i = 0; i < sizeof broken / sizeof broken[0]; i++) assert_decoded(broken[i], NULL);
  char out[4];
  size_t len = 0;
  assert_status(STATUS_OK, path_decode(text("%00abc"), out, sizeof out, &len));
  assert_memory_equal(out, "\0abc", 4);
  assert_status(STATUS_TOO_LARGE, path_decode(text("abcde"), out, sizeof out, &len));
  assert_status(STATUS_OK, path_decode(text("%41%42%43%44"), out, sizeof out, &len));
  assert_int_equal(len, 4);
}

/* "name=value;name=value" of a query; NULL: refused with this status. */
static void assert_query(const char *raw, enum status expected_status, const char *expected) {
  char scratch[256];
  char seen[256] = "";
  struct query query;
  assert_true(strlen(raw) <= sizeof scratch);
  assert_status(expected_status, query_parse(text(raw), scratch, &query));
  if (expected_status != STATUS_OK) return;
  size_t used = 0;
  for (size_t i = 0; i < query.count; i++)
    used += (size_t)snprintf(seen + used, sizeof seen - used, "%.*s=%.*s;", STR_ARG(query.parameters[i].name),
                             STR_ARG(query.parameters[i].value));
  assert_string_equal(seen, expected);
}

static void queries(void **state) {
  (void)state;
  assert_query("", STATUS_OK, "");
  assert_query("a=1", STATUS_OK, "a=1;");
  assert_query("a=1&b=2", STATUS_OK, "a=1;b=2;");
  assert_query("&&a=1&", STATUS_OK, "a=1;");
  assert_query("a", STATUS_OK, "a=;");
  assert_query("=a", STATUS_OK, "=a;");
  assert_query("a=b=c", STATUS_OK, "a=b=c;");
  assert_query("a+b=c+d%2B", STATUS_OK, "a b=c d+;");
  assert_query("%26=%3D", STATUS_OK, "&==;");
  assert_query("a=1&a=1", STATUS_INVALID, NULL);
  assert_query("a=1&%61=2", STATUS_INVALID, NULL);
  assert_query("a=%", STATUS_INVALID, NULL);
  assert_query("%=a", STATUS_INVALID, NULL);
  assert_query("a&b&c&d&e&f&g&h&i&j&k&l&m&n&o&p", STATUS_OK, "a=;b=;c=;d=;e=;f=;g=;h=;i=;j=;k=;l=;m=;n=;o=;p=;");
  assert_query("a&b&c&d&e&f&g&h&i&j&k&l&m&n&o&p&q", STATUS_TOO_LARGE, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(splits_at_each_slash), cmocka_unit_test(decodes_once),
                                     cmocka_unit_test(queries)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
