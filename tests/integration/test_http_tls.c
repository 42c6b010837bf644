/* HTTPS: the same server behind a certificate, which is replaced while it serves. */
#include "support/test.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "certificate.h"
#include "metrics.h"
#include "support/client.h"
#include "support/http_stand.h"
#include "support/pki.h"
#include "support/scratch.h"

#define HANDSHAKE_MS 10000

static struct certified authority, first, second; /* two certificates for the same name */
static struct certified files;                    /* what the server reads: the test writes over it */
static struct certificate *certificate;
static int64_t now_us;
static FILE *nowhere; /* for bodies */

static int64_t clock_us(void *context) {
  (void)context;
  return now_us;
}
static int64_t clock_ms(void *context) { return clock_system()->realtime_ms(context); }
static const struct clock test_clock = {.monotonic_us = clock_us, .realtime_ms = clock_ms};

static int make_certificates(void **state) {
  (void)state;
  if (!pki_is_here()) {
    print_message("skipped: no openssl command\n");
    return -1;
  }
  authority = pki_authority("Test CA");
  first = pki_issue(&authority, "first", "IP:127.0.0.1", 2);
  second = pki_issue(&authority, "second", "IP:127.0.0.1", 20);
  files = (struct certified){.cert = scratch_path("tls.crt"), .key = scratch_path("tls.key")};
  nowhere = fopen("/dev/null", "we");
  assert_non_null(nowhere);
  return metrics_init() == STATUS_OK && curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? 0 : -1;
}
static int clean_up(void **state) {
  (void)state;
  curl_global_cleanup();
  (void)fclose(nowhere);
  metrics_free();
  return 0;
}

static void use(const struct certified *pair) {
  pki_replace(pair->cert, files.cert, true);
  pki_replace(pair->key, files.key, true);
}

static struct http_stand *start(int64_t request_timeout_ms) {
  char *error = NULL;
  use(&first);
  if (certificate_new(files.cert, files.key, HANDSHAKE_MS, &test_clock, &certificate, &error) != STATUS_OK) fail_msg("%s", error);
  struct http_stand_options options = {.tls = true, .request_timeout_ms = request_timeout_ms};
  return http_stand_start(&options);
}

static void stop(struct http_stand *stand) {
  http_stand_stop(stand, 2000);
  certificate_free(certificate);
}

static CURL *open_client(void) {
  CURL *curl = curl_easy_init();
  assert_non_null(curl);
  curl_easy_setopt(curl, CURLOPT_CAINFO, authority.cert);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, nowhere);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, 30L);
  curl_easy_setopt(curl, CURLOPT_CERTINFO, 1L);
  return curl;
}

static long call(CURL *curl, const struct http_stand *stand, const char *path, const char *body, size_t length) {
  long status = 0;
  struct curl_slist *headers = curl_slist_append(NULL, "Authorization: Bearer " DEVICE_TOKEN);
  curl_easy_setopt(curl, CURLOPT_URL, text_format("https://%s%s", http_stand_address(stand), path));
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers);
  if (body != NULL) {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, body);
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE, (long)length);
  } else {
    curl_easy_setopt(curl, CURLOPT_HTTPGET, 1L);
  }
  CURLcode code = curl_easy_perform(curl);
  if (code != CURLE_OK) fail_msg("%s: %s", path, curl_easy_strerror(code));
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  curl_slist_free_all(headers);
  return status;
}

static long connections_made(CURL *curl) {
  long count = 0;
  curl_easy_getinfo(curl, CURLINFO_NUM_CONNECTS, &count);
  return count;
}

