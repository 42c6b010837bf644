#include "webhook/address.h"

#include <arpa/inet.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

struct prefix {
  uint8_t bytes[16];
  unsigned bits;
};

static const struct prefix special_v4[] = {
    {{0}, 8},             /* this network */
    {{10}, 8},            /* private: RFC 1918 */
    {{100, 64}, 10},      /* carrier-grade NAT: RFC 6598 */
    {{127}, 8},           /* loopback */
    {{169, 254}, 16},     /* link-local, where clouds have their metadata: RFC 3927 */
    {{172, 16}, 12},      /* private */
    {{192, 0, 0}, 24},    /* protocol assignments: RFC 6890 */
    {{192, 0, 2}, 24},    /* documentation: RFC 5737 */
    {{192, 88, 99}, 24},  /* 6to4 relays: RFC 7526 */
    {{192, 168}, 16},     /* private */
    {{198, 18}, 15},      /* benchmarks: RFC 2544 */
    {{198, 51, 100}, 24}, /* documentation */
    {{203, 0, 113}, 24},  /* documentation */
    {{224}, 4},           /* multicast */
    {{240}, 4},           /* reserved, and the broadcast address */
};

/* Of global unicast addresses, 2000::/3. Everything outside that is special: loopback, unspecified, unique local (fc00::/7),
 * link-local, site-local, multicast, discard-only, IPv4-compatible … */
static const struct prefix global_v6 = {{0x20}, 3};
static const struct prefix special_v6[] = {
    {{0x20, 0x01}, 23},             /* protocol assignments, Teredo among them: RFC 2928, RFC 4380 */
    {{0x20, 0x01, 0x0d, 0xb8}, 32}, /* documentation: RFC 3849 */
    {{0x20, 0x02}, 16},             /* 6to4, which embeds any IPv4 address: RFC 3056 */
    {{0x3f, 0xff}, 20},             /* documentation: RFC 9637 */
};
static const struct prefix mapped_v4 = {{[10] = 0xff, 0xff}, 96};  /* RFC 4291 section 2.5.5.2 */
static const struct prefix nat64 = {{0x00, 0x64, 0xff, 0x9b}, 96}; /* RFC 6052 section 2.1 */

static bool is_in(const uint8_t *address, const struct prefix *prefix) {
  unsigned bytes = prefix->bits / 8;
  unsigned rest = prefix->bits % 8;
  if (memcmp(address, prefix->bytes, bytes) != 0) return false;
  return rest == 0 || (address[bytes] ^ prefix->bytes[bytes]) >> (8 - rest) == 0;
}

static bool is_in_any(const uint8_t *address, const struct prefix *prefixes, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (is_in(address, &prefixes[i])) return true;
  return false;
}

static bool is_public_v4(const uint8_t address[4]) {
  return !is_in_any(address, special_v4, sizeof special_v4 / sizeof special_v4[0]);
}

static bool is_public_v6(const uint8_t address[16]) {
  if (is_in(address, &mapped_v4) || is_in(address, &nat64)) return is_public_v4(address + 12);
  return is_in(address, &global_v6) && !is_in_any(address, special_v6, sizeof special_v6 / sizeof special_v6[0]);
}

bool address_is_public(const struct sockaddr *address) {
  switch (address->sa_family) {
  case AF_INET: {
    struct sockaddr_in v4;
    memcpy(&v4, address, sizeof v4);
    uint8_t bytes[4];
    memcpy(bytes, &v4.sin_addr, sizeof bytes);
    return is_public_v4(bytes);
  }
  case AF_INET6: {
    struct sockaddr_in6 v6;
    memcpy(&v6, address, sizeof v6);
    return is_public_v6(v6.sin6_addr.s6_addr);
  }
  default: return false;
  }
}

void address_text(const struct sockaddr *address, char text[ADDRESS_TEXT_MAX]) {
  const void *bytes = NULL;
  struct sockaddr_in v4;
  struct sockaddr_in6 v6;
  if (address->sa_family == AF_INET) {
    memcpy(&v4, address, sizeof v4);
    bytes = &v4.sin_addr;
  } else if (address->sa_family == AF_INET6) {
    memcpy(&v6, address, sizeof v6);
    bytes = &v6.sin6_addr;
  }
  if (bytes == NULL || inet_ntop(address->sa_family, bytes, text, ADDRESS_TEXT_MAX) == NULL)
    (void)snprintf(text, ADDRESS_TEXT_MAX, "address family %d", (int)address->sa_family);
}
