/* load.h: the directory's SQL (migrations/README.md, "Loading tenants and tokens"). The directory's thread only. */
#ifndef PRESENCE_DIRECTORY_LOAD_H
#define PRESENCE_DIRECTORY_LOAD_H

#include "pg.h"
#include "snapshot.h"

/* The version of what PostgreSQL holds, and its clock. */
enum status load_state(struct pg_client *client, int64_t *version, int64_t *now_ms) MUST_CHECK;
/* All tenants and tokens, finished, under this version. STATUS_PROTOCOL where a row is not as it should be. */
enum status load_snapshot(struct pg_client *client, int64_t version, struct directory_snapshot **snapshot) MUST_CHECK;
/* *newer: a copy with today's known_devices, or NULL where none has changed. */
enum status load_known(struct pg_client *client, const struct directory_snapshot *current,
                       struct directory_snapshot **newer) MUST_CHECK;

#endif
