/* manual: what the tables say, as parts of manual pages, as a sample configuration and for the shell; at build.
 *
 *   manual options|commands|simulator|routes|configuration|completion
 *
 * Manual pages are mdoc(7); their text is in deploy/man, which names where these parts go. */
#include <stdio.h>
#include <stdlib.h>

#include "common/options.h"

enum { FLEET = 1, REPLAY = 2, BOTH = 3 };

static bool begins_sentence(const char *word, char before) { return before == '.' && *word >= 'A' && *word <= 'Z'; }

/* Text of a manual page: a backslash, and what begins a line or a word of roff's own, stand for themselves; a sentence begins a
 * line. */
static void put_text(const char *text) {
  const char *whole = text;
  if (*text == '.' || *text == '\'') fputs("\\&", stdout);
  for (; *text != '\0'; text++) {
    if (*text == '\\')
      fputs("\\e", stdout);
    else if (*text == '"')
      fputs("\\(dq", stdout);
    else if (text[0] == '-' && text[1] == '-')
      fputs("\\-", stdout);
    else if (text[0] == ' ' && text > whole && begins_sentence(text + 1, text[-1]))
      putchar('\n');
    else
      putchar(*text);
  }
}

static void put_sentence(const char *label, const char *text) {
  printf("%s", label);
  put_text(text);
  puts(text[0] != '\0' && text[strlen(text) - 1] == '.' ? "" : ".");
}

/* What a value of the option may be, with a closing NUL; ends the program where there is no memory. */
static void read_allowed(const struct option *option, struct buf *allowed) {
  buf_clear(allowed);
  if (option_allowed(option, allowed) == STATUS_OK && buf_append(allowed, "", 1) == STATUS_OK) return;
  fputs("manual: out of memory\n", stderr);
  exit(EXIT_FAILURE);
}

static void print_options(void) {
  struct buf allowed = {0};
  for (int id = 0; id < OPTION_COUNT; id++) {
    const struct option *option = &OPTIONS[id];
    printf(".It Fl -%s Ar value\n", option->name);
    put_sentence("", option->meaning);
    read_allowed(option, &allowed);
    put_sentence("Allowed: ", allowed.data);
    if (option->default_value[0] != '\0')
      printf("Default: %s%s%s.\n", option->default_value, *option->unit ? " " : "", option->unit);
  }
  buf_free(&allowed);
}

static void print_configuration(void) {
  struct buf allowed = {0};
  puts("# Configuration of presenced and presencectl: name = value, # starts a comment. A line that is commented out shows the "
       "default.");
  for (int id = 0; id < OPTION_COUNT; id++) {
    const struct option *option = &OPTIONS[id];
    read_allowed(option, &allowed);
    printf("\n# %s\n# allowed: %s\n#", option->meaning, allowed.data);
    for (const char *at = option->name; *at != '\0'; at++) putchar(*at == '-' ? '_' : *at);
    printf(" = %s\n", option->default_value);
  }
  buf_free(&allowed);
}

static void print_command(const char *noun, const char *verb, const char *usage, const char *meaning) {
  printf(".It Sy \"%s%s%s\" No \"\\&", noun, verb[0] != '\0' ? " " : "", verb);
  put_text(usage);
  puts("\"");
  put_sentence("", meaning);
}

static void print_commands(void) {
#define FLAG(id, name, takes_value)
#define COMMAND(function, noun, verb, least, most, flags, usage, meaning) print_command(noun, verb, usage, meaning);
#include "cli/commands.def"
#undef FLAG
#undef COMMAND
}

static void print_flag(const char *name, bool takes_value, int modes, const char *meaning) {
  printf(".It Fl -%s%s\n", name, takes_value ? " Ar value" : "");
  if (modes != BOTH) printf("%s only: ", modes == FLEET ? "Fleet" : "Replay");
  put_sentence("", meaning);
}

static void print_number_range(long long absent, long long least, long long most) {
  printf("Default: %lld; %lld to %lld are allowed.\n", absent, least, most);
}

static void print_simulator(void) {
#define SIM_INT(field, name, absent, least, most, modes, meaning)                                                                \
  print_flag(name, true, modes, meaning);                                                                                        \
  print_number_range(absent, least, most);
#define SIM_TEXT(field, name, absent, modes, meaning) print_flag(name, true, modes, meaning);
#define SIM_SWITCH(field, name, modes, meaning) print_flag(name, false, modes, meaning);
#include "tools/sim_options.def"
#undef SIM_INT
#undef SIM_TEXT
#undef SIM_SWITCH
}

