/* What a webhook is signed with, where it may go, and how often it is tried. */
#include "support/unit.h"

#include <arpa/inet.h>
#include <stdio.h>

#include "webhook/address.h"
#include "webhook/health.h"
#include "webhook/signature.h"
#include "webhook/url.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* ---- signature */

/* The example that the libraries of Standard Webhooks test themselves with. */
static void test_the_known_signature(void **state) {
  (void)state;
  /* whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw */
  static const unsigned char key[] = {0x31, 0xf2, 0x90, 0xf6, 0xbf, 0x06, 0x29, 0x8a, 0xab, 0x4f, 0x08, 0xd4,
                                      0x3c, 0x3f, 0x08, 0x2c, 0xf6, 0x48, 0xa3, 0x62, 0xda, 0x2d, 0xa4, 0xb0};
  char text[WEBHOOK_SIGNATURE_TEXT_MAX];
  struct buf scratch = {0};
  struct str secret = {(const char *)key, sizeof key};
  for (int i = 0; i < 2; i++) /* the buffer is used again */
    assert_status(STATUS_OK, webhook_sign(secret, STR_LIT("msg_p5jXN8AQM9LWM0D4loKWxJek"), 1614265330,
                                          STR_LIT("{\"test\": 2432232314}"), &scratch, text));
  assert_string_equal(text, "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
  buf_free(&scratch);
}

static void test_the_secret_as_text(void **state) {
  (void)state;
  uint8_t key[WEBHOOK_KEY_BYTES];
  char text[WEBHOOK_SECRET_TEXT_MAX];
  for (size_t i = 0; i < sizeof key; i++) key[i] = (uint8_t)(i * 8);
  webhook_secret_encode(key, text);
  assert_string_equal(text, "whsec_AAgQGCAoMDhASFBYYGhweICIkJigqLC4wMjQ2ODo8Pg=");
}

/* ---- addresses */

static bool is_public(const char *text) {
  struct sockaddr_in v4 = {.sin_family = AF_INET};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6};
  if (inet_pton(AF_INET, text, &v4.sin_addr) == 1) return address_is_public((const struct sockaddr *)&v4);
  if (inet_pton(AF_INET6, text, &v6.sin6_addr) != 1) fail_msg("%s is no address", text);
  return address_is_public((const struct sockaddr *)&v6);
}

static void test_addresses(void **state) {
  (void)state;
  static const char *const public[] = {"1.1.1.1",         "9.255.255.255",   "11.0.0.0",
                                       "100.63.255.255",  "100.128.0.0",     "126.255.255.255",
                                       "128.0.0.1",       "169.253.255.255", "169.255.0.0",
                                       "172.15.255.255",  "172.32.0.0",      "192.0.1.0",
                                       "192.167.255.255", "192.169.0.0",     "198.17.255.255",
                                       "198.20.0.0",      "203.0.112.1",     "223.255.255.255",
                                       "2000::1",         "2001:200::1",     "2606:4700:4700::1111",
                                       "2003::1",         "3ffe::1",         "::ffff:8.8.8.8",
                                       "64:ff9b::808:808"};
  static const char *const special[] = {"0.0.0.0",
                                        "0.1.2.3",
                                        "10.0.0.0",
                                        "10.255.255.255",
                                        "100.64.0.0",
                                        "100.127.255.255",
                                        "127.0.0.1",
                                        "127.255.255.255",
                                        "169.254.0.0",
                                        "169.254.169.254",
                                        "172.16.0.0",
                                        "172.31.255.255",
                                        "192.0.0.1",
                                        "192.0.2.1",
                                        "192.88.99.1",
                                        "192.168.0.0",
                                        "192.168.255.255",
                                        "198.18.0.0",
                                        "198.19.255.255",
                                        "198.51.100.7",
                                        "203.0.113.9",
                                        "224.0.0.1",
                                        "239.255.255.255",
                                        "240.0.0.1",
                                        "255.255.255.255",
                                        "::",
                                        "::1",
                                        "::7f00:1",
                                        "::ffff:127.0.0.1",
                                        "::ffff:10.1.2.3",
                                        "::ffff:169.254.169.254",
                                        "64:ff9b::7f00:1",
                                        "64:ff9b::a00:1",
                                        "64:ff9b::c0a8:101",
                                        "64:ff9b:1::1",
                                        "100::1",
                                        "2001::1",
                                        "2001:1ff::1",
                                        "2001:db8::1",
                                        "2002:7f00:1::",
                                        "2002:808:808::1",
                                        "3fff::1",
                                        "3fff:fff::1",
                                        "4000::1",
                                        "5f00::1",
                                        "fc00::1",
                                        "fd12:3456::1",
                                        "fe80::1",
                                        "fec0::1",
                                        "ff02::1"};
  for (size_t i = 0; i < LENGTH(public); i++)
    if (!is_public(public[i])) fail_msg("%s is public", public[i]);
  for (size_t i = 0; i < LENGTH(special); i++)
    if (is_public(special[i])) fail_msg("%s is not public", special[i]);
  assert_false(address_is_public(&(struct sockaddr){.sa_family = AF_UNIX}));
  assert_false(address_is_public(&(struct sockaddr){.sa_family = AF_UNSPEC}));
}

