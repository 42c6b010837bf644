/* scratch.h: where things are, and a folder of the test program's own (in memory where there is room) that goes away
 * however the program ends. */
#ifndef PRESENCE_TEST_SCRATCH_H
#define PRESENCE_TEST_SCRATCH_H

/* A new path below the program's own folder: "<folder>/<number>-<name>". Nothing is made there. Never freed. Short: the path of a
 * Unix socket has 107 bytes. */
const char *scratch_path(const char *name);
/* The same, and makes a folder there. */
const char *scratch_folder(const char *name);

int free_port(void); /* of 127.0.0.1, below the range that outgoing connections draw from */

const char *place_root(void);                       /* the checkout: PRESENCE_ROOT, or found from the program's own path */
const char *place_built(const char *name);          /* a built program of the same build: "presenced" */
const char *place_server(const char *name);         /* a server's program of the set-up: "redis8-server"; NULL: there is none */
const char *place_shared(const char *name);         /* a file of the shared test data; NULL: there is none */
char *place_read(const char *path, size_t *length); /* a whole file, malloc'd, with a closing NUL; fails the test */
const char *place_text(const char *path);           /* the same, kept as long as the program runs */

#endif