/* The subject of the certificate that a new connection is shown. */
static const char *shown_to_newcomers(const struct http_stand *stand) {
  CURL *curl = open_client();
  const char *subject = "none";
  struct curl_certinfo *info = NULL;
  assert_int_equal(call(curl, stand, "/healthz", NULL, 0), 200);
  curl_easy_getinfo(curl, CURLINFO_CERTINFO, &info);
  for (struct curl_slist *line = info != NULL && info->num_of_certs > 0 ? info->certinfo[0] : NULL; line != NULL;
       line = line->next)
    if (strncmp(line->data, "Subject:", 8) == 0) subject = text_format("%s", line->data + 8);
  curl_easy_cleanup(curl);
  return strstr(subject, "first") != NULL ? "first" : strstr(subject, "second") != NULL ? "second" : subject;
}

static double reloads(const char *result) {
  struct buf text = {0};
  assert_int_equal(metrics_render(&text), STATUS_OK);
  assert_int_equal(buf_append(&text, "", 1), STATUS_OK);
  const char *wanted = text_format("presence_tls_reloads_total{result=\"%s\"} ", result), *at = strstr(text.data, wanted);
  double value = at != NULL ? strtod(at + strlen(wanted), NULL) : 0;
  buf_free(&text);
  return value;
}

static void requests_over_tls(void **state) {
  (void)state;
  struct http_stand *stand = start(0);
  CURL *curl = open_client();
  http_stand_hold(stand, false);
  char *body = malloc(1048577);
  assert_non_null(body);
  memset(body, 'x', 1048577);
  for (int i = 0; i < 5; i++) {
    assert_int_equal(call(curl, stand, "/healthz", NULL, 0), 200);
    assert_int_equal(call(curl, stand, "/v1/tenants/t/devices/d/heartbeat", "{}", 2), 204);
    assert_int_equal(call(curl, stand, "/v1/tenants/t/devices/d/disconnect", "", 0), 204); /* answered later */
    assert_int_equal(call(curl, stand, "/v1/tenants/t/heartbeats", body, 1048576), 200);
  }
  assert_int_equal(connections_made(curl), 0); /* the last call used the first one's */
  assert_int_equal(call(curl, stand, "/v1/tenants/t/heartbeats", body, 1048577), 413);
  curl_easy_cleanup(curl);
  free(body);
  stop(stand);
}

static void who_does_not_speak_tls_is_closed(void **state) {
  (void)state;
  struct http_stand *stand = start(500);
  struct client *client = client_open(http_stand_address(stand));
  client_send_text(client, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
  WAIT_UNTIL(http_stand_connections(stand) == 0, 5000);
  client_close(client);
  client = client_open(http_stand_address(stand)); /* says nothing */
  WAIT_UNTIL(http_stand_connections(stand) == 1, 5000);
  WAIT_UNTIL(http_stand_connections(stand) == 0, 5000);
  client_close(client);
  stop(stand);
}

static void old_versions_of_tls_are_refused(void **state) {
  (void)state;
  struct http_stand *stand = start(0);
  CURL *curl = open_client();
  curl_easy_setopt(curl, CURLOPT_URL, text_format("https://%s/healthz", http_stand_address(stand)));
  curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_1 | CURL_SSLVERSION_MAX_TLSv1_1);
  assert_int_not_equal(curl_easy_perform(curl), CURLE_OK);
  curl_easy_setopt(curl, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2 | CURL_SSLVERSION_MAX_TLSv1_2);
  assert_int_equal(curl_easy_perform(curl), CURLE_OK);
  curl_easy_cleanup(curl);
  stop(stand);
}

static void newcomers_get_the_new_certificate(void **state) {
  (void)state;
  struct http_stand *stand = start(0);
  CURL *curl = open_client();
  double before = reloads("ok");
  assert_int_equal(call(curl, stand, "/healthz", NULL, 0), 200);
  assert_string_equal(shown_to_newcomers(stand), "first");
  use(&second);
  certificate_look(certificate, false); /* they may still be being written */
  assert_string_equal(shown_to_newcomers(stand), "first");
  certificate_look(certificate, false);
  assert_string_equal(shown_to_newcomers(stand), "second");
  assert_true(reloads("ok") == before + 1);
  assert_int_equal(call(curl, stand, "/healthz", NULL, 0), 200); /* the old connection goes on */
  assert_int_equal(connections_made(curl), 0);
  curl_easy_cleanup(curl);
  stop(stand);
}

