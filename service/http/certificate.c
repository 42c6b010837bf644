#include "certificate.h"

#include <errno.h>
#include <fcntl.h>
#include <gnutls/x509.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"
#include "metrics.h"

enum { FILE_MAX_BYTES = 1 << 20, CHAIN_MAX = 16, KEY_ID_MAX = 64 };

/* One loaded pair of files. Handshakes on other threads read it, so what was replaced lives on for a while. */
struct identity {
  gnutls_pcert_st chain[CHAIN_MAX];
  unsigned length;
  gnutls_privkey_t key;
  time_t not_after;
  int64_t replaced_us;
  struct identity *older;
};

/* What a file looks like from outside; all 0: it cannot be seen. */
struct stamp {
  dev_t device;
  ino_t inode;
  off_t size;
  struct timespec changed;
};

struct certificate {
  const char *cert_path, *key_path;
  const struct clock *clock;
  int64_t keep_us;
  struct identity *newest;
  struct stamp tried[2], seen[2]; /* cert and key: as they were loaded (or refused); at the last look */
};

static _Atomic(struct identity *) shown;

/* ---- one pair of files */

static enum status complain(char **error, const char *option, const char *path, const char *why) {
  if (asprintf(error, "%s %s: %s", option, path, why) < 0) *error = NULL;
  return *error != NULL ? STATUS_INVALID : STATUS_NO_MEMORY;
}

static void wipe(gnutls_datum_t *text) {
  if (text->data != NULL) explicit_bzero(text->data, text->size);
  free(text->data);
  *text = (gnutls_datum_t){0};
}

/* False with errno set. */
static bool read_all(int fd, gnutls_datum_t *text) {
  for (;;) {
    ssize_t got = read(fd, text->data + text->size, FILE_MAX_BYTES - text->size);
    if (got == 0) return true;
    if (got > 0) text->size += (unsigned)got;
    if (got < 0 && errno != EINTR) return false;
    if (text->size < FILE_MAX_BYTES) continue;
    errno = EFBIG;
    return false;
  }
}

static enum status read_file(const char *option, const char *path, gnutls_datum_t *text, char **error) {
  *text = (gnutls_datum_t){.data = calloc(1, FILE_MAX_BYTES)};
  if (text->data == NULL) return STATUS_NO_MEMORY;
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  enum status status = fd >= 0 && read_all(fd, text) ? STATUS_OK : complain(error, option, path, strerror(errno));
  if (fd >= 0) close(fd);
  return status;
}

static void identity_free(struct identity *identity) {
  if (identity == NULL) return;
  for (unsigned i = 0; i < identity->length; i++) gnutls_pcert_deinit(&identity->chain[i]);
  if (identity->key != NULL) gnutls_privkey_deinit(identity->key);
  free(identity);
}

/* Do the private key and the first certificate have the same public key? */
static bool belong_together(const struct identity *identity) {
  unsigned char of_cert[KEY_ID_MAX], of_key[KEY_ID_MAX];
  size_t cert_length = sizeof of_cert, key_length = sizeof of_key;
  gnutls_pubkey_t public;
  if (gnutls_pubkey_init(&public) != 0) return false;
  bool same = gnutls_pubkey_import_privkey(public, identity->key, 0, 0) == 0 &&
              gnutls_pubkey_get_key_id(public, GNUTLS_KEYID_USE_SHA256, of_key, &key_length) == 0 &&
              gnutls_pubkey_get_key_id(identity->chain[0].pubkey, GNUTLS_KEYID_USE_SHA256, of_cert, &cert_length) == 0 &&
              key_length == cert_length && memcmp(of_key, of_cert, key_length) == 0;
  gnutls_pubkey_deinit(public);
  return same;
}

static time_t end_of(gnutls_pcert_st *cert) {
  gnutls_x509_crt_t parsed;
  if (gnutls_pcert_export_x509(cert, &parsed) != 0) return 0;
  time_t end = gnutls_x509_crt_get_expiration_time(parsed);
  gnutls_x509_crt_deinit(parsed);
  return end;
}

static enum status identity_load(const struct certificate *certificate, struct identity **out, char **error) {
  gnutls_datum_t cert = {0}, key = {0};
  struct identity *identity = calloc(1, sizeof *identity);
  enum status status = identity != NULL ? STATUS_OK : STATUS_NO_MEMORY;
  if (status == STATUS_OK) status = read_file("tls-cert", certificate->cert_path, &cert, error);
  if (status == STATUS_OK) status = read_file("tls-key", certificate->key_path, &key, error);
  if (status != STATUS_OK) goto out;

  unsigned length = CHAIN_MAX;
  int code = gnutls_pcert_list_import_x509_raw(identity->chain, &length, &cert, GNUTLS_X509_FMT_PEM, GNUTLS_X509_CRT_LIST_SORT);
  if (code < 0 || length == 0) {
    status = complain(error, "tls-cert", certificate->cert_path, code < 0 ? gnutls_strerror(code) : "no certificate in it");
    goto out;
  }
  identity->length = length;
  code = gnutls_privkey_init(&identity->key);
  if (code == 0) code = gnutls_privkey_import_x509_raw(identity->key, &key, GNUTLS_X509_FMT_PEM, NULL, 0);
  if (code < 0)
    status = complain(error, "tls-key", certificate->key_path, gnutls_strerror(code));
  else if (!belong_together(identity))
    status = complain(error, "tls-key", certificate->key_path, "does not belong to the certificate in tls-cert");
  else
    identity->not_after = end_of(&identity->chain[0]);
out:
  wipe(&cert);
  wipe(&key);
  if (status != STATUS_OK) {
    identity_free(identity);
    identity = NULL;
  }
  *out = identity;
  return status;
}

