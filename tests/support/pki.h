/* pki.h: certificates for tests, made by the openssl command (of Debian's package openssl, which ca-certificates needs). */
#ifndef PRESENCE_TEST_PKI_H
#define PRESENCE_TEST_PKI_H

#include <stdbool.h>

/* Paths of PEM files; the key's mode is 0600. */
struct certified {
  const char *cert, *key;
};

bool pki_is_here(void);
struct certified pki_authority(const char *name); /* signs itself */
/* names: a subjectAltName, "IP:127.0.0.1,DNS:localhost". days may be negative: it has ended. */
struct certified pki_issue(const struct certified *authority, const char *common_name, const char *names, int days);
/* Replaces the file at `to`: "move" as careful tools do, else written in place. */
void pki_replace(const char *from, const char *to, bool move);

#endif
