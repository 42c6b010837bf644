#include "support/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"
#include "support/alloc_fail.h"

/* Runs log statements with stderr going into a pipe; a packet-mode pipe (O_DIRECT) keeps each write(2) apart. */
static int saved_stderr, reader;
static char got[2 * PIPE_BUF];

static void capture(void) {
  int ends[2];
  assert_int_equal(pipe2(ends, O_DIRECT | O_NONBLOCK | O_CLOEXEC), 0);
  saved_stderr = dup(STDERR_FILENO);
  assert_true(saved_stderr >= 0);
  assert_int_equal(dup2(ends[1], STDERR_FILENO), STDERR_FILENO);
  close(ends[1]);
  reader = ends[0];
}

/* The bytes of the next write, as a string. */
static const char *next_write(void) {
  ssize_t count = read(reader, got, sizeof got - 1);
  got[count > 0 ? count : 0] = '\0';
  return got;
}

static void release(void) {
  dup2(saved_stderr, STDERR_FILENO);
  close(saved_stderr);
  close(reader);
}

#define CAPTURE(statement) (capture(), (statement), next_write(), release())

/* What follows the time stamp, whose form is checked here. */
static const char *after_time(const char *prefix) {
  size_t len = strlen(prefix);
  assert_memory_equal(got, prefix, len);
  for (size_t i = 0; i < 24; i++) {
    char form = "dddd-dd-ddTdd:dd:dd.dddZ"[i];
    assert_true(form == 'd' ? got[len + i] >= '0' && got[len + i] <= '9' : got[len + i] == form);
  }
  return got + len + 24;
}

static void logfmt_quotes_where_needed(void **state) {
  (void)state;
  log_init(LOG_LEVEL_INFO, LOG_FORMAT_LOGFMT);
  CAPTURE(log_info("listening", LOG_STR("address", "127.0.0.1:80"), LOG_INT("port", -80), LOG_STR("empty", ""),
                   LOG_STR("spaced", "a b"), LOG_STR("quoted", "say \"x\"=\\"), LOG_TEXT("part", STR_LIT("a\0\n\x1b[1m"))));
  assert_string_equal(after_time("ts="), " level=info event=listening address=127.0.0.1:80 port=-80 empty=\"\" spaced=\"a b\""
                                         " quoted=\"say \\\"x\\\"=\\\\\" part=\"a\\u0000\\n\\u001b[1m\"\n");
  CAPTURE(log_error("bare"));
  assert_string_equal(after_time("ts="), " level=error event=bare\n");
}

static void hostile_bytes_cannot_forge_a_line_or_drive_a_terminal(void **state) {
  (void)state;
  for (int style = LOG_FORMAT_LOGFMT; style <= LOG_FORMAT_JSON; style++) {
    log_init(LOG_LEVEL_INFO, (enum log_format)style);
    for (int byte = 0; byte < 256; byte++) {
      char value[4] = {'a', (char)byte, 'b', 0};
      CAPTURE(log_info("x", LOG_TEXT("v", ((struct str){value, 3}))));
      size_t len = strlen(got);
      assert_true(str_is_utf8(str_from(got)));
      for (size_t i = 0; i < len; i++)
        assert_true(((unsigned char)got[i] >= 0x20 && got[i] != 0x7f) || (i == len - 1 && got[i] == '\n'));
    }
    CAPTURE(log_info("x", LOG_STR("v", "a\xC2\x9B"
                                       "b\xC2\xA0\x7f")));
    assert_non_null(strstr(got, "\"a\\u009bb\xC2\xA0\\u007f\""));
  }
}

static void json_lines_parse_back(void **state) {
  (void)state;
  log_init(LOG_LEVEL_DEBUG, LOG_FORMAT_JSON);
  CAPTURE(log_debug("ev\"ent", LOG_STR("text", "é😀\t\"\\\x01\x7f"), LOG_INT("n", INT64_MIN), LOG_STR("broken", "\xff")));
  assert_int_equal(got[strlen(got) - 1], '\n');
  json_t *line = json_loads(got, JSON_REJECT_DUPLICATES, NULL);
  assert_non_null(line);
  assert_int_equal(json_object_size(line), 6);
  assert_string_equal(json_string_value(json_object_get(line, "level")), "debug");
  assert_string_equal(json_string_value(json_object_get(line, "event")), "ev\"ent");
  assert_string_equal(json_string_value(json_object_get(line, "text")), "é😀\t\"\\\x01\x7f");
  assert_string_equal(json_string_value(json_object_get(line, "broken")), "\xEF\xBF\xBD");
  assert_true(json_integer_value(json_object_get(line, "n")) == INT64_MIN);
  json_decref(line);
}

