/* embedded.h: files of the source tree that are part of the program. service/tools/embed.c writes the tables at build; each is
 * sorted by name (byte order). Static storage, any thread. */
#ifndef PRESENCE_EMBEDDED_H
#define PRESENCE_EMBEDDED_H

#include <stddef.h>
#include <stdint.h>

struct embedded_file {
  const char *name;     /* without folders: "record_heartbeats.lua" */
  const char *bytes;    /* as in the file; a NUL follows them */
  size_t length;        /* without that NUL */
  uint64_t fingerprint; /* of the bytes (FNV-1a); not for secrets */
};

extern const struct embedded_file embedded_scripts[]; /* service/redis/scripts/: *.lua */
extern const size_t embedded_scripts_count;
extern const struct embedded_file embedded_migrations[]; /* migrations/: *.sql */
extern const size_t embedded_migrations_count;
extern const struct embedded_file embedded_dashboard[]; /* service/dashboard/, and the chart library */
extern const size_t embedded_dashboard_count;

extern const struct embedded_file embedded_documents[]; /* service/http/: openapi.json */
extern const size_t embedded_documents_count;

#endif