static void print_routes(void) {
#define ROUTE(id, method, pattern, scope, body_max, handler) puts(".It Li " #method " Ta Pa " pattern);
#include "http/routes.def"
#undef ROUTE
}

/* ---- For the shell: functions that answer with words, used by the files of deploy/completion; bash and zsh read them alike */

static bool is_path(const struct option *option) { return option->type == &OPTION_TYPE_PATH; }

static void print_option_words(void) {
  printf("_presence_options='--config --help --version");
  for (int id = 0; id < OPTION_COUNT; id++) printf(" --%s", OPTIONS[id].name);
  printf("'\n_presence_paths='--config");
  for (int id = 0; id < OPTION_COUNT; id++)
    if (is_path(&OPTIONS[id])) printf(" --%s", OPTIONS[id].name);
  puts("'\n_presence_choices() {\n  case $1 in");
  for (int id = 0; id < OPTION_COUNT; id++) {
    const struct option *option = &OPTIONS[id];
    if (option->type == &OPTION_TYPE_ROLES) printf("    --%s) echo api worker api,worker ;;\n", option->name);
    if (option->type->choices == NULL) continue;
    printf("    --%s) echo", option->name);
    for (const struct option_choice *choice = option->type->choices; choice->word != NULL; choice++) printf(" %s", choice->word);
    puts(" ;;");
  }
  puts("  esac\n}");
}

enum command_flag {
#define FLAG(id, name, takes_value) COMMAND_FLAG_##id,
#define COMMAND(function, noun, verb, least, most, flags, usage, meaning)
#include "cli/commands.def"
#undef FLAG
#undef COMMAND
  COMMAND_FLAG_COUNT
};

static void print_command_words(const char *noun, const char *verb, unsigned flags) {
  static const char *const names[COMMAND_FLAG_COUNT] = {
#define FLAG(id, name, takes_value) [COMMAND_FLAG_##id] = (name),
#define COMMAND(function, noun, verb, least, most, flags, usage, meaning)
#include "cli/commands.def"
#undef FLAG
#undef COMMAND
  };
  printf("  [%s%s%s]='", noun, verb[0] != '\0' ? "_" : "", verb);
  for (unsigned flag = 0; flag < COMMAND_FLAG_COUNT; flag++)
    if ((flags | 1U << COMMAND_FLAG_JSON) & 1U << flag) printf(" --%s", names[flag]);
  puts("'");
}

static void print_switch(const char *name, bool takes_value) {
  if (!takes_value) printf(" --%s", name);
}

static void print_completion(void) {
  print_option_words();
  printf("_presence_switches='--help --version");
#define FLAG(id, name, takes_value) print_switch(name, takes_value);
#define COMMAND(function, noun, verb, least, most, flags, usage, meaning)
#include "cli/commands.def"
#undef FLAG
#undef COMMAND
  puts("'");
  puts("declare -A _presence_commands=(");
#define F(id) (1U << COMMAND_FLAG_##id)
#define FLAG(id, name, takes_value)
#define COMMAND(function, noun, verb, least, most, flags, usage, meaning) print_command_words(noun, verb, flags);
#include "cli/commands.def"
#undef FLAG
#undef COMMAND
#undef F
  printf(")\n_presence_simulator='--help --version");
#define SIM_INT(field, name, absent, least, most, modes, meaning) fputs(" --" name, stdout);
#define SIM_TEXT(field, name, absent, modes, meaning) fputs(" --" name, stdout);
#define SIM_SWITCH(field, name, modes, meaning) fputs(" --" name, stdout);
#include "tools/sim_options.def"
#undef SIM_INT
#undef SIM_TEXT
#undef SIM_SWITCH
  puts("'");
}

int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*print)(void);
  } parts[] = {{"options", print_options}, {"commands", print_commands},           {"simulator", print_simulator},
               {"routes", print_routes},   {"configuration", print_configuration}, {"completion", print_completion}};
  for (size_t i = 0; argc == 2 && i < sizeof parts / sizeof parts[0]; i++) {
    if (strcmp(argv[1], parts[i].name) != 0) continue;
    parts[i].print();
    return fflush(stdout) == 0 && !ferror(stdout) ? EXIT_SUCCESS : EXIT_FAILURE;
  }
  fputs("usage: manual options|commands|simulator|routes|configuration|completion\n", stderr);
  return 2;
}
