#include "support/unit.h"

#include "cli/table.h"
#include "support/alloc_fail.h"

static void fill(struct table *table) {
  table_column(table, "name", CELL_TEXT);
  table_column(table, "n", CELL_NUMBER);
  table_column(table, "seen_ms", CELL_TIME);
  table_column(table, "good", CELL_BOOL);
  table_column(table, "words", CELL_WORDS);
  table_column(table, "json", CELL_JSON);
  table_add(table, STR_LIT("\xC3\xA9\"\x1B[0m"));
  table_add_number(table, -5);
  table_add_number(table, INT64_C(1790000000007));
  table_add(table, STR_LIT("t"));
  table_add(table, STR_LIT("{a,b}"));
  table_add(table, STR_LIT("{\"k\": 1}"));
  table_add(table, STR_LIT("longer name"));
  table_add_number(table, 12345);
  table_add_null(table);
  table_add(table, STR_LIT("f"));
  table_add(table, STR_LIT("{}"));
  table_add_null(table);
}

static void expect(enum table_shape shape, bool json, const char *expected) {
  struct table table = {0};
  struct buf out = {0};
  fill(&table);
  assert_status(STATUS_OK, table_render(&table, shape, json, &out));
  assert_string_equal(buf_text(&out), expected);
  buf_free(&out);
  table_free(&table);
}

static void scripts_get_json(void **state) {
  (void)state;
  expect(TABLE_LIST, true,
         "[{\"name\":\"\xC3\xA9\\\"\\u001b[0m\",\"n\":-5,\"seen_ms\":1790000000007,\"good\":true,\"words\":[\"a\",\"b\"],"
         "\"json\":{\"k\": "
         "1}},\n {\"name\":\"longer name\",\"n\":12345,\"seen_ms\":null,\"good\":false,\"words\":[],\"json\":null}]\n");
  expect(TABLE_OBJECT, true,
         "{\"name\":\"\xC3\xA9\\\"\\u001b[0m\",\"n\":-5,\"seen_ms\":1790000000007,\"good\":true,\"words\":[\"a\",\"b\"],\"json\":"
         "{\"k\": "
         "1}}\n");
}

/* Aligned by characters; control characters do not reach the terminal. */
static void people_get_a_table(void **state) {
  (void)state;
  expect(TABLE_LIST, false,
         "name             n  seen                      good  words  json\n"
         "\xC3\xA9\"\\x1B[0m       -5  2026-09-21 14:13:20.007Z  yes   a,b    {\"k\": 1}\n"
         "longer name  12345  -                         no           -\n");
  expect(TABLE_OBJECT, false,
         "name   \xC3\xA9\"\\x1B[0m\n"
         "n      -5\n"
         "seen   2026-09-21 14:13:20.007Z\n"
         "good   yes\n"
         "words  a,b\n"
         "json   {\"k\": 1}\n");
}

static void nothing_is_an_empty_list_but_no_object(void **state) {
  (void)state;
  struct table table = {0};
  struct buf out = {0};
  table_column(&table, "a", CELL_TEXT);
  assert_status(STATUS_NOT_FOUND, table_render(&table, TABLE_OBJECT, true, &out));
  assert_status(STATUS_OK, table_render(&table, TABLE_LIST, true, &out));
  assert_string_equal(buf_text(&out), "[]\n");
  buf_free(&out);
  table_free(&table);
}

static bool render_once(void *context) {
  struct table table = {0};
  struct buf out = {0};
  fill(&table);
  enum status status = table_render(&table, TABLE_LIST, *(bool *)context, &out);
  buf_free(&out);
  table_free(&table);
  return status == STATUS_OK;
}

static void short_memory_is_said(void **state) {
  (void)state;
  for (int json = 0; json < 2; json++) {
    bool as_json = json == 1;
    assert_true(alloc_fail_sweep(render_once, &as_json) > 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scripts_get_json),
      cmocka_unit_test(people_get_a_table),
      cmocka_unit_test(nothing_is_an_empty_list_but_no_object),
      cmocka_unit_test(short_memory_is_said),
  };
  return cmocka_run_group_tests_name("table", tests, NULL, NULL);
}
