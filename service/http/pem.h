/* pem.h: the files of the HTTPS server's certificate chain and key. */
#ifndef PRESENCE_HTTP_PEM_H
#define PRESENCE_HTTP_PEM_H

#include "status.h"

struct pem {
  char *cert, *key; /* NULL: plain HTTP */
};

/* Both paths "": plain HTTP. *error: one clear line (malloc'd). The caller frees in any case. */
enum status pem_load(struct pem *pem, const char *cert_path, const char *key_path, char **error) MUST_CHECK;
void pem_free(struct pem *pem); /* wipes the key */

#endif