static void test_an_address_as_text(void **state) {
  (void)state;
  char text[ADDRESS_TEXT_MAX];
  struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(0x7f000001)};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
  address_text((const struct sockaddr *)&v4, text);
  assert_string_equal(text, "127.0.0.1");
  address_text((const struct sockaddr *)&v6, text);
  assert_string_equal(text, "::1");
  address_text(&(struct sockaddr){.sa_family = AF_UNIX}, text);
  assert_string_equal(text, "address family 1");
}

/* ---- URLs */

static void test_urls(void **state) {
  (void)state;
  static const char *const allowed[] = {
      "https://example.com/hook", "http://example.com:8080/a?b=c",         "HTTPS://example.com",
      "https://1.1.1.1/x",        "https://[2606:4700:4700::1111]:8443/x", "http://localhost/"};
  static const char *const refused[] = {"",
                                        "example.com/hook",
                                        "ftp://example.com/",
                                        "file:///etc/passwd",
                                        "gopher://example.com/",
                                        "https://user:pass@example.com/",
                                        "https://user@example.com/",
                                        "https://example.com/#x",
                                        "https://",
                                        "https://example.com/a b",
                                        "https://example.com/\n",
                                        "https://example.com:99999/"};
  static const char *const only_private[] = {
      "http://127.0.0.1/",     "http://127.1/",    "http://0x7f000001/",        "http://2130706433/",
      "http://017700000001/",  "http://[::1]:80/", "http://[::ffff:10.0.0.1]/", "http://169.254.169.254/latest/meta-data",
      "http://10.0.0.8:9200/", "http://[fd00::1]/"};
  const char *why;
  for (size_t i = 0; i < LENGTH(allowed); i++)
    if (webhook_url_check(allowed[i], false, &why) != STATUS_OK) fail_msg("%s: %s", allowed[i], why);
  for (size_t i = 0; i < LENGTH(refused); i++) {
    if (webhook_url_check(refused[i], true, &why) != STATUS_INVALID) fail_msg("%s was not refused", refused[i]);
    assert_non_null(why);
  }
  for (size_t i = 0; i < LENGTH(only_private); i++) {
    if (webhook_url_check(only_private[i], false, &why) != STATUS_INVALID) fail_msg("%s was not refused", only_private[i]);
    if (webhook_url_check(only_private[i], true, &why) != STATUS_OK) fail_msg("%s: %s", only_private[i], why);
  }
  char longest[WEBHOOK_URL_MAX + 2];
  memset(longest, 'a', sizeof longest);
  memcpy(longest, "https://example.com/", 20);
  longest[WEBHOOK_URL_MAX] = '\0';
  assert_status(STATUS_OK, webhook_url_check(longest, false, &why));
  longest[WEBHOOK_URL_MAX] = 'a';
  longest[WEBHOOK_URL_MAX + 1] = '\0';
  assert_status(STATUS_INVALID, webhook_url_check(longest, false, &why));
}

/* ---- health */

static uint32_t dice; /* what the jitter throws: UINT32_MAX is the longest wait */
static uint32_t throw_dice(void *context) {
  (void)context;
  return dice;
}
static const struct jitter jitter = {.next = throw_dice};
static const struct health_limits limits = {.retry_min_ms = 1000, .retry_max_ms = 60000, .pause_after_ms = 3600000};
static const int64_t second_us = 1000000;

