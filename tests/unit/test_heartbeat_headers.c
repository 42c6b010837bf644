/* Content-Type and Prefer as clients write them. */
#include "heartbeat/headers.h"

#include "support/test.h"

static void test_content_type(void **state) {
  (void)state;
  static const char *const lines[] = {"application/x-ndjson", "Application/X-NDJSON", "application/x-ndjson; charset=utf-8",
                                      " application/x-ndjson ;a=b"};
  static const char *const others[] = {"",
                                       "application/json",
                                       "application/x-ndjsonx",
                                       "application/x-ndjso",
                                       "text/plain",
                                       "application/json; application/x-ndjson",
                                       ";application/x-ndjson"};
  for (size_t i = 0; i < LENGTH(lines); i++)
    if (!header_is_ndjson(str_from(lines[i]))) fail_msg("not seen: %s", lines[i]);
  for (size_t i = 0; i < LENGTH(others); i++)
    if (header_is_ndjson(str_from(others[i]))) fail_msg("taken for lines: %s", others[i]);
}

static void test_prefer(void **state) {
  (void)state;
  static const char *const wants[] = {"return=representation",
                                      "Return=representation",
                                      "return = \"representation\"",
                                      "respond-async, return=representation",
                                      "wait=10;x=\"a,b\", return=representation; foo=bar",
                                      " , return=representation",
                                      "foo=\"a\\\",return=minimal\", return=representation"};
  static const char *const others[] = {"",
                                       "return=minimal",
                                       "return",
                                       "representation",
                                       "return=minimal, return=representation",
                                       "x=\"return=representation\"",
                                       "x=\"a, return=representation",
                                       "returns=representation",
                                       "foo; return=representation",
                                       "return=representations",
                                       ",",
                                       "=",
                                       ";",
                                       "\"",
                                       "\"\\"};
  for (size_t i = 0; i < LENGTH(wants); i++)
    if (!header_wants_representation(str_from(wants[i]))) fail_msg("not seen: %s", wants[i]);
  for (size_t i = 0; i < LENGTH(others); i++)
    if (header_wants_representation(str_from(others[i]))) fail_msg("seen where it is not: %s", others[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_content_type), cmocka_unit_test(test_prefer)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
