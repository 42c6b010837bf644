/* presencectl: reads its words, finds the command in commands.def, runs it. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "failpoint.h"
#include "version.h"

struct command {
  const char *noun, *verb; /* verb "": the noun alone */
  int least, most;         /* words after noun and verb */
  unsigned flags;          /* bits of enum cli_flag; --json goes with all */
  const char *usage, *meaning;
  enum cli_exit (*run)(struct cli *cli);
};

#define F(id) (1U << CLI_FLAG_##id)
static const struct command commands[] = {
#define FLAG(id, name, takes_value)
#define COMMAND(function, noun, verb, least, most, flags, usage, meaning)                                                        \
  {noun, verb, least, most, flags, usage, meaning, function},
#include "commands.def"
#undef FLAG
#undef COMMAND
};

static const struct config_flag flags_of_presencectl[CLI_FLAG_COUNT] = {
#define FLAG(id, flag_name, with_value) [CLI_FLAG_##id] = {.name = (flag_name), .takes_value = (with_value)},
#define COMMAND(function, noun, verb, least, most, flags, usage, meaning)
#include "commands.def"
#undef FLAG
#undef COMMAND
};

enum { COMMAND_COUNT = sizeof commands / sizeof commands[0] };

static enum cli_exit print_help(void) {
  puts("presencectl looks after a presence service. Usage: presencectl COMMAND [--json] [OPTION…]\n");
  for (size_t i = 0; i < COMMAND_COUNT; i++) {
    const struct command *command = &commands[i];
    printf("  %s%s%s %s\n      %s\n", command->noun, command->verb[0] == '\0' ? "" : " ", command->verb, command->usage,
           command->meaning);
  }
  puts("\nOptions, the same as presenced's:\n");
  struct buf options = {0};
  enum status status = config_help(&options);
  if (status == STATUS_OK) fwrite(options.data, 1, options.len, stdout);
  buf_free(&options);
  return status == STATUS_OK ? CLI_OK : cli_fail("%s", status_name(status));
}

/* The command that the words begin with; NULL with a line on stderr. */
static const struct command *find_command(int count, char **words) {
  bool noun_known = false;
  for (size_t i = 0; i < COMMAND_COUNT && count > 0; i++) {
    if (strcmp(commands[i].noun, words[0]) != 0) continue;
    noun_known = true;
    if (commands[i].verb[0] == '\0' || (count > 1 && strcmp(commands[i].verb, words[1]) == 0)) return &commands[i];
  }
  if (count == 0)
    cli_fail_usage("no command; `presencectl --help` lists them");
  else if (!noun_known)
    cli_fail_usage("unknown command %s; `presencectl --help` lists them", words[0]);
  else if (count == 1)
    cli_fail_usage("%s what? `presencectl --help` lists the commands", words[0]);
  else
    cli_fail_usage("unknown command %s %s; `presencectl --help` lists them", words[0], words[1]);
  return NULL;
}

static enum cli_exit check_usage(const struct cli *cli, const struct command *command, int words) {
  const char *space = command->verb[0] == '\0' ? "" : " ";
  if (words < command->least || words > command->most) {
    return cli_fail_usage("usage: presencectl %s%s%s %s", command->noun, space, command->verb, command->usage);
  }
  for (unsigned i = 0; i < CLI_FLAG_COUNT; i++) {
    if (cli->flags[i].given && ((command->flags | F(JSON)) & 1U << i) == 0) {
      return cli_fail_usage("--%s does not go with %s%s%s", cli->flags[i].name, command->noun, space, command->verb);
    }
  }
  return CLI_OK;
}

static enum cli_exit run_command(struct cli *cli, int count, char **words) {
  const struct command *command = find_command(count, words);
  if (command == NULL) return CLI_USAGE;
  int used = command->verb[0] == '\0' ? 1 : 2;
  enum cli_exit code = check_usage(cli, command, count - used);
  if (code != CLI_OK) return code;
  cli->words = words + used;
  cli->json = cli->flags[CLI_FLAG_JSON].given;
  enum status status = pg_client_new(cli->config.postgres_url, "presencectl", clock_system(), &cli->pg);
  if (status == STATUS_INVALID) return cli_fail_usage("postgres-url is no connection string of PostgreSQL");
  if (status != STATUS_OK) return cli_fail("%s", status_name(status));
  code = command->run(cli);
  pg_client_free(cli->pg);
  return code;
}

int main(int argc, char **argv) {
  (void)signal(SIGPIPE, SIG_IGN); /* a server that goes away is an error to tell of, not the end */
  struct cli cli = {0};
  memcpy(cli.flags, flags_of_presencectl, sizeof cli.flags);
  struct config_command_line line = {.argc = argc, .argv = argv, .flags = cli.flags, .flag_count = CLI_FLAG_COUNT};
  char *error;
  enum cli_exit code;
  enum status status = config_load(&cli.config, &line, &error);
  if (status == STATUS_OK) status = failpoint_init(&error);
  if (status == STATUS_INVALID) {
    code = cli_fail_usage("%s", error);
  } else if (status != STATUS_OK) {
    code = cli_fail("%s", status_name(status));
  } else if (line.help) {
    code = print_help();
  } else if (line.version) {
    code = puts("presencectl " PRESENCE_VERSION) >= 0 ? CLI_OK : CLI_FAILED;
  } else {
    log_init(cli.config.log_level, cli.config.log_format);
    argv[line.argc] = NULL; /* the words moved to the front; there was room for main's own NULL */
    code = run_command(&cli, line.argc - 1, line.argv + 1);
  }
  free(error);
  config_free(&cli.config);
  return (int)code;
}
