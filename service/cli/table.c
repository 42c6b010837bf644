#include "table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

/* Types of results: src/include/catalog/pg_type.dat. */
enum { OID_BOOL = 16, OID_INT8 = 20, OID_INT4 = 23, OID_JSON = 114, OID_TEXT_ARRAY = 1009, OID_JSONB = 3802 };

struct table_cell {
  size_t at, len;
  bool null;
};

void table_column(struct table *table, const char *name, enum cell_kind kind) {
  if (table->column_count == TABLE_COLUMNS_MAX) {
    table->status = STATUS_TOO_LARGE;
    return;
  }
  table->columns[table->column_count].name = name;
  table->columns[table->column_count++].kind = kind;
}

static void add_cell(struct table *table, struct str text, bool null) {
  struct table_cell cell = {.at = table->text.len, .len = text.len, .null = null};
  if (table->status == STATUS_OK) table->status = buf_append_str(&table->text, text);
  if (table->status == STATUS_OK) table->status = buf_append(&table->cells, &cell, sizeof cell);
}

void table_add(struct table *table, struct str text) { add_cell(table, text, false); }

void table_add_number(struct table *table, int64_t number) {
  struct buf text = {0};
  enum status status = buf_append_int64(&text, number);
  if (status == STATUS_OK)
    add_cell(table, buf_str(&text), false);
  else
    table->status = status;
  buf_free(&text);
}

void table_add_null(struct table *table) { add_cell(table, STR_NONE, true); }

static bool ends_in(const char *name, const char *end) {
  size_t name_len = strlen(name), end_len = strlen(end);
  return name_len >= end_len && strcmp(name + name_len - end_len, end) == 0;
}

static enum cell_kind kind_of(const char *name, Oid type) {
  switch (type) {
  case OID_BOOL: return CELL_BOOL;
  case OID_INT4:
  case OID_INT8: return ends_in(name, "_ms") && !ends_in(name, "ttl_ms") ? CELL_TIME : CELL_NUMBER;
  case OID_JSON:
  case OID_JSONB: return CELL_JSON;
  case OID_TEXT_ARRAY: return CELL_WORDS;
  default: return CELL_TEXT;
  }
}

void table_add_result(struct table *table, const PGresult *result) {
  int columns = PQnfields(result);
  for (int c = 0; c < columns; c++) table_column(table, PQfname(result, c), kind_of(PQfname(result, c), PQftype(result, c)));
  for (int row = 0; row < PQntuples(result); row++) {
    for (int c = 0; c < columns; c++) {
      add_cell(table, (struct str){PQgetvalue(result, row, c), (size_t)PQgetlength(result, row, c)},
               PQgetisnull(result, row, c) == 1);
    }
  }
}

void table_free(struct table *table) {
  buf_free(&table->text);
  buf_free(&table->cells);
}

static size_t row_count(const struct table *table) {
  return table->column_count == 0 ? 0 : table->cells.len / sizeof(struct table_cell) / table->column_count;
}

static struct table_cell cell_at(const struct table *table, size_t row, size_t column) {
  struct table_cell cell;
  memcpy(&cell, table->cells.data + (row * table->column_count + column) * sizeof cell, sizeof cell);
  return cell;
}

static struct str cell_text(const struct table *table, struct table_cell cell) {
  return cell.len == 0 ? STR_NONE : (struct str){table->text.data + cell.at, cell.len};
}

/* "{a,b}" → a,b */
static struct str words_of(struct str text) { return text.len < 2 ? STR_NONE : (struct str){text.data + 1, text.len - 2}; }

static bool is_true(struct str text) { return str_equal(text, STR_LIT("t")); }

/* ---- JSON */

static enum status render_json_words(struct buf *out, struct str words) {
  enum status status = buf_append_str(out, STR_LIT("["));
  while (words.len > 0 && status == STATUS_OK) {
    const char *comma = memchr(words.data, ',', words.len);
    size_t len = comma == NULL ? words.len : (size_t)(comma - words.data);
    status = buf_append_json_string(out, (struct str){words.data, len});
    if (comma != NULL && status == STATUS_OK) status = buf_append_str(out, STR_LIT(","));
    words = comma == NULL ? STR_NONE : (struct str){comma + 1, words.len - len - 1};
  }
  return status == STATUS_OK ? buf_append_str(out, STR_LIT("]")) : status;
}

