#include "support/unit.h"

#include "http/router.h"

static void assert_route(enum http_method method, const char *path, enum route_id route, const char *tenant, const char *device) {
  struct route_match match;
  assert_int_equal(router_match(method, str_from(path), false, &match), ROUTE_FOUND);
  assert_int_equal(match.route, route);
  assert_int_equal(match.has_tenant, tenant != NULL);
  assert_int_equal(match.has_device, device != NULL);
  if (tenant != NULL) assert_true(str_equal(match.tenant, str_from(tenant)));
  if (device != NULL) assert_true(str_equal(match.device, str_from(device)));
}

static void finds_routes(void **state) {
  (void)state;
  assert_route(METHOD_POST, "/v1/tenants/t/devices/d/heartbeat", ROUTE_HEARTBEAT, "t", "d");
  assert_route(METHOD_POST, "/v1/tenants/t/devices/d/disconnect", ROUTE_DISCONNECT, "t", "d");
  assert_route(METHOD_POST, "/v1/tenants/t/heartbeats", ROUTE_HEARTBEATS, "t", NULL);
  assert_route(METHOD_GET, "/v1/tenants/t/devices/d", ROUTE_DEVICE, "t", "d");
  assert_route(METHOD_HEAD, "/v1/tenants/t/devices/d", ROUTE_DEVICE, "t", "d");
  assert_route(METHOD_GET, "/v1/tenants//devices/", ROUTE_DEVICE, "", "");
  assert_route(METHOD_GET, "/v1/tenants/{tenant}/devices/{device}", ROUTE_DEVICE, "{tenant}", "{device}");
  assert_route(METHOD_GET, "/healthz", ROUTE_HEALTHZ, NULL, NULL);
  assert_route(METHOD_GET, "/", ROUTE_PAGE, NULL, NULL);
  assert_route(METHOD_GET, "/assets/page.css", ROUTE_ASSET, NULL, NULL);
}

static void tells_a_wrong_path_from_a_wrong_method(void **state) {
  (void)state;
  static const char *const nowhere[] = {"",
                                        "/assets",
                                        "/assets/a/b",
                                        "/v1",
                                        "/healthz/",
                                        "//healthz",
                                        "/Healthz",
                                        "/healthz2",
                                        "/v1/tenants",
                                        "/v1/tenants/t/",
                                        "/v2/tenants/t/heartbeats",
                                        "/healthz%2F",
                                        "/%6ealthz%",
                                        "/v1/tenants/t/devices/d/heartbeat/x"};
  struct route_match match;
  for (size_t i = 0; i < sizeof nowhere / sizeof nowhere[0]; i++)
    assert_int_equal(router_match(METHOD_GET, str_from(nowhere[i]), false, &match), ROUTE_NO_PATH);
  /* Fixed words are segments too: decoded once, after the path was split. */
  assert_int_equal(router_match(METHOD_GET, str_from("/%68ealthz"), false, &match), ROUTE_FOUND);
  assert_int_equal(match.route, ROUTE_HEALTHZ);
  assert_int_equal(router_match(METHOD_GET, str_from("/v1/tenants/t/%64evices/d"), false, &match), ROUTE_FOUND);
  assert_int_equal(match.route, ROUTE_DEVICE);
  assert_int_equal(router_match(METHOD_GET, str_from("/v1/tenants/t/heartbeats"), false, &match), ROUTE_NO_METHOD);
  assert_int_equal(match.methods, METHOD_POST);
  assert_int_equal(match.route, ROUTE_COUNT);
  assert_int_equal(router_match(METHOD_OTHER, str_from("/healthz"), false, &match), ROUTE_NO_METHOD);
  assert_int_equal(match.methods, METHOD_GET | METHOD_HEAD);
}

static void an_operational_process_knows_three_paths(void **state) {
  (void)state;
  struct route_match match;
  assert_int_equal(router_match(METHOD_GET, str_from("/readyz"), true, &match), ROUTE_FOUND);
  assert_int_equal(router_match(METHOD_GET, str_from("/v1/tenants/t/devices/d"), true, &match), ROUTE_NO_PATH);
}

static void texts(void **state) {
  (void)state;
  char allow[ALLOW_TEXT_MAX];
  char label[ROUTE_LABEL_MAX];
  http_methods_format(METHOD_GET | METHOD_HEAD | METHOD_POST | METHOD_PUT | METHOD_PATCH | METHOD_DELETE | METHOD_OPTIONS, allow);
  assert_string_equal(allow, "GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
  http_methods_format(0, allow);
  assert_string_equal(allow, "");
  assert_int_equal(http_method_parse("GET"), METHOD_GET);
  assert_int_equal(http_method_parse("get"), METHOD_OTHER);
  route_label(ROUTE_HEARTBEATS, label);
  assert_string_equal(label, "heartbeats");
  route_label(ROUTE_COUNT, label);
  assert_string_equal(label, "none");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(finds_routes), cmocka_unit_test(tells_a_wrong_path_from_a_wrong_method),
                                     cmocka_unit_test(an_operational_process_knows_three_paths), cmocka_unit_test(texts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
