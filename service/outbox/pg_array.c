#include "pg_array.h"

#include <arpa/inet.h>
#include <endian.h>
#include <limits.h>

static void append(struct pg_array *array, const void *data, size_t len) {
  if (array->status == STATUS_OK) array->status = buf_append(&array->bytes, data, len);
}

static void append_int32(struct pg_array *array, int32_t value) {
  uint32_t wire = htonl((uint32_t)value);
  append(array, &wire, sizeof wire);
}

void pg_array_begin(struct pg_array *array, Oid element_type, size_t count) {
  buf_clear(&array->bytes);
  array->status = STATUS_OK;
  if (count > INT32_MAX) {
    array->status = STATUS_TOO_LARGE;
    return;
  }
  append_int32(array, count == 0 ? 0 : 1); /* an empty array has no dimension */
  append_int32(array, 1);                  /* nulls are possible */
  append_int32(array, (int32_t)element_type);
  if (count == 0) return;
  append_int32(array, (int32_t)count);
  append_int32(array, 1);
}

void pg_array_add_int64(struct pg_array *array, int64_t value) {
  uint64_t wire = htobe64((uint64_t)value);
  append_int32(array, sizeof wire);
  append(array, &wire, sizeof wire);
}

void pg_array_add_bytes(struct pg_array *array, struct str value) {
  if (value.len > INT32_MAX) {
    array->status = STATUS_TOO_LARGE;
    return;
  }
  append_int32(array, (int32_t)value.len);
  append(array, value.data, value.len);
}

void pg_array_add_null(struct pg_array *array) { append_int32(array, -1); }

void pg_array_free(struct pg_array *array) { buf_free(&array->bytes); }