static void test_the_backoff_doubles_up_to_its_limit(void **state) {
  (void)state;
  static const int64_t longest_ms[] = {1000, 2000, 4000, 8000, 16000, 32000, 60000, 60000};
  for (int64_t n = 1; n <= (int64_t)LENGTH(longest_ms); n++) {
    dice = UINT32_MAX;
    assert_int_equal(health_backoff_ms(&limits, &jitter, n), longest_ms[n - 1]);
    dice = UINT32_MAX / 2 + 1; /* half of what it can be */
    assert_int_equal(health_backoff_ms(&limits, &jitter, n), (longest_ms[n - 1] + 1) / 2);
    dice = 0;
    assert_int_equal(health_backoff_ms(&limits, &jitter, n), 0);
  }
  dice = UINT32_MAX;
  assert_int_equal(health_backoff_ms(&limits, &jitter, INT64_MAX), 60000);
  const struct health_limits crossed = {.retry_min_ms = 5000, .retry_max_ms = 100};
  assert_int_equal(health_backoff_ms(&crossed, &jitter, 1), 100);
}

static void fail_once(struct health *health, int64_t retry_after_ms, int64_t now_us) {
  health_failure(health, &limits, &jitter, retry_after_ms, now_us);
}

static void test_success_allows_more_at_once_and_failure_less(void **state) {
  (void)state;
  struct health health = health_begin(0, 0, 0);
  assert_true(health_may_send(&health, 0, 0));
  assert_false(health_may_send(&health, 1, 0));
  for (int i = 0; i < 20; i++) health_success(&health);
  assert_true(health_may_send(&health, HEALTH_CONCURRENCY_MAX - 1, 0));
  assert_false(health_may_send(&health, HEALTH_CONCURRENCY_MAX, 0));
  fail_once(&health, 0, 0); /* one of many: the others go on */
  assert_true(health_may_send(&health, HEALTH_CONCURRENCY_MAX / 2 - 1, 0));
  assert_false(health_may_send(&health, HEALTH_CONCURRENCY_MAX / 2, 0));
}

static void test_a_dead_endpoint_is_asked_now_and_then(void **state) {
  (void)state;
  struct health health = health_begin(0, 0, 0);
  dice = UINT32_MAX;
  fail_once(&health, 0, 0);
  assert_false(health_may_send(&health, 0, second_us - 1));
  assert_true(health_may_send(&health, 0, second_us));
  for (int64_t i = 0; i < 10; i++) fail_once(&health, 0, 0);
  assert_int_equal(health.attempts, 11);
  assert_false(health_may_send(&health, 0, 60 * second_us - 1));
  assert_true(health_may_send(&health, 0, 60 * second_us));
  health_success(&health);
  assert_true(health_may_send(&health, 1, 0));
}

static void test_retry_after_is_honoured_within_bounds(void **state) {
  (void)state;
  struct health health = health_begin(0, 0, 0);
  dice = 0;
  for (int i = 0; i < 8; i++) health_success(&health);
  fail_once(&health, 30000, 0);
  assert_false(health_may_send(&health, 0, 30 * second_us - 1));
  assert_true(health_may_send(&health, 0, 30 * second_us));
  fail_once(&health, INT64_MAX, 0);
  assert_false(health_may_send(&health, 0, HEALTH_RETRY_AFTER_MAX_MS * 1000 - 1));
  assert_true(health_may_send(&health, 0, HEALTH_RETRY_AFTER_MAX_MS * 1000));
}

static void test_it_is_lost_after_failing_all_the_time(void **state) {
  (void)state;
  struct health health = health_begin(0, 0, 0);
  fail_once(&health, 0, 7 * second_us);
  fail_once(&health, 0, 9 * second_us);
  assert_false(health_is_lost(&health, &limits, 3607 * second_us - 1));
  assert_true(health_is_lost(&health, &limits, 3607 * second_us));
  health_success(&health);
  assert_false(health_is_lost(&health, &limits, 9999 * second_us));
  fail_once(&health, 0, 9999 * second_us);
  assert_false(health_is_lost(&health, &limits, 10000 * second_us));
  /* What another worker saved counts. */
  health = health_begin(5, 3599000, 100 * second_us);
  assert_false(health_is_lost(&health, &limits, 101 * second_us - 1));
  assert_true(health_is_lost(&health, &limits, 101 * second_us));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_the_known_signature),
      cmocka_unit_test(test_the_secret_as_text),
      cmocka_unit_test(test_addresses),
      cmocka_unit_test(test_an_address_as_text),
      cmocka_unit_test(test_urls),
      cmocka_unit_test(test_the_backoff_doubles_up_to_its_limit),
      cmocka_unit_test(test_success_allows_more_at_once_and_failure_less),
      cmocka_unit_test(test_a_dead_endpoint_is_asked_now_and_then),
      cmocka_unit_test(test_retry_after_is_honoured_within_bounds),
      cmocka_unit_test(test_it_is_lost_after_failing_all_the_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
