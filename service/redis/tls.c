#include "tls.h"

#include <stdio.h>

#if HIREDIS_MAJOR >= 1

#include <errno.h>
#include <hiredis/hiredis_ssl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdlib.h>
#include <unistd.h>

struct tls {
  char *ca, *cert, *key; /* PEM files; "": none */
};

static const char *reason(void) {
  unsigned long code = ERR_peek_error();
  const char *text = code == 0 ? NULL : ERR_reason_error_string(code);
  return text ? text : "cannot be used";
}

static enum status complain(char **error, const char *option, const char *path, const char *why) {
  if (asprintf(error, "%s %s: %s", option, path, why) < 0) *error = NULL;
  return STATUS_INVALID;
}

/* Never asks for a passphrase on a terminal. */
static int no_passphrase(char *text, int size, int writing, void *context) { // NOLINT(readability-non-const-parameter): pem.h's
  (void)text, (void)size, (void)writing, (void)context;
  return 0;
}

static enum status check_files(const struct tls *tls, char **error) {
  const char *files[][2] = {{"redis-tls-ca", tls->ca}, {"redis-tls-cert", tls->cert}, {"redis-tls-key", tls->key}};
  for (int i = 0; i < 3; i++) {
    if (files[i][1][0] != '\0' && access(files[i][1], R_OK) != 0)
      return complain(error, files[i][0], files[i][1], strerror(errno));
  }
  return STATUS_OK;
}

static enum status load(const struct tls *tls, SSL_CTX *made, char **error) {
  if (SSL_CTX_set_min_proto_version(made, TLS1_2_VERSION) != 1) return STATUS_IO;
  SSL_CTX_set_verify(made, SSL_VERIFY_PEER, NULL);
  SSL_CTX_set_default_passwd_cb(made, no_passphrase);
  if (tls->ca[0] == '\0' && SSL_CTX_set_default_verify_paths(made) != 1) return STATUS_IO;
  if (tls->ca[0] != '\0' && SSL_CTX_load_verify_locations(made, tls->ca, NULL) != 1)
    return complain(error, "redis-tls-ca", tls->ca, reason());
  if (tls->cert[0] == '\0') return STATUS_OK;
  if (SSL_CTX_use_certificate_chain_file(made, tls->cert) != 1) return complain(error, "redis-tls-cert", tls->cert, reason());
  if (SSL_CTX_use_PrivateKey_file(made, tls->key, SSL_FILETYPE_PEM) != 1 || SSL_CTX_check_private_key(made) != 1)
    return complain(error, "redis-tls-key", tls->key, reason());
  return STATUS_OK;
}

/* The files are read for each connection, so that new ones are used from the next on. */
static enum status make_context(const struct tls *tls, SSL_CTX **out, char **error) {
  ERR_clear_error();
  *error = NULL;
  SSL_CTX *made = SSL_CTX_new(TLS_client_method());
  enum status status = made ? check_files(tls, error) : STATUS_NO_MEMORY;
  if (!status) status = load(tls, made, error);
  if (status == STATUS_IO && asprintf(error, "redis-url: TLS cannot be set up (are the system's authorities installed?)") < 0)
    *error = NULL;
  if (status) {
    SSL_CTX_free(made);
    made = NULL;
  }
  *out = made;
  return status;
}

enum status tls_new(const struct config *config, struct tls **tls, char **error) {
  SSL_CTX *context;
  struct tls *made = calloc(1, sizeof *made);
  if (!made) return STATUS_NO_MEMORY;
  /* No clean-up at exit: a thread that is still connecting (connector_abandon) may outlive main. */
  (void)OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
  made->ca = strdup(config->redis_tls_ca);
  made->cert = strdup(config->redis_tls_cert);
  made->key = strdup(config->redis_tls_key);
  enum status status = made->ca && made->cert && made->key ? make_context(made, &context, error) : STATUS_NO_MEMORY;
  if (status) {
    tls_free(made);
    return status;
  }
  SSL_CTX_free(context);
  *tls = made;
  return STATUS_OK;
}

void tls_free(struct tls *tls) {
  if (!tls) return;
  free(tls->ca);
  free(tls->cert);
  free(tls->key);
  free(tls);
}

enum status tls_start(redisContext *context, const struct redis_target *target, const char *host) {
  SSL_CTX *made;
  char *error;
  enum status status = make_context(target->tls, &made, &error);
  if (status) {
    snprintf(context->errstr, sizeof context->errstr, "%s", error ? error : status_name(status));
    free(error);
    return status;
  }
  SSL *ssl = SSL_new(made);
  SSL_CTX_free(made); /* ssl holds it */
  if (!ssl) return STATUS_NO_MEMORY;
  /* An address is compared with the certificate's addresses, a name with its names; only a name is sent (RFC 6066 section 3). */
  bool address = X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1;
  if (!address && (SSL_set1_host(ssl, host) != 1 || SSL_set_tlsext_host_name(ssl, host) != 1)) {
    SSL_free(ssl);
    return STATUS_NO_MEMORY;
  }
  if (redisInitiateSSL(context, ssl) == REDIS_OK) return STATUS_OK; /* ssl is the context's now */
  SSL_free(ssl);
  return STATUS_IO;
}

#else /* Debian 12's own hiredis has no TLS */

enum status tls_new(const struct config *config, struct tls **tls, char **error) {
  (void)config;
  *tls = NULL;
  if (asprintf(error, "redis-url: rediss:// needs hiredis 1.0 or newer; this build has %d.%d", HIREDIS_MAJOR, HIREDIS_MINOR) <
      0) {
    *error = NULL;
  }
  return STATUS_REFUSED;
}

void tls_free(struct tls *tls) { (void)tls; }

enum status tls_start(redisContext *context, const struct redis_target *target, const char *host) {
  (void)context;
  (void)target;
  (void)host;
  return STATUS_REFUSED;
}

#endif
