#include "options.h"

#include <ctype.h>

const struct option OPTIONS[OPTION_COUNT] = {
#define OPTION(field, name, type, default_value, least, most, unit, meaning)                                                     \
  {name, &OPTION_TYPE_##type, offsetof(struct config, field), default_value, least, most, unit, meaning},
#include "../options.def"
#undef OPTION
};

static bool same_name(struct str given, const char *name) {
  if (given.len != strlen(name)) return false;
  for (size_t i = 0; i < given.len; i++)
    if ((given.data[i] == '_' ? '-' : given.data[i]) != name[i]) return false;
  return true;
}

enum option_id option_find(struct str name) {
  int id = 0;
  while (id < OPTION_COUNT && !same_name(name, OPTIONS[id].name)) id++;
  return (enum option_id)id;
}

static char upper(char letter) {
  if (letter == '-') return '_';
  return (char)toupper((unsigned char)letter);
}

void option_variable(const struct option *option, char name[OPTION_VARIABLE_BYTES]) {
  size_t len = sizeof "PRESENCE_" - 1;
  memcpy(name, "PRESENCE_", len);
  for (const char *at = option->name; *at != '\0' && len + 1 < OPTION_VARIABLE_BYTES; at++) name[len++] = upper(*at);
  name[len] = '\0';
}

enum status option_allowed(const struct option *option, struct buf *out) {
  if (option->type->allowed != NULL) return buf_append_str(out, str_from(option->type->allowed));
  if (option->type->choices == NULL)
    return buf_printf(out, "%lld to %lld%s%s", (long long)option->least, (long long)option->most, option->unit[0] ? " " : "",
                      option->unit);
  enum status status = STATUS_OK;
  for (const struct option_choice *choice = option->type->choices; choice->word != NULL && status == STATUS_OK; choice++)
    status = buf_printf(out, "%s%s", choice == option->type->choices ? "" : ", ", choice->word);
  return status;
}

enum status config_help(struct buf *out) {
  enum status status = buf_append_str(
      out, STR_LIT("Options: --outage-ms 500 = the variable PRESENCE_OUTAGE_MS=500 = a line `outage_ms = 500` in the file.\n"
                   "Flags win over the environment, the environment over the file.\n\n"
                   "  --config FILE          options, one a line; # starts a comment\n"
                   "  --help, --version\n\n"));
  for (int id = 0; id < OPTION_COUNT && status == STATUS_OK; id++) {
    const struct option *option = &OPTIONS[id];
    status = buf_printf(out, "  --%-20s %s\n%24s default: %s%s%s; allowed: ", option->name, option->meaning, "",
                        option->default_value[0] ? option->default_value : "empty", option->unit[0] ? " " : "", option->unit);
    if (status == STATUS_OK) status = option_allowed(option, out);
    if (status == STATUS_OK) status = buf_append_str(out, STR_LIT("\n"));
  }
  return status;
}

enum status config_markdown(struct buf *out) {
  enum status status = buf_append_str(out, STR_LIT("| variable | default | allowed | meaning |\n|---|---|---|---|\n"));
  for (int id = 0; id < OPTION_COUNT && status == STATUS_OK; id++) {
    const struct option *option = &OPTIONS[id];
    const char *tick = option->default_value[0] ? "`" : "";
    char variable[OPTION_VARIABLE_BYTES];
    option_variable(option, variable);
    status = buf_printf(out, "| `%s` | %s%s%s | ", variable, tick, option->default_value, tick);
    if (status == STATUS_OK) status = option_allowed(option, out);
    if (status == STATUS_OK) status = buf_printf(out, " | %s |\n", option->meaning);
  }
  return status;
}
