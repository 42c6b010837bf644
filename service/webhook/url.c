#include "webhook/url.h"

#include <arpa/inet.h>
#include <curl/curl.h>
#include <strings.h>

#include "webhook/address.h"

static bool has_blank_or_control(const char *text) {
  for (; *text != '\0'; text++)
    if ((unsigned char)*text <= ' ' || *text == 0x7f) return true;
  return false;
}

/* curl writes an IPv4 host in any of its notations (0x7f.1, 2130706433) as four numbers, and an IPv6 one in brackets. */
static bool is_private_literal(const char *host) {
  struct sockaddr_in v4 = {.sin_family = AF_INET};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
  char bare[INET6_ADDRSTRLEN];
  size_t len = strlen(host);
  if (inet_pton(AF_INET, host, &v4.sin_addr) == 1) return !address_is_public((const struct sockaddr *)&v4);
  if (host[0] != '[' || len - 2 >= sizeof bare) return false;
  memcpy(bare, host + 1, len - 2);
  bare[len - 2] = '\0';
  return inet_pton(AF_INET6, bare, &v6.sin6_addr) == 1 && !address_is_public((const struct sockaddr *)&v6);
}

static bool has_part(CURLU *parsed, CURLUPart part) {
  char *text = NULL;
  bool there = curl_url_get(parsed, part, &text, 0) == CURLUE_OK;
  curl_free(text);
  return there;
}

static const char *find_fault(CURLU *parsed, bool allow_private) {
  char *scheme = NULL, *host = NULL;
  const char *why = NULL;
  if (curl_url_get(parsed, CURLUPART_SCHEME, &scheme, 0) != CURLUE_OK ||
      curl_url_get(parsed, CURLUPART_HOST, &host, 0) != CURLUE_OK)
    why = "it has no scheme or no host";
  else if (strcasecmp(scheme, "http") != 0 && strcasecmp(scheme, "https") != 0)
    why = "only http and https are";
  else if (has_part(parsed, CURLUPART_USER) || has_part(parsed, CURLUPART_PASSWORD))
    why = "a user or password in it is not: every delivery is signed";
  else if (has_part(parsed, CURLUPART_FRAGMENT))
    why = "a fragment (#…) is not";
  else if (!allow_private && is_private_literal(host))
    why = "an address that is not public needs webhook-allow-private = yes";
  curl_free(scheme);
  curl_free(host);
  return why;
}

enum status webhook_url_check(const char *url, bool allow_private, const char **why) {
  *why = NULL;
  if (strlen(url) > WEBHOOK_URL_MAX)
    *why = "at most 2048 bytes are";
  else if (has_blank_or_control(url))
    *why = "blanks and control characters are not";
  if (*why != NULL) return STATUS_INVALID;
  CURLU *parsed = curl_url();
  if (parsed == NULL) return STATUS_NO_MEMORY;
  *why =
      curl_url_set(parsed, CURLUPART_URL, url, 0) == CURLUE_OK ? find_fault(parsed, allow_private) : "it is no http or https URL";
  curl_url_cleanup(parsed);
  return *why == NULL ? STATUS_OK : STATUS_INVALID;
}