static void a_bad_pair_changes_nothing(void **state) {
  (void)state;
  struct http_stand *stand = start(0);
  double before = reloads("failed");
  pki_replace(second.cert, files.cert, true); /* without its key */
  certificate_look(certificate, true);
  assert_string_equal(shown_to_newcomers(stand), "first");
  assert_true(reloads("failed") == before + 1);
  for (int i = 0; i < 5; i++) certificate_look(certificate, false); /* the same pair is not tried again */
  assert_true(reloads("failed") == before + 1);
  pki_replace("/dev/null", files.cert, false);
  certificate_look(certificate, true);
  assert_int_equal(remove(files.cert), 0);
  certificate_look(certificate, true);
  assert_string_equal(shown_to_newcomers(stand), "first");
  assert_true(reloads("failed") == before + 3);
  use(&second);
  for (int i = 0; i < 2; i++) certificate_look(certificate, false);
  assert_string_equal(shown_to_newcomers(stand), "second");
  stop(stand);
}

/* What was replaced is freed once no handshake can use it: under the address sanitizer a connection would find out. */
static void old_pairs_are_given_up_in_time(void **state) {
  (void)state;
  struct http_stand *stand = start(0);
  CURL *curl = open_client();
  assert_int_equal(call(curl, stand, "/healthz", NULL, 0), 200);
  for (int i = 0; i < 20; i++) {
    use(i % 2 == 0 ? &second : &first);
    certificate_look(certificate, true);
    now_us += INT64_C(3) * HANDSHAKE_MS * 1000;
    certificate_look(certificate, false);
    assert_string_equal(shown_to_newcomers(stand), i % 2 == 0 ? "second" : "first");
  }
  assert_int_equal(call(curl, stand, "/healthz", NULL, 0), 200);
  assert_int_equal(connections_made(curl), 0);
  curl_easy_cleanup(curl);
  stop(stand);
}

static void refused(const char *cert, const char *key, const char *why) {
  struct certificate *other = NULL;
  char *error = NULL;
  assert_string_equal(status_name(certificate_new(cert, key, HANDSHAKE_MS, &test_clock, &other, &error)), "invalid");
  assert_null(other);
  if (error == NULL || strstr(error, why) == NULL || strchr(error, '\n') != NULL) fail_msg("'%s' wanted, got '%s'", why, error);
  free(error);
}

static void files_that_do_not_fit_are_told(void **state) {
  (void)state;
  refused("/nowhere/cert.pem", first.key, "tls-cert /nowhere/cert.pem: No such file");
  refused(first.cert, "/nowhere/key.pem", "tls-key /nowhere/key.pem: No such file");
  refused("/tmp", first.key, "tls-cert /tmp: ");
  refused("/dev/null", first.key, "tls-cert /dev/null: ");
  refused("/dev/zero", first.key, "tls-cert /dev/zero: File too large");
  refused(first.key, first.key, text_format("tls-cert %s: ", first.key));
  refused(first.cert, first.cert, text_format("tls-key %s: ", first.cert));
  refused(first.cert, second.key, text_format("tls-key %s: does not belong", second.key));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(requests_over_tls),
      cmocka_unit_test(who_does_not_speak_tls_is_closed),
      cmocka_unit_test(old_versions_of_tls_are_refused),
      cmocka_unit_test(newcomers_get_the_new_certificate),
      cmocka_unit_test(a_bad_pair_changes_nothing),
      cmocka_unit_test(old_pairs_are_given_up_in_time),
      cmocka_unit_test(files_that_do_not_fit_are_told),
  };
  return cmocka_run_group_tests(tests, make_certificates, clean_up);
}
