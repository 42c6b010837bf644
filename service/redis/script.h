/* script.h: the Lua scripts, put together for each dialect. Private to service/redis. */
#ifndef PRESENCE_REDIS_SCRIPT_H
#define PRESENCE_REDIS_SCRIPT_H

#include "redis.h"

enum script {
#define SCRIPT(id, name, parts) SCRIPT_##id,
#include "scripts.def"
#undef SCRIPT
  SCRIPT_COUNT
};

#define REDIS_DIALECT_COUNT (REDIS_COMPAT + 1)
enum { SCRIPT_SHA_LEN = 40 };

/* All texts of one program; owned by the target. */
struct script_library {
  struct buf texts[REDIS_DIALECT_COUNT][SCRIPT_COUNT];
};

/* STATUS_NOT_FOUND: a file is missing in the program (a broken build). */
enum status script_library_build(struct script_library *library) MUST_CHECK;
void script_library_free(struct script_library *library);
const char *script_name(enum script script);
/* One file as it is, for trial.lua. */
enum status script_file(const char *name, struct str *text) MUST_CHECK;

#endif
