/* receiver.h: a receiver of webhooks that answers as the test likes and keeps what came. It checks each delivery's headers,
 * signature and body; what is wrong fails the test at receiver_stop, or in the call that looks. */
#ifndef PRESENCE_TEST_RECEIVER_H
#define PRESENCE_TEST_RECEIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "support/postgres_server.h"

struct receiver;

/* How it answers. Zeroed: 204 to everything. */
struct receiver_manner {
  int status;      /* 0: 204 */
  int fail_one_in; /* so many fail at random: 500, 503, 429 with Retry-After: 0, an answer cut off, a closed connection; 0: none
                    */
  bool hang;       /* no answer until another manner is set */
  bool drop;       /* the connection is closed without an answer */
  size_t body;     /* bytes of the answer's body */
  size_t header_bytes;        /* bytes of a header X-Long in each answer */
  const char *header, *value; /* one more */
  const char *only;           /* a path: others get 204; NULL: all */
};

/* certificate, key: paths of PEM files; NULL: plain HTTP. */
struct receiver *receiver_start(const char *certificate, const char *key);
void receiver_stop(struct receiver *receiver); /* NULL is fine */
void receiver_set(struct receiver *receiver, const struct receiver_manner *manner);
/* The secret that deliveries to a path are signed with: "whsec_…". Before any comes. */
void receiver_secret(struct receiver *receiver, const char *path, const char *secret);
int receiver_port(const struct receiver *receiver);
const char *receiver_url(const struct receiver *receiver, const char *path); /* by the address 127.0.0.1 */

/* How many came to a path, or were accepted there (each event once). */
size_t receiver_came(struct receiver *receiver, const char *path);
size_t receiver_accepted(struct receiver *receiver, const char *path);
/* The seqs that came to a path, as they came: "1 2 2 3"; a "!" follows one that was not accepted. */
const char *receiver_story(struct receiver *receiver, const char *path);

/* Exactly the tenant's events with these seqs and types have been accepted at the path, each at least once, and none was sent
 * before the one before it, of the same device, was accepted. types: as in SQL, "'presence.device.offline'"; NULL: all. */
void receiver_check(struct receiver *receiver, const char *path, struct database *database, const char *tenant, int64_t after,
                    const char *types);

#endif
