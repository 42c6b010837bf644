/* sim_options.h: presence-sim's command line. */
#ifndef PRESENCE_SIM_OPTIONS_H
#define PRESENCE_SIM_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "status.h"
#include "str.h"

enum sim_mode { SIM_FLEET = 1, SIM_REPLAY = 2 };

/* Texts are borrowed from argv, the environment or the table; never NULL. */
struct sim_options {
  enum sim_mode mode;
  bool help, version;
  const char *file; /* the trace to replay */
#define SIM_INT(field, name, default_value, least, most, modes, meaning) int64_t field;
#define SIM_TEXT(field, name, default_value, modes, meaning) const char *field;
#define SIM_SWITCH(field, name, modes, meaning) bool field;
#include "sim_options.def"
#undef SIM_INT
#undef SIM_TEXT
#undef SIM_SWITCH
};

/* STATUS_INVALID: *error is one clear line (malloc'd, the caller frees); STATUS_NO_MEMORY: NULL. */
enum status sim_options_read(struct sim_options *options, int argc, char **argv, char **error) MUST_CHECK;
enum status sim_options_help(struct buf *out) MUST_CHECK;

#endif
