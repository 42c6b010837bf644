/* table.h: rows for people (an aligned table) or for scripts (JSON), from the same columns. */
#ifndef PRESENCE_TABLE_H
#define PRESENCE_TABLE_H

#include <libpq-fe.h>

#include "str.h"

enum cell_kind {
  CELL_TEXT,
  CELL_NUMBER,
  CELL_TIME, /* ms since 1970: JSON as it is, people see a date; the column's name ends in _ms */
  CELL_BOOL, /* "t", "f" */
  CELL_JSON, /* as it is */
  CELL_WORDS /* PostgreSQL's text[] of plain words: {a,b} */
};

enum table_shape { TABLE_LIST, TABLE_OBJECT }; /* JSON array of objects; one object (the first row) */

#define TABLE_COLUMNS_MAX 16

/* Zero-initialised, then columns, then cells row by row. A failed allocation is remembered: status at the end. */
struct table {
  struct {
    const char *name; /* borrowed */
    enum cell_kind kind;
  } columns[TABLE_COLUMNS_MAX];
  size_t column_count;
  struct buf text;  /* the cells' bytes */
  struct buf cells; /* struct table_cell, row by row */
  enum status status;
};

void table_column(struct table *table, const char *name, enum cell_kind kind);
void table_add(struct table *table, struct str text);
void table_add_number(struct table *table, int64_t number);
void table_add_null(struct table *table);
/* Columns by the result's names and types; the names are borrowed from the result. */
void table_add_result(struct table *table, const PGresult *result);
enum status table_render(const struct table *table, enum table_shape shape, bool json, struct buf *out) MUST_CHECK;
void table_free(struct table *table);

#endif
