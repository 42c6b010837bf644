/* X-Request-Id: an error's answer and the log's line about it say which request it was. */
#include "support/test.h"

#include "support/world.h"

static const struct response *call_with(struct world *world, const char *headers, const char *method, const char *path) {
  world->client->headers = headers;
  const struct response *response = client_call(world->client, method, path, NULL);
  world->client->headers = NULL;
  return response;
}

static void expect_id(struct world *world, const char *sent, const char *method, const char *path, int status,
                      const char *wanted) {
  const struct response *response = call_with(world, text_format("X-Request-Id: %s\r\n", sent), method, path);
  const char *got = response_header(response, "X-Request-Id");
  assert_int_equal(response->status, status);
  if (wanted == NULL)
    assert_null(got);
  else
    assert_string_equal(got, wanted);
}

static void an_error_gives_back_the_callers_id(void **state) {
  struct world *world = world_start(state, &(struct world_options){0});
  const char *longest = text_format("%0128d", 1), *too_long = text_format("%0129d", 1);
  const char *device = device_path(world, "d", "/heartbeat");
  expect_id(world, "abc-1", "GET", "/nowhere", 404, "abc-1"); /* a prepared answer */
  expect_id(world, "abc-2", "PUT", device, 405, "abc-2");
  expect_id(world, "~!$%&/\\", "GET", tenant_path(world, "/devices?limit=0"), 400, "~!$%&/\\");
  expect_id(world, longest, "GET", "/nowhere", 404, longest);
  expect_id(world, too_long, "GET", "/nowhere", 404, NULL);
  expect_id(world, "two words", "GET", "/nowhere", 404, NULL);
  expect_id(world, "\xC3\xA4", "GET", "/nowhere", 404, NULL);
  expect_id(world, "abc-3", "POST", device, 204, NULL); /* what went well has none */
  expect_id(world, "abc-4", "GET", device_path(world, "d", ""), 200, NULL);
  assert_null(response_header(call_with(world, NULL, "GET", "/nowhere"), "X-Request-Id"));
  assert_false(presenced_logged(world->service, "event=request_failed"));
  world_end(world);
}

static void a_failure_of_ours_is_logged_with_its_id(void **state) {
  struct world *world = world_start(state, &(struct world_options){.proxies = true});
  const char *path = device_path(world, "d", "/heartbeat");
  beat(world, "d", 60000);
  proxy_refuse(world->redis_proxy, true);
  proxy_cut(world->redis_proxy);
  WAIT_UNTIL(call_with(world, NULL, "POST", path)->status == 503, 15000);
  WAIT_UNTIL(call_with(world, "X-Request-Id: mine-17\r\n", "POST", path)->status == 503 &&
                 presenced_logged(world->service, "request_id=mine-17"),
             15000); /* at most one line a second */
  assert_true(presenced_logged(
      world->service,
      text_format("event=request_failed route=heartbeat http_status=503 reason=unavailable tenant=%s device=d", world->tenant)));
  const char *made = NULL; /* of the service's own, where the caller has none and a line is logged */
  WAIT_UNTIL((made = response_header(call_with(world, NULL, "POST", path), "X-Request-Id")) != NULL, 15000);
  assert_int_equal(strlen(made), 16);
  assert_true(presenced_logged(world->service, text_format("request_id=%s", made)));
  proxy_refuse(world->redis_proxy, false);
  WAIT_UNTIL(call_with(world, NULL, "POST", path)->status == 204, 15000);
  world_end(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(an_error_gives_back_the_callers_id, world_teardown),
      cmocka_unit_test_teardown(a_failure_of_ours_is_logged_with_its_id, world_teardown),
  };
  return cmocka_run_group_tests_name("request_id", tests, NULL, NULL);
}