static void lines_are_bounded(void **state) {
  (void)state;
  static char huge[100000];
  memset(huge, 'x', sizeof huge - 1);
  huge[1000] = '\x01'; /* an escape at the cut must not be halved */
  for (int style = LOG_FORMAT_LOGFMT; style <= LOG_FORMAT_JSON; style++) {
    log_init(LOG_LEVEL_INFO, (enum log_format)style);
    CAPTURE(log_info("x", LOG_STR("a", huge), LOG_STR("b", huge), LOG_STR("c", huge), LOG_STR("d", huge), LOG_STR("e", huge),
                     LOG_INT("n", 7)));
    size_t len = strlen(got);
    assert_true(len > 3000 && len <= PIPE_BUF);
    assert_int_equal(got[len - 1], '\n');
    assert_non_null(strstr(got, "…\""));
    if (style == LOG_FORMAT_JSON) {
      json_t *line = json_loads(got, JSON_REJECT_DUPLICATES, NULL);
      assert_non_null(line);
      assert_int_equal(json_integer_value(json_object_get(line, "omitted")), 2);
      assert_int_equal(json_integer_value(json_object_get(line, "n")), 7);
      json_decref(line);
    } else {
      assert_non_null(strstr(got, " n=7 omitted=2\n"));
    }
  }
}

static void level_filters(void **state) {
  (void)state;
  static const char *const names[] = {"debug", "info", "warn", "error"};
  for (int least = LOG_LEVEL_DEBUG; least <= LOG_LEVEL_ERROR; least++) {
    log_init((enum log_level)least, LOG_FORMAT_LOGFMT);
    for (int level = LOG_LEVEL_DEBUG; level <= LOG_LEVEL_ERROR; level++) {
      CAPTURE(log_at((enum log_level)level, "x", LOG_INT("n", 1)));
      if (level < least)
        assert_string_equal(got, "");
      else
        assert_non_null(strstr(got, names[level]));
    }
  }
}

static void one_write_and_no_allocation(void **state) {
  (void)state;
  log_init(LOG_LEVEL_INFO, LOG_FORMAT_JSON);
  capture();
  alloc_fail_at(1);
  log_info("first", LOG_STR("k", "v"));
  log_info("second", LOG_STR("k", "v"));
  bool allocated = alloc_failed();
  alloc_fail_at(0);
  next_write();
  bool whole = strstr(got, "first") != NULL && strstr(got, "second") == NULL && got[strlen(got) - 1] == '\n';
  next_write();
  bool second = strstr(got, "second") != NULL;
  release();
  assert_false(allocated);
  assert_true(whole && second);
}

static void a_full_pipe_loses_the_line_only(void **state) {
  (void)state;
  log_init(LOG_LEVEL_INFO, LOG_FORMAT_LOGFMT);
  capture();
  errno = 77;
  for (int i = 0; i < 2000; i++) log_info("x", LOG_INT("i", i));
  int after = errno;
  release();
  assert_int_equal(after, 77);
}

/* What one warning looks like where systemd names the stream device:inode + offset. */
static void log_under_systemd(ino_t offset) {
  capture();
  struct stat file;
  char name[64];
  assert_int_equal(fstat(STDERR_FILENO, &file), 0);
  snprintf(name, sizeof name, "%llu:%llu", (unsigned long long)file.st_dev, (unsigned long long)(file.st_ino + offset));
  setenv("JOURNAL_STREAM", name, 1);
  log_init(LOG_LEVEL_INFO, LOG_FORMAT_LOGFMT);
  log_warn("x");
  next_write();
  release();
  unsetenv("JOURNAL_STREAM");
  log_init(LOG_LEVEL_INFO, LOG_FORMAT_LOGFMT);
}

static void the_journal_gets_a_priority_and_nobody_else(void **state) {
  (void)state;
  log_under_systemd(0);
  assert_string_equal(after_time("<4>ts="), " level=warn event=x\n");
  log_under_systemd(1);
  assert_string_equal(after_time("ts="), " level=warn event=x\n");
}

static void limit_counts_what_it_leaves_out(void **state) {
  (void)state;
  struct log_limit limit = {0};
  int64_t suppressed = -1;
  assert_true(log_limit_pass(&limit, 1000, 500, &suppressed));
  assert_int_equal(suppressed, 0);
  assert_false(log_limit_pass(&limit, 1000, 500, &suppressed));
  assert_false(log_limit_pass(&limit, 1499, 500, &suppressed));
  assert_true(log_limit_pass(&limit, 1500, 500, &suppressed));
  assert_int_equal(suppressed, 2);
  assert_true(log_limit_pass(&limit, 2000, 500, &suppressed));
  assert_int_equal(suppressed, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(logfmt_quotes_where_needed),
      cmocka_unit_test(hostile_bytes_cannot_forge_a_line_or_drive_a_terminal),
      cmocka_unit_test(json_lines_parse_back),
      cmocka_unit_test(lines_are_bounded),
      cmocka_unit_test(level_filters),
      cmocka_unit_test(one_write_and_no_allocation),
      cmocka_unit_test(a_full_pipe_loses_the_line_only),
      cmocka_unit_test(the_journal_gets_a_priority_and_nobody_else),
      cmocka_unit_test(limit_counts_what_it_leaves_out),
  };
  return cmocka_run_group_tests_name("log", tests, NULL, NULL);
}
