#include "sim_options.h"

#include <stddef.h>
#include <stdlib.h>

enum { FLEET = SIM_FLEET, REPLAY = SIM_REPLAY, BOTH = SIM_FLEET | SIM_REPLAY };
enum kind { KIND_INT, KIND_TEXT, KIND_SWITCH };

static const struct flag {
  const char *name;
  enum kind kind;
  int modes;
  size_t offset;
  int64_t default_number, least, most;
  const char *default_text;
  const char *meaning;
} FLAGS[] = {
#define SIM_INT(field, name, default_value, least, most, modes, meaning)                                                         \
  {name, KIND_INT, modes, offsetof(struct sim_options, field), default_value, least, most, NULL, meaning},
#define SIM_TEXT(field, name, default_value, modes, meaning)                                                                     \
  {name, KIND_TEXT, modes, offsetof(struct sim_options, field), 0, 0, 0, default_value, meaning},
#define SIM_SWITCH(field, name, modes, meaning)                                                                                  \
  {name, KIND_SWITCH, modes, offsetof(struct sim_options, field), 0, 0, 0, NULL, meaning},
#include "sim_options.def"
#undef SIM_INT
#undef SIM_TEXT
#undef SIM_SWITCH
};
enum { FLAG_COUNT = sizeof FLAGS / sizeof FLAGS[0] };

static void *field_of(struct sim_options *options, const struct flag *flag) { return (char *)options + flag->offset; }

static enum status refuse(char **error, const char *format, const char *first, const char *second) {
  struct buf message = {0};
  enum status status = STATUS_OK;
  for (; *format != '\0' && status == STATUS_OK; format++)
    if (*format == '@') {
      status = buf_append_str(&message, str_from(first));
      first = second;
    } else {
      status = buf_append(&message, format, 1);
    }
  if (status == STATUS_OK) status = buf_append(&message, "", 1);
  if (status != STATUS_OK) {
    buf_free(&message);
    return status;
  }
  *error = message.data;
  return STATUS_INVALID;
}

static enum status read_number(const struct flag *flag, const char *text, int64_t *value, char **error) {
  int64_t number = 0;
  if (str_to_int64(str_from(text), &number) == STATUS_OK && number >= flag->least && number <= flag->most) {
    *value = number;
    return STATUS_OK;
  }
  struct buf range = {0};
  enum status status = buf_printf(&range, "%s = %s: not allowed; allowed: %lld to %lld", flag->name, text, (long long)flag->least,
                                  (long long)flag->most);
  if (status == STATUS_OK) status = buf_append(&range, "", 1);
  if (status == STATUS_OK) status = refuse(error, "--@", range.data, "");
  buf_free(&range);
  return status;
}

static const struct flag *find_flag(struct str name) {
  for (int i = 0; i < FLAG_COUNT; i++)
    if (str_equal(name, str_from(FLAGS[i].name))) return &FLAGS[i];
  return NULL;
}

/* The flag in argv[*at]; moves *at on to its value where that is an argument of its own. */
static enum status read_flag(struct sim_options *options, int argc, char **argv, int *at, char **error) {
  const char *argument = argv[*at];
  const char *equals = strchr(argument, '=');
  struct str name = {argument + 2, equals != NULL ? (size_t)(equals - argument) - 2 : strlen(argument) - 2};
  if (equals == NULL && str_equal(name, STR_LIT("help"))) {
    options->help = true;
    return STATUS_OK;
  }
  if (equals == NULL && str_equal(name, STR_LIT("version"))) {
    options->version = true;
    return STATUS_OK;
  }
  const struct flag *flag = find_flag(name);
  if (flag == NULL) return refuse(error, "unknown flag @; allowed: those that --help lists", argument, "");
  if ((flag->modes & (int)options->mode) == 0)
    return refuse(error, "--@ goes with @ only", flag->name, flag->modes == REPLAY ? "replay" : "the fleet, not with replay,");
  if (flag->kind == KIND_SWITCH) {
    if (equals != NULL) return refuse(error, "--@ takes no value", flag->name, "");
    *(bool *)field_of(options, flag) = true;
    return STATUS_OK;
  }
  if (equals == NULL && *at + 1 >= argc) return refuse(error, "--@ needs a value", flag->name, "");
  const char *value = equals != NULL ? equals + 1 : argv[++*at];
  if (flag->kind == KIND_INT) return read_number(flag, value, field_of(options, flag), error);
  *(const char **)field_of(options, flag) = value;
  return STATUS_OK;
}

