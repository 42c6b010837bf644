#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "outbox.h"

enum cli_exit migrate_run(struct cli *cli) {
  size_t applied;
  char *message;
  enum status status = outbox_migrate(cli->pg, &applied, &message);
  enum cli_exit code = CLI_OK;
  if (status != STATUS_OK) code = cli_fail("%s", message != NULL ? message : status_name(status));
  free(message);
  if (code != CLI_OK) return code;
  if (cli->json)
    printf("{\"applied\":%zu}\n", applied);
  else if (applied == 0)
    puts("the schema is up to date");
  else
    printf("%zu migration%s applied\n", applied, applied == 1 ? "" : "s");
  return CLI_OK;
}
