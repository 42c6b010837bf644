/* audit_rows.h: the part of presencectl audit that compares device rows with open sessions. */
#ifndef PRESENCE_CLI_AUDIT_ROWS_H
#define PRESENCE_CLI_AUDIT_ROWS_H

#include "redis_side.h"

/* Adds a row to the table for each tenant and kind of finding: tenant, kind, found, repaired, meaning. repair: the workers are
 * asked to repair what was found (markers on the stream). */
enum cli_exit audit_rows_run(struct cli *cli, struct redis_side *side, bool repair, struct table *table) MUST_CHECK;

#endif