static enum status render_json_cell(struct buf *out, enum cell_kind kind, struct str text) {
  switch (kind) {
  case CELL_TEXT: return buf_append_json_string(out, text);
  case CELL_BOOL: return buf_append_str(out, is_true(text) ? STR_LIT("true") : STR_LIT("false"));
  case CELL_WORDS: return render_json_words(out, words_of(text));
  case CELL_NUMBER:
  case CELL_TIME:
  case CELL_JSON: break;
  }
  return buf_append_str(out, text);
}

static enum status render_json_row(const struct table *table, size_t row, struct buf *out) {
  enum status status = STATUS_OK;
  for (size_t c = 0; c < table->column_count && status == STATUS_OK; c++) {
    struct table_cell cell = cell_at(table, row, c);
    status = buf_printf(out, "%s\"%s\":", c == 0 ? "{" : ",", table->columns[c].name);
    if (status != STATUS_OK) break;
    if (cell.null)
      status = buf_append_str(out, STR_LIT("null"));
    else
      status = render_json_cell(out, table->columns[c].kind, cell_text(table, cell));
  }
  return status == STATUS_OK ? buf_append_str(out, STR_LIT("}")) : status;
}

static enum status render_json(const struct table *table, enum table_shape shape, struct buf *out) {
  if (shape == TABLE_OBJECT) {
    enum status status = render_json_row(table, 0, out);
    return status == STATUS_OK ? buf_append_str(out, STR_LIT("\n")) : status;
  }
  enum status status = buf_append_str(out, STR_LIT("["));
  for (size_t row = 0; row < row_count(table) && status == STATUS_OK; row++) {
    if (row > 0) status = buf_append_str(out, STR_LIT(",\n "));
    if (status == STATUS_OK) status = render_json_row(table, row, out);
  }
  return status == STATUS_OK ? buf_append_str(out, STR_LIT("]\n")) : status;
}

/* ---- for people */

/* Characters, not bytes: good enough to align most scripts. */
static size_t width_of(struct str text) {
  size_t width = 0;
  for (size_t i = 0; i < text.len; i++) width += ((unsigned char)text.data[i] & 0xC0) != 0x80;
  return width;
}

static enum status render_time(struct buf *out, struct str text) {
  char digits[24] = "";
  if (text.len < sizeof digits && text.len > 0) memcpy(digits, text.data, text.len);
  long long ms = strtoll(digits, NULL, 10);
  long long part_ms = (ms % 1000 + 1000) % 1000;
  time_t seconds = (time_t)(ms / 1000 - (ms % 1000 < 0)); /* rounded down, also before 1970 */
  struct tm utc;
  char date[40];
  if (gmtime_r(&seconds, &utc) == NULL || strftime(date, sizeof date, "%Y-%m-%d %H:%M:%S", &utc) == 0) {
    return buf_append_str(out, text);
  }
  return buf_printf(out, "%s.%03lldZ", date, part_ms);
}

/* Control characters of stored text must not reach a terminal. */
static enum status render_plain(struct buf *out, struct str text) {
  enum status status = STATUS_OK;
  for (size_t i = 0; i < text.len && status == STATUS_OK; i++) {
    unsigned char byte = (unsigned char)text.data[i];
    if (byte < 0x20 || byte == 0x7F)
      status = buf_printf(out, "\\x%02X", (unsigned)byte);
    else
      status = buf_append(out, &text.data[i], 1);
  }
  return status;
}

