/* tls.h: TLS towards Redis, by OpenSSL and hiredis_ssl. Private to service/redis. */
#ifndef PRESENCE_REDIS_TLS_H
#define PRESENCE_REDIS_TLS_H

#include "target.h"

/* A context that verifies the server against the system's certificate authorities (SSL_CERT_FILE, SSL_CERT_DIR change them).
 * *error as redis_target_new's; STATUS_REFUSED: this build has no TLS. */
enum status tls_context_new(void **context, char **error) MUST_CHECK;
void tls_context_free(void *context);
/* The handshake, on a connected, blocking context; the certificate must name the target's host. context->errstr says why not. */
enum status tls_start(redisContext *context, const struct redis_target *target) MUST_CHECK;

#endif
