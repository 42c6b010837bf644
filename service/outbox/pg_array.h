/* pg_array.h: one-dimensional arrays in PostgreSQL's binary format, so that no value needs quoting.
 *
 * Format: array_send in src/backend/utils/adt/arrayfuncs.c: dimensions, flags, element type, length, lower bound, then each
 * element as its length (-1: null) and bytes; all integers 32 bits in network order. */
#ifndef PRESENCE_PG_ARRAY_H
#define PRESENCE_PG_ARRAY_H

#include <libpq-fe.h>

#include "str.h"

/* Element types and the array types made of them: src/include/catalog/pg_type.dat. */
#define PG_OID_INT8 20
#define PG_OID_TEXT 25
#define PG_OID_UUID 2950
#define PG_OID_INT8_ARRAY 1016
#define PG_OID_TEXT_ARRAY 1009
#define PG_OID_UUID_ARRAY 2951

/* Zero-initialised, then begun; exactly `count` elements are added. A failed allocation is remembered: status at the end. */
struct pg_array {
  struct buf bytes;
  enum status status;
};

void pg_array_begin(struct pg_array *array, Oid element_type, size_t count); /* may be begun again: keeps its memory */
void pg_array_add_int64(struct pg_array *array, int64_t value);
void pg_array_add_bytes(struct pg_array *array, struct str value); /* text, uuid */
void pg_array_add_null(struct pg_array *array);
void pg_array_free(struct pg_array *array);

#endif
