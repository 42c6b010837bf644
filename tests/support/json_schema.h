/* json_schema.h: does a JSON value match a schema of an OpenAPI document? The part of JSON Schema 2020-12
 * (https://json-schema.org/draft/2020-12/json-schema-validation) that the document uses; any other keyword fails the test, so
 * that none is overlooked. */
#ifndef PRESENCE_TEST_JSON_SCHEMA_H
#define PRESENCE_TEST_JSON_SCHEMA_H

#include <jansson.h>

/* NULL: it matches; else where and why it does not, living as long as the program. References point into document. */
const char *json_schema_mismatch(const json_t *document, const json_t *schema, const json_t *value);

/* The value that {"$ref":"#/a/b"} points to; any other value itself. */
const json_t *json_schema_resolve(const json_t *document, const json_t *value);

#endif
