/* HTTPS: the same server behind a certificate. */
#include "support/test.h"

#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "http/pem.h"
#include "metrics.h"
#include "support/client.h"
#include "support/http_stand.h"
#include "support/scratch.h"

static struct pem pem;
static const char *cert_path, *key_path;
static FILE *nowhere; /* for bodies */

static int make_certificate(void **state) {
  (void)state;
  cert_path = scratch_path("cert.pem");
  key_path = scratch_path("key.pem");
  const char *command = text_format("openssl req -x509 -newkey rsa:2048 -nodes -keyout %s -out %s -subj /CN=localhost -days 2"
                                    " -addext subjectAltName=IP:127.0.0.1 2>/dev/null",
                                    key_path, cert_path);
  if (system(command) != 0) { // NOLINT(cert-env33-c): a fixed command
    print_message("skipped: no openssl command\n");
    return -1;
  }
  char *error = NULL;
  if (pem_load(&pem, cert_path, key_path, &error) != STATUS_OK) fail_msg("%s", error);
  nowhere = fopen("/dev/null", "we");
  assert_non_null(nowhere);
  return metrics_init() == STATUS_OK && curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? 0 : -1;
}
static int clean_up(void **state) {
  (void)state;
  curl_global_cleanup();
  (void)fclose(nowhere);
  metrics_free();
  pem_free(&pem);
  return 0;
}

static struct http_stand *start(int64_t request_timeout_ms) {
  struct http_stand_options options = {.tls_cert = pem.cert, .tls_key = pem.key, .request_timeout_ms = request_timeout_ms};
  return http_stand_start(&options);
}

static CURL *open_client(void) {
  CURL *curl = curl_easy_init();
  assert_non_null(curl);
  curl_easy_setopt(curl, CURLOPT_CAINFO, cert_path);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, nowhere);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, 30L);
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
  long connections = 0;
  curl_easy_getinfo(curl, CURLINFO_NUM_CONNECTS, &connections);
  assert_int_equal(connections, 0); /* the last call used the first one's */
  assert_int_equal(call(curl, stand, "/v1/tenants/t/heartbeats", body, 1048577), 413);
  curl_easy_cleanup(curl);
  free(body);
  http_stand_stop(stand, 2000);
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
  http_stand_stop(stand, 2000);
}

static void files_that_do_not_fit_are_told(void **state) {
  (void)state;
  struct pem other = {0};
  char *error = NULL;
  assert_string_equal(status_name(pem_load(&other, "", "", &error)), "ok");
  assert_null(other.cert);
  assert_string_equal(status_name(pem_load(&other, "/nowhere/cert.pem", key_path, &error)), "io");
  assert_non_null(strstr(error, "tls-cert /nowhere/cert.pem: No such file"));
  free(error);
  pem_free(&other);
  assert_string_equal(status_name(pem_load(&other, cert_path, "/nowhere/key.pem", &error)), "io");
  assert_non_null(strstr(error, "tls-key /nowhere/key.pem: No such file"));
  free(error);
  pem_free(&other);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(requests_over_tls), cmocka_unit_test(who_does_not_speak_tls_is_closed),
                                     cmocka_unit_test(files_that_do_not_fit_are_told)};
  return cmocka_run_group_tests(tests, make_certificate, clean_up);
}
