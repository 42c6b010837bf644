/* What presence-sim reads from others: HTTP answers, lines of a trace, URLs. The first byte chooses. */
#include <stdbool.h>
#include <stdlib.h>

#include "tools/sim_http.h"
#include "tools/sim_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds) {
  if (!holds) abort();
}

static bool inside(struct str part, struct str whole) {
  return part.len == 0 || (part.data >= whole.data && part.data + part.len <= whole.data + whole.len);
}

static void fuzz_answer(struct str bytes) {
  struct sim_answer answer, again;
  enum sim_parse whole = sim_answer_parse(bytes, &answer);
  if (whole != SIM_PARSE_DONE) return;
  check(answer.size <= bytes.len && inside(answer.body, bytes) && answer.status >= 200 && answer.status <= 999);
  /* The answer ends where it says: one byte less is too little, more bytes change nothing. */
  check(sim_answer_parse((struct str){bytes.data, answer.size}, &again) == SIM_PARSE_DONE && again.size == answer.size);
  check(sim_answer_parse((struct str){bytes.data, answer.size - 1}, &again) == SIM_PARSE_MORE);
}

static void fuzz_trace_line(struct str bytes) {
  enum { FIELDS = 8 };
  struct str fields[FIELDS];
  size_t count = 0;
  int64_t time_ms = 0;
  char *line = malloc(bytes.len + 1);
  if (line == NULL) return;
  if (bytes.len > 0) memcpy(line, bytes.data, bytes.len);
  if (sim_trace_fields(line, bytes.len, fields, FIELDS, &count) == STATUS_OK) check(count >= 1 && count <= FIELDS);
  for (size_t i = 0; i < count && i < FIELDS; i++) {
    check(inside(fields[i], (struct str){line, bytes.len}));
    if (sim_trace_time(fields[i], &time_ms) == STATUS_OK) check(time_ms >= 0 && time_ms < INT64_C(253402300800000));
  }
  free(line);
}

static void fuzz_url(struct str bytes) {
  struct sim_url url;
  if (sim_url_parse(bytes, &url) != STATUS_OK) return;
  check(inside(url.authority, bytes) && inside(url.host, bytes) && inside(url.path, bytes) && url.port > 0 && url.host.len > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0) return 0;
  struct str bytes = {(const char *)data + 1, size - 1};
  switch (data[0]) {
  case 'a': fuzz_answer(bytes); break;
  case 't': fuzz_trace_line(bytes); break;
  case 'u': fuzz_url(bytes); break;
  default: break;
  }
  return 0;
}
