/* json_oracle.h: what an independent JSON parser (jansson, https://jansson.readthedocs.io) says of a text, beside json_scan. */
#ifndef PRESENCE_TEST_JSON_ORACLE_H
#define PRESENCE_TEST_JSON_ORACLE_H

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "json_scan.h"

enum oracle_verdict {
  ORACLE_VALUE,     /* well-formed and in range */
  ORACLE_MALFORMED, /* wrong at some place, perhaps out of range at another */
  ORACLE_RANGE,     /* out of range where it stopped reading; what follows it did not look at */
};

static inline enum oracle_verdict oracle_read(struct str text, json_t **value) {
  json_error_t error;
  *value = NULL;
  /* No JSON text holds a NUL byte, but jansson 2.14 overlooks one behind a number. */
  if (text.len > 0 && memchr(text.data, '\0', text.len) != NULL) return ORACLE_MALFORMED;
  *value = json_loadb(text.data == NULL ? "" : text.data, text.len, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
  if (*value != NULL) return ORACLE_VALUE;
  switch (json_error_code(&error)) {
  case json_error_numeric_overflow:
  case json_error_null_character:
  case json_error_null_byte_in_key: return ORACLE_RANGE;
  default: return ORACLE_MALFORMED;
  }
}

/* An exponent beyond ±9999, which json_scan refuses and the oracle takes for 0. */
static inline bool oracle_has_huge_exponent(struct str text) {
  for (size_t i = 0; i + 1 < text.len; i++) {
    if (text.data[i] != 'e' && text.data[i] != 'E') continue;
    size_t at = i + 1;
    size_t digits = 0;
    if (text.data[at] == '-' || text.data[at] == '+') at++;
    while (at < text.len && text.data[at] == '0') at++;
    while (at + digits < text.len && text.data[at + digits] >= '0' && text.data[at + digits] <= '9') digits++;
    if (digits > 4) return true;
  }
  return false;
}

static inline json_t *oracle_build(struct json_scan *scan);

static inline json_t *oracle_string(const struct json_scan_value *value) {
  char *meaning = malloc(value->text.len + 1);
  size_t len = json_scan_unescape(value->text, meaning);
  json_t *string = json_stringn(meaning, len);
  free(meaning);
  return string;
}

static inline json_t *oracle_real(const struct json_scan_value *value) {
  char *copy = strndup(value->text.data, value->text.len);
  json_t *real = json_real(strtod(copy, NULL));
  free(copy);
  return real;
}

/* A container step by step, so that this way of using json_scan is compared too. */
static inline json_t *oracle_container(struct json_scan *scan, enum json_scan_type type) {
  json_t *container = type == JSON_SCAN_OBJECT ? json_object() : json_array();
  bool more = true;
  if (json_scan_enter(scan, type) != STATUS_OK) abort();
  while (json_scan_more(scan, &more) == STATUS_OK && more) {
    struct json_scan_value name = {0};
    if (type == JSON_SCAN_OBJECT && json_scan_name(scan, &name) != STATUS_OK) abort();
    json_t *inner = oracle_build(scan);
    if (type == JSON_SCAN_ARRAY) {
      json_array_append_new(container, inner);
    } else {
      char *key = malloc(name.text.len + 1);
      size_t len = json_scan_unescape(name.text, key);
      json_object_setn_new(container, key, len, inner);
      free(key);
    }
  }
  if (more) abort();
  return container;
}

/* The oracle's kind of tree from json_scan's reading of a text that it found well-formed and in range. */
static inline json_t *oracle_build(struct json_scan *scan) {
  enum json_scan_type type = JSON_SCAN_NULL;
  struct json_scan_value value;
  if (!json_scan_peek(scan, &type)) abort();
  if (type == JSON_SCAN_ARRAY || type == JSON_SCAN_OBJECT) return oracle_container(scan, type);
  if (json_scan_value(scan, &value) != STATUS_OK) abort();
  switch (value.type) {
  case JSON_SCAN_NULL: return json_null();
  case JSON_SCAN_FALSE: return json_false();
  case JSON_SCAN_TRUE: return json_true();
  case JSON_SCAN_INTEGER: return json_integer(value.integer);
  case JSON_SCAN_REAL: return oracle_real(&value);
  default: return oracle_string(&value);
  }
}

static inline unsigned oracle_depth(const json_t *value) {
  unsigned deepest = 0;
  size_t i;
  const char *key;
  json_t *inner;
  if (!json_is_array(value) && !json_is_object(value)) return 0;
  json_array_foreach((json_t *)value, i, inner) {
    unsigned depth = oracle_depth(inner); /* once: twice at each level would never end */
    if (depth > deepest) deepest = depth;
  }
  json_object_foreach((json_t *)value, key, inner) {
    unsigned depth = oracle_depth(inner);
    if (depth > deepest) deepest = depth;
  }
  return deepest + 1;
}

/* NULL where both agree about the text; else what they disagree about. */
static inline const char *oracle_compare(struct str text) {
  static struct json_scan scan;
  struct json_scan_value value;
  json_t *expected = NULL;
  enum oracle_verdict verdict = oracle_read(text, &expected);
  json_scan_begin(&scan, text);
  enum status status = json_scan_value(&scan, &value);
  if (status == STATUS_OK) status = json_scan_end(&scan);
  const char *difference = NULL;
  if (verdict == ORACLE_MALFORMED && status == STATUS_OK) difference = "json_scan takes what is malformed";
  if (verdict == ORACLE_RANGE && status == STATUS_OK && value.faults == 0) difference = "json_scan misses what is out of range";
  if (verdict == ORACLE_VALUE && status != STATUS_OK) difference = "json_scan refuses what is well-formed";
  if (verdict == ORACLE_VALUE && status == STATUS_OK && value.faults != 0 &&
      !(value.faults == JSON_SCAN_FAULT_REAL && oracle_has_huge_exponent(text)))
    difference = "json_scan finds a fault in what is in range";
  if (verdict == ORACLE_VALUE && difference == NULL && value.faults == 0) {
    json_scan_begin(&scan, text);
    json_t *built = oracle_build(&scan);
    if (!json_equal(built, expected)) difference = "the values differ";
    if (value.depth != oracle_depth(expected)) difference = "the depths differ";
    json_decref(built);
  }
  json_decref(expected);
  return difference;
}

#endif
