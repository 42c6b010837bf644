/* The README's tables of options and metrics say what service/options.def and service/metrics.def say. */
#include "support/unit.h"

#include <stdio.h>
#include <stdlib.h>

#include "config.h"
#include "metrics.h"

static struct buf readme;

static int read_readme(void **state) {
  (void)state;
  const char *root = getenv("PRESENCE_ROOT");
  char path[4096];
  snprintf(path, sizeof path, "%s/README.md", root != NULL ? root : ".");
  FILE *file = fopen(path, "r");
  if (file == NULL) return 0; /* the tests skip themselves */
  size_t count = 0;
  do {
    if (buf_reserve(&readme, 65536) != STATUS_OK) break;
    count = fread(readme.data + readme.len, 1, 65536, file);
    readme.len += count;
  } while (count > 0);
  fclose(file);
  return buf_append(&readme, "", 1) == STATUS_OK ? 0 : -1;
}

static int free_readme(void **state) {
  (void)state;
  buf_free(&readme);
  return 0;
}

static void skip_without_readme(void) {
  if (readme.len > 0) return;
  print_message("no README.md to compare with\n");
  skip();
}

/* The README between <!-- name --> and <!-- /name --> must be the table, but for blank lines around it. */
static void compare(const char *name, const struct buf *table) {
  char begin_mark[64], end_mark[64];
  snprintf(begin_mark, sizeof begin_mark, "<!-- %s -->\n", name);
  snprintf(end_mark, sizeof end_mark, "<!-- /%s -->", name);
  const char *begin = strstr(readme.data, begin_mark);
  const char *end = begin != NULL ? strstr(begin, end_mark) : NULL;
  if (end == NULL) fail_msg("README.md has no part between <!-- %s --> and <!-- /%s -->", name, name);
  begin += strlen(begin_mark);
  while (begin < end && *begin == '\n') begin++;
  while (end > begin + 1 && end[-1] == '\n' && end[-2] == '\n') end--;
  size_t len = (size_t)(end - begin), same = 0;
  while (same < len && same < table->len && begin[same] == table->data[same]) same++;
  if (same == len && same == table->len) return;
  while (same > 0 && begin[same - 1] != '\n') same--; /* back to the start of the first line that differs */
  struct str wanted = {table->data + same, strcspn(table->data + same, "\n")};
  fail_msg("README.md's table of %s differs (`make docs` writes it anew), first where this belongs: %.*s", name, STR_ARG(wanted));
}

static void options_are_those_of_the_readme(void **state) {
  (void)state;
  struct buf table = {0};
  skip_without_readme();
  assert_status(STATUS_OK, config_markdown(&table));
  buf_text(&table);
  compare("options", &table);
  buf_free(&table);
}

static void metrics_are_those_of_the_readme(void **state) {
  (void)state;
  struct buf table = {0};
  skip_without_readme();
  assert_status(STATUS_OK, metrics_markdown(&table));
  buf_text(&table);
  compare("metrics", &table);
  buf_free(&table);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(options_are_those_of_the_readme),
      cmocka_unit_test(metrics_are_those_of_the_readme),
  };
  return cmocka_run_group_tests_name("docs", tests, read_readme, free_readme);
}
