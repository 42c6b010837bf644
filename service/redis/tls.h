/* tls.h: TLS towards Redis, by OpenSSL and hiredis_ssl. Private to service/redis. */
#ifndef PRESENCE_REDIS_TLS_H
#define PRESENCE_REDIS_TLS_H

#include "target.h"

/* Reads the files that the options redis-tls-* name, to see whether they can be used; each connection reads them again. Without
 * redis-tls-ca the system's certificate authorities count (SSL_CERT_FILE, SSL_CERT_DIR change them). *error as
 * redis_target_new's. STATUS_INVALID: a file cannot be used. STATUS_REFUSED: this build has no TLS. */
enum status tls_new(const struct config *config, struct tls **tls, char **error) MUST_CHECK;
void tls_free(struct tls *tls);
/* The handshake, on a connected, blocking context; the certificate must name the host (of a TCP connection).
 * context->errstr says why not. */
enum status tls_start(redisContext *context, const struct redis_target *target, const char *host) MUST_CHECK;

#endif
