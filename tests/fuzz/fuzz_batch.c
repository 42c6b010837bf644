/* A batch, as an array or, where the first byte is '\n', as lines: item for item the verdict of rules written over an independent
 * JSON parser. */
#include <stdio.h>

#include "support/heartbeat_oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct parse_limits limits = {.default_ttl_ms = 90000, .min_ttl_ms = 1000, .max_ttl_ms = TTL_MAX_MS};
static struct parse_batch batch;

static void fail(const char *difference) {
  fprintf(stderr, "%s\n", difference);
  abort();
}

/* The item's own text, found by the place where the scanner stands. */
static void compare_item(struct str text, const struct parse_fields *fields, const struct parse_verdict *verdict) {
  const char *difference = oracle_compare_heartbeat(text, true, &limits, fields, verdict->error);
  if (difference != NULL) fail(difference);
}

static enum status read_array(struct str body) {
  struct parse_fields fields;
  struct parse_verdict verdict;
  bool more = true;
  enum status status = parse_batch_begin(&batch, body, false, &limits, &verdict);
  while (status == STATUS_OK && more) {
    const char *begin = batch.scan.at;
    status = parse_batch_next(&batch, &more, &fields, &verdict);
    if (status != STATUS_OK || !more) continue;
    while (*begin == ' ' || *begin == '\t' || *begin == '\r' || *begin == '\n') begin++;
    if (*begin == ',') begin++;
    compare_item((struct str){begin, (size_t)(batch.scan.at - begin)}, &fields, &verdict);
  }
  return status;
}

static void fuzz_array(struct str body) {
  json_t *tree = NULL;
  enum oracle_verdict verdict = oracle_read(body, &tree);
  bool is_array = json_is_array(tree);
  enum status status = read_array(body);
  json_decref(tree);
  if (verdict == ORACLE_VALUE && (status == STATUS_OK) != is_array) fail("an array refused, or something else taken");
  if (verdict == ORACLE_MALFORMED && status == STATUS_OK) fail("malformed, but taken");
}

static void fuzz_lines(struct str body) {
  struct parse_fields fields;
  struct parse_verdict verdict;
  bool more = true;
  if (parse_batch_begin(&batch, body, true, &limits, &verdict) != STATUS_OK) abort();
  while (more) {
    if (parse_batch_next(&batch, &more, &fields, &verdict) != STATUS_OK) fail("lines are never refused as a whole");
    if (!more) continue;
    const char *begin = batch.scan.begin;
    compare_item((struct str){begin, (size_t)(batch.scan.end - begin)}, &fields, &verdict);
  }
  if (batch.rest.len != 0) fail("not read to its end");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  struct str body = {(const char *)data, size};
  if (size > 0 && data[0] == '\n')
    fuzz_lines(body);
  else
    fuzz_array(body);
  return 0;
}
