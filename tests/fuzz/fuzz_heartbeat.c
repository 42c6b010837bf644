/* The body of a single heartbeat: the same verdict and the same meaning as by rules written over an independent JSON parser. */
#include <stdio.h>

#include "support/heartbeat_oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct parse_limits limits = {.default_ttl_ms = 90000, .min_ttl_ms = 1000, .max_ttl_ms = TTL_MAX_MS};
  struct parse_fields fields;
  struct parse_verdict verdict;
  struct buf message = {0};
  bool has_session = false;
  struct session_id session = SESSION_ID_NONE;
  const char *text = NULL;
  struct str body = {(const char *)data, size};
  enum parse_error error = parse_heartbeat(body, &limits, &fields, &verdict);
  const char *difference = size == 0 ? NULL : oracle_compare_heartbeat(body, false, &limits, &fields, error);
  if (error != PARSE_OK && parse_error_message(&message, &verdict, &limits) != STATUS_OK) abort();
  if (!str_is_utf8(buf_str(&message)) || message.len > 400) difference = "a message that cannot be sent";
  buf_free(&message);
  if (parse_disconnect(body, &has_session, &session, &text) == STATUS_INVALID && text == NULL) difference = "no reason given";
  if (difference == NULL) return 0;
  fprintf(stderr, "%s\n", difference);
  abort();
}