/* ---- what is shown */

static void warn_of_modes(const char *path) {
  struct stat file;
  if (stat(path, &file) != 0) return;
  /* A group may read what belongs to root: that is how a service user without rights of its own gets its key. */
  mode_t open_to = file.st_mode & (S_IRWXO | S_IWGRP | (file.st_uid == 0 ? 0 : S_IRGRP));
  if (open_to != 0)
    log_warn("tls_key_exposed", LOG_STR("file", path), LOG_STR("advice", "others can read or write it; set its mode to 0600"));
}

static void show(struct certificate *certificate, struct identity *identity) {
  int64_t now_s = clock_realtime_ms(certificate->clock) / 1000;
  identity->older = certificate->newest;
  if (identity->older != NULL) identity->older->replaced_us = clock_monotonic_us(certificate->clock);
  certificate->newest = identity;
  atomic_store(&shown, identity);
  metric_set(metrics_series(METRIC_TLS_NOT_AFTER), (double)identity->not_after);
  warn_of_modes(certificate->key_path);
  log_info("tls_certificate", LOG_STR("file", certificate->cert_path), LOG_INT("valid_s", identity->not_after - now_s));
  if (identity->not_after < now_s) log_warn("tls_certificate_expired", LOG_STR("file", certificate->cert_path));
}

static void drop_old(struct certificate *certificate) {
  int64_t now_us = clock_monotonic_us(certificate->clock);
  struct identity **at = &certificate->newest->older;
  while (*at != NULL) {
    struct identity *old = *at;
    if (now_us - old->replaced_us <= certificate->keep_us) {
      at = &old->older;
    } else {
      *at = old->older;
      identity_free(old);
    }
  }
}

static void take_stamps(const struct certificate *certificate, struct stamp stamps[2]) {
  const char *paths[] = {certificate->cert_path, certificate->key_path};
  for (int i = 0; i < 2; i++) {
    struct stat file;
    memset(&stamps[i], 0, sizeof stamps[i]); /* compared byte for byte */
    if (stat(paths[i], &file) != 0) continue;
    stamps[i].device = file.st_dev;
    stamps[i].inode = file.st_ino;
    stamps[i].size = file.st_size;
    stamps[i].changed = file.st_mtim;
  }
}

enum status certificate_new(const char *cert_path, const char *key_path, int64_t handshake_ms, const struct clock *clock,
                            struct certificate **out, char **error) {
  *out = NULL;
  *error = NULL;
  struct certificate *certificate = calloc(1, sizeof *certificate);
  if (certificate == NULL) return STATUS_NO_MEMORY;
  *certificate =
      (struct certificate){.cert_path = cert_path, .key_path = key_path, .clock = clock, .keep_us = 2 * handshake_ms * 1000};
  struct identity *identity;
  take_stamps(certificate, certificate->tried);
  enum status status = identity_load(certificate, &identity, error);
  if (status != STATUS_OK) {
    free(certificate);
    return status;
  }
  show(certificate, identity);
  *out = certificate;
  return STATUS_OK;
}

void certificate_free(struct certificate *certificate) {
  if (certificate == NULL) return;
  atomic_store(&shown, NULL);
  while (certificate->newest != NULL) {
    struct identity *identity = certificate->newest;
    certificate->newest = identity->older;
    identity_free(identity);
  }
  free(certificate);
}

void certificate_look(struct certificate *certificate, bool at_once) {
  struct stamp now[2];
  drop_old(certificate);
  take_stamps(certificate, now);
  bool changed = memcmp(now, certificate->tried, sizeof now) != 0;
  bool settled = memcmp(now, certificate->seen, sizeof now) == 0;
  memcpy(certificate->seen, now, sizeof now);
  if (!at_once && !(changed && settled)) return;

  struct identity *identity;
  char *error = NULL;
  memcpy(certificate->tried, now, sizeof now);
  enum status status = identity_load(certificate, &identity, &error);
  metric_add(metrics_series(METRIC_TLS_RELOADS, status == STATUS_OK ? "ok" : "failed"), 1);
  if (status == STATUS_OK)
    show(certificate, identity);
  else
    log_error("tls_reload_failed", LOG_STR("error", error != NULL ? error : status_name(status)),
              LOG_STR("consequence", "the certificate loaded before stays in use"));
  free(error);
}

int certificate_retrieve(gnutls_session_t session, const struct gnutls_cert_retr_st *info, gnutls_pcert_st **chain,
                         unsigned *chain_length, gnutls_ocsp_data_st **ocsp, unsigned *ocsp_length, gnutls_privkey_t *key,
                         unsigned *flags) {
  (void)session, (void)info;
  struct identity *identity = atomic_load(&shown);
  if (identity == NULL) return -1;
  *chain = identity->chain;
  *chain_length = identity->length;
  *ocsp = NULL;
  *ocsp_length = 0;
  *key = identity->key;
  *flags = 0; /* all of it stays ours */
  return 0;
}
