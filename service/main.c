/* main.c: presenced, from options to exit code: 0 after an orderly stop, 1 where it cannot serve, 2 for a bad option. */
#include <stdio.h>
#include <stdlib.h>

#include "app.h"
#include "failpoint.h"
#include "metrics.h"
#include "version.h"

enum { EXIT_USAGE = 2 };

/* Takes error. */
static int fail(int exit_code, char *error) {
  fprintf(stderr, "presenced: %s\n", error != NULL ? error : "out of memory");
  free(error);
  return exit_code;
}

static int print_help(void) {
  struct buf text = {0};
  enum status status =
      buf_append_str(&text, STR_LIT("Usage: presenced [--config FILE] [--OPTION VALUE]...\n\n"
                                    "Takes heartbeats of devices, knows which are online, and records in PostgreSQL\n"
                                    "each device that comes online or goes offline, exactly once.\n\n"));
  if (status == STATUS_OK) status = config_help(&text);
  if (status == STATUS_OK) fwrite(text.data, 1, text.len, stdout);
  buf_free(&text);
  return status == STATUS_OK ? EXIT_SUCCESS : fail(EXIT_FAILURE, NULL);
}

/* What the README and tests take over. */
static int print_docs(const char *what) {
  struct buf text = {0};
  enum status status = STATUS_OK;
  if (strcmp(what, "options") == 0) {
    status = config_markdown(&text);
  } else if (strcmp(what, "metrics") == 0) {
    status = metrics_markdown(&text);
  } else if (strcmp(what, "failpoints") == 0) {
    for (int id = 0; id < FAILPOINT_COUNT && status == STATUS_OK; id++) status = buf_printf(&text, "%s\n", failpoint_names()[id]);
  } else {
    fprintf(stderr, "presenced: --print-docs = %s: not allowed; allowed: options, metrics, failpoints\n", what);
    return EXIT_USAGE;
  }
  if (status == STATUS_OK) fwrite(text.data, 1, text.len, stdout);
  buf_free(&text);
  return status == STATUS_OK ? EXIT_SUCCESS : fail(EXIT_FAILURE, NULL);
}

static int serve(const struct config *config) {
  struct app *app = NULL;
  char *error = NULL;
  app_block_signals();
  log_init(config->log_level, config->log_format);
  enum status status = metrics_init();
  if (status == STATUS_OK) status = app_new(config, &app, &error);
  if (status == STATUS_OK) status = app_run(app, &error);
  bool ended_early = app == NULL && status == STATUS_CLOSED; /* told to end while it was still waiting for a server */
  app_free(app);
  metrics_free();
  if (status == STATUS_OK || ended_early) return EXIT_SUCCESS;
  return fail(status == STATUS_INVALID ? EXIT_USAGE : EXIT_FAILURE, error); /* INVALID: seen only where the value is used */
}

int main(int argc, char **argv) {
  struct config config = {0};
  struct config_flag print = {.name = "print-docs", .takes_value = true};
  struct config_command_line line = {.argc = argc, .argv = argv, .flags = &print, .flag_count = 1};
  char *error = NULL;
  int exit_code = EXIT_SUCCESS;

  enum status status = config_load(&config, &line, &error);
  if (status == STATUS_OK) status = failpoint_init(&error);
  if (status != STATUS_OK) {
    exit_code = fail(EXIT_USAGE, error);
  } else if (line.help) {
    exit_code = print_help();
  } else if (line.version) {
    printf("presenced %s\n", PRESENCE_VERSION);
  } else if (print.given) {
    exit_code = print_docs(print.value);
  } else if (line.argc > 1) {
    fprintf(stderr, "presenced: unexpected argument: %s (presenced --help lists the options)\n", line.argv[1]);
    exit_code = EXIT_USAGE;
  } else {
    exit_code = serve(&config);
  }
  config_free(&config);
  return exit_code;
}
