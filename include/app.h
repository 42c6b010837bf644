/* app.h: a running service: every object that lives as long as the process, set up in order, torn down in reverse. */
#ifndef PRESENCE_APP_H
#define PRESENCE_APP_H

#include "config.h"

struct app;

/* Checks both servers (waiting up to startup_wait_ms for them), opens the listener, makes all threads' objects. The caller has
 * called app_block_signals before. *error: one clear line (malloc'd), NULL where memory is short. STATUS_CLOSED: a signal asked
 * for an end meanwhile. config must outlive the app. */
enum status app_new(const struct config *config, struct app **app, char **error) MUST_CHECK;
/* Serves until SIGTERM or SIGINT, then stops in order within five seconds; SIGHUP loads the certificate again. A second signal to
 * end ends the process at once. */
enum status app_run(struct app *app, char **error) MUST_CHECK;
void app_free(struct app *app);

/* SIGTERM, SIGINT and SIGHUP wait until app_new or app_run takes them; SIGPIPE is ignored. Before any thread is made. */
void app_block_signals(void);

#endif
