/* target.h: where Redis is and how to speak to it: the parsed URL and what all connections share. Private to service/redis. */
#ifndef PRESENCE_REDIS_TARGET_H
#define PRESENCE_REDIS_TARGET_H

#include "script.h"

struct tls;
/* Immutable once made; counted, since a thread that is still connecting may outlive its link. */
struct redis_target {
  char *env;
  uint32_t partitions;
  enum config_redis_mode mode;

  char *host; /* NULL: path */
  char *path; /* of a Unix socket */
  int port;
  int database;
  char *user;      /* NULL: the default user */
  char *password;  /* NULL: none; never logged */
  char *address;   /* for people: "127.0.0.1:6379/0", without user and password */
  struct tls *tls; /* NULL: plain */

  struct script_library scripts;
  _Atomic unsigned references;
};

/* Fills host, path, port, database, user, password, address. *tls: the URL asks for TLS. *error as redis_target_new's. */
enum status target_parse_url(struct redis_target *target, const char *url, bool *tls, char **error) MUST_CHECK;

/* redis_target_free gives a reference back. */
struct redis_target *target_retain(const struct redis_target *target);

#endif
