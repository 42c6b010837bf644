#include "script.h"

#include <stdio.h>
#include <stdlib.h>

#include "embedded.h"

enum part {
  NOTHING = 0,
  BASE = 1,
  FIELD = 2,
  SESSION = 4,
  CUTOFF = 8,
  ROWS = 16,
  SECTIONS = 32,
  PARTITION = 64,
  PRELUDE = BASE | PARTITION
};

static const struct {
  const char *name;
  unsigned parts;
} scripts[SCRIPT_COUNT] = {
#define SCRIPT(id, name, parts) [SCRIPT_##id] = {#name, (parts)},
#include "scripts.def"
#undef SCRIPT
};

static const char *const field_files[REDIS_DIALECT_COUNT] = {
    [REDIS_NATIVE] = "field_native.lua",
    [REDIS_HPEXPIRE] = "field_hpexpire.lua",
    [REDIS_COMPAT] = "field_compat.lua",
};

const char *script_name(enum script script) { return scripts[script].name; }

static int compare_name(const void *name, const void *file) { return strcmp(name, ((const struct embedded_file *)file)->name); }

enum status script_file(const char *name, struct str *text) {
  const struct embedded_file *file =
      bsearch(name, embedded_scripts, embedded_scripts_count, sizeof embedded_scripts[0], compare_name);
  if (!file) return STATUS_NOT_FOUND;
  *text = (struct str){file->bytes, file->length};
  return STATUS_OK;
}

static enum status append_file(struct buf *out, const char *name) {
  struct str text;
  enum status status = script_file(name, &text);
  return status ? status : buf_append_str(out, text);
}

static enum status assemble(struct buf *out, enum redis_dialect dialect, enum script script) {
  const struct {
    enum part part;
    const char *file;
  } parts[] = {{BASE, "prelude.lua"},      {PARTITION, "partition.lua"}, {FIELD, field_files[dialect]},
               {SECTIONS, "sections.lua"}, {SESSION, "session.lua"},     {CUTOFF, "cutoff.lua"},
               {ROWS, "rows.lua"}};
  for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
    if (!(scripts[script].parts & parts[i].part)) continue;
    enum status status = append_file(out, parts[i].file);
    if (status) return status;
  }
  char file[64];
  snprintf(file, sizeof file, "%s.lua", scripts[script].name);
  return append_file(out, file);
}

enum status script_library_build(struct script_library *library) {
  *library = (struct script_library){0};
  for (enum redis_dialect dialect = 0; dialect < REDIS_DIALECT_COUNT; dialect++) {
    for (enum script script = 0; script < SCRIPT_COUNT; script++) {
      enum status status = assemble(&library->texts[dialect][script], dialect, script);
      if (status) {
        script_library_free(library);
        return status;
      }
    }
  }
  return STATUS_OK;
}

void script_library_free(struct script_library *library) {
  for (size_t dialect = 0; dialect < REDIS_DIALECT_COUNT; dialect++) {
    for (size_t script = 0; script < SCRIPT_COUNT; script++) buf_free(&library->texts[dialect][script]);
  }
}
