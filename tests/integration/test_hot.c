/* presencectl hot: what is large is named first, and what to do about it. */
#include "support/test.h"

#include "support/fleet.h"

#include <string.h>

static const json_t *find(const json_t *list, const char *tenant) {
  size_t i;
  json_t *row;
  json_array_foreach(list, i, row) {
    if (strcmp(json_string_value(json_object_get(row, "tenant")), tenant) == 0) return row;
  }
  fail_msg("%s is not in the list", tenant);
  return NULL;
}

static int64_t number(const json_t *object, const char *member) {
  const json_t *value = json_object_get(object, member);
  if (!json_is_integer(value)) fail_msg("%s is no integer", member);
  return json_integer_value(value);
}

static json_t *hot(struct world *world, const char *top) {
  json_error_t error;
  json_t *answer = json_loads(world_control(world, "hot", "--top", top, "--json", NULL), 0, &error);
  assert_non_null(answer);
  assert_true(json_is_false(json_object_get(answer, "partial")));
  return answer;
}

static void test_the_largest_come_first(void **state) {
  static const char *const in_one_bucket[] = {"--buckets", "1", NULL};
  struct world *world = world_start(state, &(struct world_options){.tenant = in_one_bucket});
  const char *crowded = world->tenant;
  fleet_beat(world, 0, 600, 600000);
  world_new_tenant(world, (const char *const[]){"--max-devices", "400", NULL});
  fleet_beat(world, 0, 200, 600000);

  json_t *answer = hot(world, "10");
  const json_t *tenants = json_object_get(answer, "tenants"), *buckets = json_object_get(answer, "buckets");
  const json_t *first = json_array_get(tenants, 0);
  assert_string_equal(json_string_value(json_object_get(first, "tenant")), crowded);
  assert_int_equal(number(first, "fields"), 600);
  assert_in_range(number(first, "bytes"), 600 * 100, 600 * 2000);
  assert_int_equal(number(first, "buckets_used"), 1);
  assert_int_equal(number(first, "fullest_bucket"), 600);
  assert_int_equal(number(first, "not_compact"), 1);
  assert_int_equal(number(first, "suggested_max_devices"), 750);
  const json_t *other = find(tenants, world->tenant);
  assert_int_equal(number(other, "fields"), 200);
  assert_int_equal(number(other, "buckets_used"), 13);
  assert_int_equal(number(other, "not_compact"), 0);
  assert_true(json_is_null(json_object_get(other, "suggested_max_devices")));
  assert_int_equal(number(answer, "buckets_seen"), 14);
  assert_int_equal(json_array_size(buckets), 10);
  assert_int_equal(number(json_array_get(buckets, 0), "fields"), 600);
  assert_true(json_is_false(json_object_get(json_array_get(buckets, 0), "compact")));
  assert_true(json_is_true(json_object_get(json_array_get(buckets, 1), "compact")));
  for (size_t i = 1; i < json_array_size(buckets); i++)
    assert_true(number(json_array_get(buckets, i - 1), "fields") >= number(json_array_get(buckets, i), "fields"));
  json_decref(answer);

  answer = hot(world, "1");
  assert_int_equal(json_array_size(json_object_get(answer, "tenants")), 1);
  assert_int_equal(json_array_size(json_object_get(answer, "buckets")), 1);
  json_decref(answer);
  assert_non_null(strstr(world_control(world, "hot", NULL), crowded));
  assert_int_equal(world_presencectl(world, "hot", "--top", "0", NULL).code, 2);
  world_end(world);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_teardown(test_the_largest_come_first, world_teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