static enum status render_cell(const struct table *table, size_t row, size_t column, struct buf *out) {
  struct table_cell cell = cell_at(table, row, column);
  struct str text = cell_text(table, cell);
  if (cell.null) return buf_append_str(out, STR_LIT("-"));
  switch (table->columns[column].kind) {
  case CELL_TIME: return render_time(out, text);
  case CELL_BOOL: return buf_append_str(out, is_true(text) ? STR_LIT("yes") : STR_LIT("no"));
  case CELL_WORDS: return buf_append_str(out, words_of(text));
  case CELL_TEXT:
  case CELL_NUMBER:
  case CELL_JSON: break;
  }
  return render_plain(out, text);
}

/* Times lose their unit for people: the date says it. */
static struct str title_of(const struct table *table, size_t column) {
  struct str name = str_from(table->columns[column].name);
  if (table->columns[column].kind == CELL_TIME && name.len > 3) name.len -= 3;
  return name;
}

static enum status pad(struct buf *out, size_t count) {
  enum status status = STATUS_OK;
  for (size_t i = 0; i < count && status == STATUS_OK; i++) status = buf_append_str(out, STR_LIT(" "));
  return status;
}

static bool is_right_aligned(const struct table *table, size_t column) { return table->columns[column].kind == CELL_NUMBER; }

static enum status render_aligned(const struct table *table, size_t column, struct str text, size_t width, struct buf *out) {
  bool last = column + 1 == table->column_count;
  size_t gap = width - width_of(text);
  enum status status = is_right_aligned(table, column) ? pad(out, gap) : STATUS_OK;
  if (status == STATUS_OK) status = buf_append_str(out, text);
  if (status == STATUS_OK && !last) status = pad(out, (is_right_aligned(table, column) ? 0 : gap) + 2);
  return status == STATUS_OK && last ? buf_append_str(out, STR_LIT("\n")) : status;
}

static enum status find_widths(const struct table *table, size_t widths[TABLE_COLUMNS_MAX]) {
  struct buf cell = {0};
  enum status status = STATUS_OK;
  for (size_t c = 0; c < table->column_count; c++) {
    widths[c] = width_of(title_of(table, c));
    for (size_t row = 0; row < row_count(table) && status == STATUS_OK; row++) {
      buf_clear(&cell);
      status = render_cell(table, row, c, &cell);
      if (width_of(buf_str(&cell)) > widths[c]) widths[c] = width_of(buf_str(&cell));
    }
  }
  buf_free(&cell);
  return status;
}

static enum status render_table(const struct table *table, struct buf *out) {
  size_t widths[TABLE_COLUMNS_MAX];
  struct buf cell = {0};
  enum status status = find_widths(table, widths);
  for (size_t c = 0; c < table->column_count && status == STATUS_OK; c++) {
    status = render_aligned(table, c, title_of(table, c), widths[c], out);
  }
  for (size_t row = 0; row < row_count(table); row++) {
    for (size_t c = 0; c < table->column_count && status == STATUS_OK; c++) {
      buf_clear(&cell);
      status = render_cell(table, row, c, &cell);
      if (status == STATUS_OK) status = render_aligned(table, c, buf_str(&cell), widths[c], out);
    }
  }
  buf_free(&cell);
  return status;
}

/* One row, its columns below each other. */
static enum status render_record(const struct table *table, struct buf *out) {
  size_t width = 0;
  for (size_t c = 0; c < table->column_count; c++) {
    if (title_of(table, c).len > width) width = title_of(table, c).len;
  }
  enum status status = STATUS_OK;
  for (size_t c = 0; c < table->column_count && status == STATUS_OK; c++) {
    struct str title = title_of(table, c);
    status = buf_append_str(out, title);
    if (status == STATUS_OK) status = pad(out, width - title.len + 2);
    if (status == STATUS_OK) status = render_cell(table, 0, c, out);
    if (status == STATUS_OK) status = buf_append_str(out, STR_LIT("\n"));
  }
  return status;
}

enum status table_render(const struct table *table, enum table_shape shape, bool json, struct buf *out) {
  if (table->status != STATUS_OK) return table->status;
  if (shape == TABLE_OBJECT && row_count(table) == 0) return STATUS_NOT_FOUND;
  if (json) return render_json(table, shape, out);
  return shape == TABLE_OBJECT ? render_record(table, out) : render_table(table, out);
}
