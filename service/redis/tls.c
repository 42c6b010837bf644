#include "tls.h"

#include <stdio.h>

#if HIREDIS_MAJOR >= 1

#include <hiredis/hiredis_ssl.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

enum status tls_context_new(void **context, char **error) {
  SSL_CTX *made = SSL_CTX_new(TLS_client_method());
  if (made && SSL_CTX_set_min_proto_version(made, TLS1_2_VERSION) == 1 && SSL_CTX_set_default_verify_paths(made) == 1) {
    SSL_CTX_set_verify(made, SSL_VERIFY_PEER, NULL);
    *context = made;
    return STATUS_OK;
  }
  SSL_CTX_free(made);
  if (asprintf(error, "redis-url: TLS cannot be set up (are the system's certificate authorities installed?)") < 0) *error = NULL;
  return STATUS_IO;
}

void tls_context_free(void *context) { SSL_CTX_free(context); }

enum status tls_start(redisContext *context, const struct redis_target *target) {
  SSL *ssl = SSL_new(target->tls);
  if (!ssl) return STATUS_NO_MEMORY;
  /* An address is compared with the certificate's addresses, a name with its names; only a name is sent (RFC 6066 section 3). */
  bool address = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), target->host) == 1;
  if (!address && (SSL_set1_host(ssl, target->host) != 1 || SSL_set_tlsext_host_name(ssl, target->host) != 1)) {
    SSL_free(ssl);
    return STATUS_NO_MEMORY;
  }
  if (redisInitiateSSL(context, ssl) == REDIS_OK) return STATUS_OK; /* ssl is the context's now */
  SSL_free(ssl);
  return STATUS_IO;
}

#else /* Debian 12's own hiredis has no TLS */

enum status tls_context_new(void **context, char **error) {
  *context = NULL;
  if (asprintf(error, "redis-url: rediss:// needs hiredis 1.0 or newer; this build has %d.%d", HIREDIS_MAJOR, HIREDIS_MINOR) <
      0) {
    *error = NULL;
  }
  return STATUS_REFUSED;
}

void tls_context_free(void *context) { (void)context; }

enum status tls_start(redisContext *context, const struct redis_target *target) {
  (void)context;
  (void)target;
  return STATUS_REFUSED;
}

#endif
