/* Pools of bodies and requests. */
#include "support/unit.h"

#include <stdlib.h>

#include "http/body.h"
#include "http/request.h"
#include "support/alloc_fail.h"

static void a_body_grows_from_small_to_large(void **state) {
  (void)state;
  struct body_pool pool = {0};
  struct body body = {0};
  char piece[5000];
  assert_status(STATUS_OK, body_open(&pool, &body, 0));
  for (int i = 0; i < 200; i++) {
    memset(piece, i, sizeof piece);
    assert_status(STATUS_OK, body_append(&pool, &body, piece, sizeof piece));
  }
  assert_int_equal(body.len, 200 * sizeof piece);
  for (int i = 0; i < 200; i++) assert_int_equal((unsigned char)body.data[(size_t)i * sizeof piece + 4999], i);
  assert_status(STATUS_TOO_LARGE, body_append(&pool, &body, body.data, BODY_LARGE_BYTES - body.len + 1));
  assert_int_equal(pool.large_in_use, 1);
  assert_int_equal(pool.small_kept, 1);
  body_close(&pool, &body);
  assert_int_equal(pool.large_in_use, 0);
  assert_int_equal(pool.large_kept, 1);
  body_close(&pool, &body); /* empty: nothing */
  body_pool_free(&pool);
}

static void buffers_are_used_again_and_bounded(void **state) {
  (void)state;
  struct body_pool pool = {0};
  struct body bodies[BODY_LARGE_IN_USE_MAX];
  struct body one_more;
  for (int i = 0; i < BODY_LARGE_IN_USE_MAX; i++) assert_status(STATUS_OK, body_open(&pool, &bodies[i], BODY_SMALL_BYTES + 1));
  assert_status(STATUS_FULL, body_open(&pool, &one_more, BODY_LARGE_BYTES));
  assert_status(STATUS_OK, body_open(&pool, &one_more, BODY_SMALL_BYTES));
  const char *memory = one_more.data;
  body_close(&pool, &one_more);
  assert_status(STATUS_OK, body_open(&pool, &one_more, 1));
  assert_ptr_equal(one_more.data, memory);
  body_close(&pool, &one_more);
  for (int i = 0; i < BODY_LARGE_IN_USE_MAX; i++) body_close(&pool, &bodies[i]);
  assert_int_equal(pool.large_kept, BODY_LARGE_KEPT);
  assert_status(STATUS_TOO_LARGE, body_open(&pool, &one_more, BODY_LARGE_BYTES + 1));
  body_pool_free(&pool);
}

static bool use_pools(void *context) {
  static const char large[10000]; /* moves the body from a small buffer to a large one */
  (void)context;
  struct body_pool bodies = {0};
  struct request_pool requests = {0};
  struct body body = {0};
  enum status status = body_open(&bodies, &body, 10);
  if (status == STATUS_OK) status = body_append(&bodies, &body, "0123456789", 10);
  if (status == STATUS_OK) status = body_append(&bodies, &body, large, sizeof large);
  assert_true(status == STATUS_OK || status == STATUS_NO_MEMORY);
  bool done = status == STATUS_OK;
  struct http_request *request = done ? request_take(&requests) : NULL;
  done =
      done && request != NULL && request_alloc(&request->public, 100) != NULL && request_alloc(&request->public, 100000) != NULL;
  if (request != NULL) request_give(&requests, request);
  body_close(&bodies, &body);
  body_pool_free(&bodies);
  request_pool_free(&requests);
  return done;
}

static void memory_of_a_request(void **state) {
  (void)state;
  struct request_pool pool = {0};
  struct http_request *request = request_take(&pool);
  size_t sizes[] = {1, 16, 1000, 1, 5000, 100, 4000, 200000, 0};
  for (int round = 0; round < 2; round++) {
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
      char *memory = request_alloc(&request->public, sizes[i]);
      assert_non_null(memory);
      assert_int_equal((uintptr_t)memory % 16, 0);
      for (size_t at = 0; at < sizes[i]; at++) assert_int_equal(memory[at], 0);
      memset(memory, 0xEE, sizes[i]);
    }
    assert_null(request_alloc(&request->public, SIZE_MAX - 1));
    request_give(&pool, request);
    assert_ptr_equal(request_take(&pool), request); /* used again, clean */
  }
  request_give(&pool, request);
  request_pool_free(&pool);
}

static void lives_with_failed_allocations(void **state) {
  (void)state;
  assert_true(alloc_fail_sweep(use_pools, NULL) >= 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_body_grows_from_small_to_large),
                                     cmocka_unit_test(buffers_are_used_again_and_bounded), cmocka_unit_test(memory_of_a_request),
                                     cmocka_unit_test(lives_with_failed_allocations)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
