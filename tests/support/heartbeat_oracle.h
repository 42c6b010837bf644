/* heartbeat_oracle.h: the contract's rules for heartbeats once more, written over the tree of an independent JSON parser. */
#ifndef PRESENCE_TEST_HEARTBEAT_ORACLE_H
#define PRESENCE_TEST_HEARTBEAT_ORACLE_H

#include "heartbeat/parse.h"
#include "support/json_oracle.h"

static inline bool oracle_ttl_is_valid(const json_t *value, const struct parse_limits *limits) {
  json_int_t least = limits->min_ttl_ms > TTL_MIN_MS ? limits->min_ttl_ms : TTL_MIN_MS;
  return json_is_integer(value) && json_integer_value(value) >= least && json_integer_value(value) <= limits->max_ttl_ms;
}

/* Without its size, which a tree does not tell. */
static inline bool oracle_meta_is_valid(const json_t *value) {
  return json_is_null(value) || (json_is_object(value) && oracle_depth(value) <= META_MAX_DEPTH);
}

static inline bool oracle_device_is_valid(const json_t *value) {
  return json_is_string(value) && device_id_valid((struct str){json_string_value(value), json_string_length(value)});
}

static inline bool oracle_fields_are_valid(json_t *object, bool in_batch, const struct parse_limits *limits) {
  const char *name;
  json_t *value;
  if (!json_is_object(object)) return in_batch && oracle_device_is_valid(object);
  json_object_foreach(object, name, value) {
    bool valid = false;
    if (strcmp(name, "ttl_ms") == 0) valid = oracle_ttl_is_valid(value, limits);
    if (strcmp(name, "meta") == 0) valid = oracle_meta_is_valid(value);
    if (strcmp(name, "device") == 0) valid = in_batch && oracle_device_is_valid(value);
    if (!valid) return false;
  }
  return !in_batch || json_object_get(object, "device") != NULL;
}

/* Do the fields say what the tree says? */
static inline bool oracle_fields_agree(json_t *object, const struct parse_fields *fields, const struct parse_limits *limits) {
  const json_t *device = json_is_string(object) ? object : json_object_get(object, "device");
  const json_t *ttl = json_object_get(object, "ttl_ms");
  const json_t *meta = json_object_get(object, "meta");
  if (device != NULL && !str_equal(fields->device, (struct str){json_string_value(device), json_string_length(device)}))
    return false;
  if (fields->ttl_ms != (ttl != NULL ? json_integer_value(ttl) : limits->default_ttl_ms)) return false;
  if (meta == NULL) return fields->meta_action == META_KEEP;
  if (json_is_null(meta)) return fields->meta_action == META_REMOVE;
  json_t *sent = NULL;
  bool agree = fields->meta_action == META_SET && oracle_read(fields->meta, &sent) == ORACLE_VALUE && json_equal(sent, meta);
  json_decref(sent);
  return agree;
}

/* NULL where the parser's verdict about a text that says one heartbeat is the oracle's; else what they disagree about. */
static inline const char *oracle_compare_heartbeat(struct str text, bool in_batch, const struct parse_limits *limits,
                                                   const struct parse_fields *fields, enum parse_error error) {
  const char *difference = NULL;
  json_t *tree = NULL;
  enum oracle_verdict verdict = oracle_read(text, &tree);
  if (verdict != ORACLE_VALUE && error == PARSE_OK) difference = "taken although the JSON is bad";
  if (verdict == ORACLE_VALUE && error == PARSE_MALFORMED) difference = "good JSON called malformed";
  if (verdict == ORACLE_VALUE && difference == NULL) {
    bool valid = oracle_fields_are_valid(tree, in_batch, limits);
    if (!valid && error == PARSE_OK) difference = "taken against the rules";
    if (valid && error != PARSE_OK && error != PARSE_META_SIZE && !oracle_has_huge_exponent(text))
      difference = "refused without a reason";
    if (error == PARSE_OK && difference == NULL && !oracle_fields_agree(tree, fields, limits)) difference = "misunderstood";
    if (error == PARSE_OK && fields->meta.len > META_MAX_BYTES) difference = "too much metadata taken";
  }
  json_decref(tree);
  return difference;
}

#endif
