/* certificate.h: the certificate chain and private key that HTTPS shows, replaced while the service runs. One per process, since
 * the library's callback is given nothing of ours. A connection keeps what its handshake began with. */
#ifndef PRESENCE_CERTIFICATE_H
#define PRESENCE_CERTIFICATE_H

#include <gnutls/abstract.h>
#include <stdbool.h>

#include "clock.h"
#include "status.h"

struct certificate;
/* Reads both PEM files. handshake_ms: how long a handshake may take; what was replaced is kept for longer than that. Paths and
 * clock are borrowed. *error: one clear line that names the file (malloc'd). STATUS_INVALID: a file cannot be read, holds no
 * certificate or key, or they do not belong together. */
enum status certificate_new(const char *cert_path, const char *key_path, int64_t handshake_ms, const struct clock *clock,
                            struct certificate **certificate, char **error) MUST_CHECK;
/* Once no server uses it any more. */
void certificate_free(struct certificate *certificate);

/* Loads the files again where they have changed and have stayed so since the last look (they are written one after the other), or
 * at once. New handshakes then get the new certificate; files that do not fit are told in the log and change nothing. One thread.
 */
void certificate_look(struct certificate *certificate, bool at_once);

/* For MHD_OPTION_HTTPS_CERT_CALLBACK2 (gnutls_certificate_retrieve_function3): the newest, of the certificate made last. */
int certificate_retrieve(gnutls_session_t session, const struct gnutls_cert_retr_st *info, gnutls_pcert_st **chain,
                         unsigned *chain_length, gnutls_ocsp_data_st **ocsp, unsigned *ocsp_length, gnutls_privkey_t *key,
                         unsigned *flags);

#endif
