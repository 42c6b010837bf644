/* presencectl ready: what a container's health check asks; no other program is needed in its image. */
#include <curl/curl.h>
#include <stdio.h>

#include "cli.h"

enum { READY_TIMEOUT_MS = 3000, URL_MAX = 256 };

/* Where the process of this configuration answers: one that listens on all addresses does so on loopback too. */
static enum cli_exit format_url(const struct config *config, const char *path, char url[URL_MAX]) {
  struct str address;
  uint16_t port;
  if (config_split_listen(str_from(config->listen), &address, &port) != STATUS_OK || port == 0)
    return cli_fail_usage("listen = %s names no port to ask", config->listen);
  if (str_equal(address, STR_LIT("0.0.0.0"))) address = STR_LIT("127.0.0.1");
  if (str_equal(address, STR_LIT("::"))) address = STR_LIT("::1");
  bool v6 = memchr(address.data, ':', address.len) != NULL;
  (void)snprintf(url, URL_MAX, "%s://%s%.*s%s:%u%s", config->tls_cert[0] != '\0' ? "https" : "http", v6 ? "[" : "",
                 STR_ARG(address), v6 ? "]" : "", (unsigned)port, path);
  return CLI_OK;
}

static enum cli_exit ask(CURL *curl, const char *url) {
  long http_status = 0;
  char error[CURL_ERROR_SIZE] = "";
  curl_easy_setopt(curl, CURLOPT_URL, url);
  curl_easy_setopt(curl, CURLOPT_PROXY, "");
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, error);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)READY_TIMEOUT_MS);
  /* It asks whether the process beside it serves, not who it is: certificates are made out to other names than loopback's. */
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, 0L);
  curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, 0L);
  CURLcode code = curl_easy_perform(curl); /* writes the body on stdout */
  if (code != CURLE_OK) return cli_fail("%s: %s", url, error[0] != '\0' ? error : curl_easy_strerror(code));
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &http_status);
  return http_status == 200 ? CLI_OK : CLI_FAILED;
}

enum cli_exit ready_ask(struct cli *cli) {
  char url[URL_MAX];
  enum cli_exit code = format_url(&cli->config, cli->flags[CLI_FLAG_ALIVE].given ? "/healthz" : "/readyz", url);
  if (code != CLI_OK) return code;
  CURL *curl = curl_easy_init();
  if (curl == NULL) return cli_fail("out of memory");
  code = ask(curl, url);
  curl_easy_cleanup(curl);
  return code;
}
