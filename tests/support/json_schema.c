#include "support/test.h"

#include "support/json_schema.h"

#include <regex.h>
#include <string.h>

static const char *check(const json_t *document, const json_t *schema, const json_t *value, const char *at);

const json_t *json_schema_resolve(const json_t *document, const json_t *value) {
  const char *reference = json_string_value(json_object_get(value, "$ref"));
  if (reference == NULL) return value;
  assert_int_equal(strncmp(reference, "#/", 2), 0);
  const json_t *found = document;
  for (const char *at = reference + 2; *at != '\0';) {
    size_t length = strcspn(at, "/");
    found = json_object_get(found, text_format("%.*s", (int)length, at));
    at += length + (at[length] == '/');
  }
  if (found == NULL) fail_msg("%s points nowhere", reference);
  return found;
}

static bool is_type(const json_t *value, const char *type) {
  if (strcmp(type, "object") == 0) return json_is_object(value);
  if (strcmp(type, "array") == 0) return json_is_array(value);
  if (strcmp(type, "string") == 0) return json_is_string(value);
  if (strcmp(type, "integer") == 0) return json_is_integer(value);
  if (strcmp(type, "number") == 0) return json_is_number(value);
  if (strcmp(type, "boolean") == 0) return json_is_boolean(value);
  if (strcmp(type, "null") == 0) return json_is_null(value);
  fail_msg("unknown type %s", type);
  return false;
}

static bool is_one_of_types(const json_t *types, const json_t *value) {
  if (json_is_string(types)) return is_type(value, json_string_value(types));
  for (size_t i = 0; i < json_array_size(types); i++)
    if (is_type(value, json_string_value(json_array_get(types, i)))) return true;
  return false;
}

static bool is_enumerated(const json_t *values, const json_t *value) {
  for (size_t i = 0; i < json_array_size(values); i++)
    if (json_equal(json_array_get(values, i), value)) return true;
  return false;
}

static bool matches_pattern(const char *pattern, const char *text) {
  regex_t regex;
  assert_int_equal(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB), 0);
  bool matches = regexec(&regex, text, 0, NULL, 0) == 0;
  regfree(&regex);
  return matches;
}

static const char *check_object(const json_t *document, const json_t *schema, const json_t *value, const char *at) {
  const json_t *properties = json_object_get(schema, "properties"), *required = json_object_get(schema, "required");
  for (size_t i = 0; i < json_array_size(required); i++) {
    const char *name = json_string_value(json_array_get(required, i));
    if (json_object_get(value, name) == NULL) return text_format("%s: no %s", at, name);
  }
  const char *name;
  json_t *member;
  json_object_foreach((json_t *)value, name, member) {
    const json_t *rule = json_object_get(properties, name);
    if (rule == NULL && json_is_false(json_object_get(schema, "additionalProperties")))
      return text_format("%s: %s is not described", at, name);
    const char *wrong = rule != NULL ? check(document, rule, member, text_format("%s.%s", at, name)) : NULL;
    if (wrong != NULL) return wrong;
  }
  return NULL;
}

static const char *check_array(const json_t *document, const json_t *schema, const json_t *value, const char *at) {
  const json_t *items = json_object_get(schema, "items"), *most = json_object_get(schema, "maxItems");
  if (most != NULL && json_array_size(value) > (size_t)json_integer_value(most)) return text_format("%s: too many items", at);
  for (size_t i = 0; items != NULL && i < json_array_size(value); i++) {
    const char *wrong = check(document, items, json_array_get(value, i), text_format("%s[%zu]", at, i));
    if (wrong != NULL) return wrong;
  }
  return NULL;
}

static const char *check_scalar(const json_t *schema, const json_t *value, const char *at) {
  const json_t *least = json_object_get(schema, "minimum"), *most = json_object_get(schema, "maximum");
  const json_t *shortest = json_object_get(schema, "minLength"), *pattern = json_object_get(schema, "pattern");
  if (json_is_number(value) && least != NULL && json_number_value(value) < json_number_value(least))
    return text_format("%s: below the minimum", at);
  if (json_is_number(value) && most != NULL && json_number_value(value) > json_number_value(most))
    return text_format("%s: over the maximum", at);
  if (json_is_string(value) && shortest != NULL && json_string_length(value) < (size_t)json_integer_value(shortest))
    return text_format("%s: too short", at);
  if (json_is_string(value) && pattern != NULL && !matches_pattern(json_string_value(pattern), json_string_value(value)))
    return text_format("%s: does not match %s", at, json_string_value(pattern));
  return NULL;
}

static const char *check_one_of(const json_t *document, const json_t *schemas, const json_t *value, const char *at) {
  size_t matching = 0;
  const char *reasons = "";
  for (size_t i = 0; i < json_array_size(schemas); i++) {
    const char *wrong = check(document, json_array_get(schemas, i), value, at);
    matching += wrong == NULL;
    if (wrong != NULL) reasons = text_format("%s [%s]", reasons, wrong);
  }
  return matching == 1 ? NULL : text_format("%s: matches %zu of oneOf:%s", at, matching, reasons);
}

static void know_keywords(const json_t *schema) {
  static const char *const known[] = {"type",      "enum",    "oneOf",    "properties", "required", "additionalProperties",
                                      "items",     "pattern", "minimum",  "maximum",    "default",  "description",
                                      "minLength", "format",  "maxItems", "example"};
  const char *name;
  json_t *ignored;
  json_object_foreach((json_t *)schema, name, ignored) {
    bool found = false;
    for (size_t i = 0; i < LENGTH(known); i++) found = found || strcmp(name, known[i]) == 0;
    if (!found) fail_msg("tests/support/json_schema.c does not know the keyword %s", name);
  }
}

static const char *check(const json_t *document, const json_t *schema, const json_t *value, const char *at) {
  schema = json_schema_resolve(document, schema);
  know_keywords(schema);
  const json_t *types = json_object_get(schema, "type"), *values = json_object_get(schema, "enum");
  const json_t *one_of = json_object_get(schema, "oneOf");
  if (types != NULL && !is_one_of_types(types, value)) return text_format("%s: wrong type", at);
  if (values != NULL && !is_enumerated(values, value)) return text_format("%s: none of the values allowed", at);
  const char *wrong = one_of != NULL ? check_one_of(document, one_of, value, at) : NULL;
  if (wrong == NULL && json_is_object(value)) wrong = check_object(document, schema, value, at);
  if (wrong == NULL && json_is_array(value)) wrong = check_array(document, schema, value, at);
  return wrong == NULL ? check_scalar(schema, value, at) : wrong;
}

const char *json_schema_mismatch(const json_t *document, const json_t *schema, const json_t *value) {
  return check(document, schema, value, "$");
}
