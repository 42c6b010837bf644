/* address.h: is an address one of the public internet? Who may name a URL must not reach what only this machine or its network
 * reaches. Any thread. */
#ifndef PRESENCE_WEBHOOK_ADDRESS_H
#define PRESENCE_WEBHOOK_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

/* By the IANA registries of special-purpose addresses (RFC 6890; https://www.iana.org/assignments/iana-ipv4-special-registry and
 * …/iana-ipv6-special-registry). What embeds an IPv4 address that would be reached (mapped, NAT64) is judged by that one. False
 * for every other family. A network's own NAT64 prefix cannot be known here. */
bool address_is_public(const struct sockaddr *address);

/* The address as text, for messages. */
#define ADDRESS_TEXT_MAX 64
void address_text(const struct sockaddr *address, char text[ADDRESS_TEXT_MAX]);

#endif