static void set_defaults(struct sim_options *options) {
  *options = (struct sim_options){.mode = SIM_FLEET};
  for (int i = 0; i < FLAG_COUNT; i++) {
    if (FLAGS[i].kind == KIND_INT) *(int64_t *)field_of(options, &FLAGS[i]) = FLAGS[i].default_number;
    if (FLAGS[i].kind == KIND_TEXT) *(const char **)field_of(options, &FLAGS[i]) = FLAGS[i].default_text;
  }
  const char *token = getenv("PRESENCE_SIM_TOKEN");
  if (token != NULL) options->token = token;
}

static enum status check_together(const struct sim_options *options, char **error) {
  bool needs_token = options->request[0] == '\0';
  if (options->tenant[0] == '\0' || (needs_token && options->token[0] == '\0'))
    return refuse(error, "--@ is missing", options->tenant[0] == '\0' ? "tenant" : "token", "");
  for (const char *at = options->token; *at != '\0'; at++)
    if (*at <= ' ' || *at > '~') return refuse(error, "--token: a blank or control character in it", "", "");
  if (options->mode == SIM_REPLAY && options->file == NULL) return refuse(error, "replay needs a file", "", "");
  if (options->request[0] != '\0' && options->batch > 0) return refuse(error, "--request goes without --batch", "", "");
  if (options->interval_ms == 0 && options->churn > 0) return refuse(error, "--churn needs an interval over 0", "", "");
  return STATUS_OK;
}

enum status sim_options_read(struct sim_options *options, int argc, char **argv, char **error) {
  *error = NULL;
  set_defaults(options);
  int at = 1;
  if (argc > 1 && strcmp(argv[1], "replay") == 0) {
    options->mode = SIM_REPLAY;
    at = 2;
  }
  for (; at < argc; at++) {
    enum status status = STATUS_OK;
    if (strncmp(argv[at], "--", 2) == 0)
      status = read_flag(options, argc, argv, &at, error);
    else if (options->mode == SIM_REPLAY && options->file == NULL)
      options->file = argv[at];
    else
      status = refuse(error, "unexpected word @; allowed: replay FILE, flags", argv[at], "");
    if (status != STATUS_OK) return status;
  }
  return options->help || options->version ? STATUS_OK : check_together(options, error);
}

static enum status append_flag(struct buf *out, const struct flag *flag) {
  enum status status = buf_printf(out, "  --%-14s %s", flag->name, flag->meaning);
  if (status == STATUS_OK && flag->kind == KIND_INT)
    status =
        buf_printf(out, " [%lld; %lld to %lld]", (long long)flag->default_number, (long long)flag->least, (long long)flag->most);
  if (status == STATUS_OK && flag->kind == KIND_TEXT && flag->default_text[0] != '\0')
    status = buf_printf(out, " [%s]", flag->default_text);
  return status == STATUS_OK ? buf_append_str(out, STR_LIT("\n")) : status;
}

enum status sim_options_help(struct buf *out) {
  static const struct {
    int modes;
    const char *title;
  } groups[] = {{BOTH, ""}, {FLEET, "\nA fleet:\n"}, {REPLAY, "\nA replay:\n"}};
  enum status status = buf_append_str(
      out, STR_LIT("presence-sim --tenant T --token SECRET [FLAGS]              devices that send heartbeats\n"
                   "presence-sim replay FILE.csv[.gz] --tenant T --token SECRET  sends the messages of a trace\n\n"));
  for (size_t group = 0; group < sizeof groups / sizeof groups[0] && status == STATUS_OK; group++) {
    status = buf_append_str(out, str_from(groups[group].title));
    for (int i = 0; i < FLAG_COUNT && status == STATUS_OK; i++)
      if (FLAGS[i].modes == groups[group].modes) status = append_flag(out, &FLAGS[i]);
  }
  return status;
}
