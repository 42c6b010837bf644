/* options.h: one option of service/options.def, and how its value is read. Private to service/common and its tests. */
#ifndef PRESENCE_OPTIONS_H
#define PRESENCE_OPTIONS_H

#include "config.h"

struct option;

struct option_choice {
  const char *word;
  unsigned value;
};

struct option_type {
  /* Reads text into the option's field. STATUS_INVALID: not allowed, the field is unchanged. */
  enum status (*read)(const struct option *option, struct str text, void *field);
  const char *allowed;                 /* in words; NULL for numbers and choices, which have it in least, most and choices */
  const struct option_choice *choices; /* ended by a NULL word; NULL where the value is no choice */
  bool text;                           /* the field is an owned char * */
  bool secret;                         /* the value may hold a password and is not repeated in messages */
};

extern const struct option_type OPTION_TYPE_INT, OPTION_TYPE_LISTEN, OPTION_TYPE_REDIS_URL, OPTION_TYPE_SECRET, OPTION_TYPE_ROLES,
    OPTION_TYPE_WORD, OPTION_TYPE_SWITCH, OPTION_TYPE_REDIS_MODE, OPTION_TYPE_ORIGIN, OPTION_TYPE_PATH, OPTION_TYPE_LOG_LEVEL,
    OPTION_TYPE_LOG_FORMAT;

struct option {
  const char *name;
  const struct option_type *type;
  size_t offset; /* of the field in struct config */
  const char *default_value;
  int64_t least, most;
  const char *unit;
  const char *meaning;
};

enum option_id {
#define OPTION(field, name, type, default_value, least, most, unit, meaning) OPTION_##field,
#include "../options.def"
#undef OPTION
  OPTION_COUNT
};

extern const struct option OPTIONS[OPTION_COUNT];

/* By name, dashes and underscores alike. OPTION_COUNT where there is none. */
enum option_id option_find(struct str name);
/* The name of its environment variable, PRESENCE_OUTAGE_MS. */
enum { OPTION_VARIABLE_BYTES = 64 };
void option_variable(const struct option *option, char name[OPTION_VARIABLE_BYTES]);
/* Appends what a value may be: "50 to 3600000 ms", "auto, native, hpexpire, compat". */
enum status option_allowed(const struct option *option, struct buf *out) MUST_CHECK;

/* Reads the text of a config file into *config. name is for messages. */
enum status config_read_text(struct config *config, const char *name, struct str text, char **error) MUST_CHECK;
/* The defaults. */
enum status config_read_defaults(struct config *config) MUST_CHECK;

#endif
