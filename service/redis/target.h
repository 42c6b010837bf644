/* target.h: where Redis is and how to speak to it: the parsed URL and what all connections share. Private to service/redis. */
#ifndef PRESENCE_REDIS_TARGET_H
#define PRESENCE_REDIS_TARGET_H

#include "address.h"
#include "script.h"

struct tls;

/* What the addresses of the URL lead to; map.h makes a map of it. */
enum target_kind {
  TARGET_SERVER,   /* the one server */
  TARGET_SENTINEL, /* Sentinels, which know the primary of that name */
  TARGET_CLUSTER,  /* some nodes of a cluster, which know all */
};

#define TARGET_ADDRESSES_MAX 32

/* Immutable once made; counted, since a thread that is still connecting may outlive its link. */
struct redis_target {
  char *env;
  uint32_t partitions;
  enum config_redis_mode mode;

  enum target_kind kind;
  struct address *addresses;
  size_t address_count;
  char *master_name; /* NULL but for TARGET_SENTINEL */
  int database;
  char *user;      /* NULL: the default user */
  char *password;  /* NULL: none; never logged */
  struct tls *tls; /* NULL: plain */

  struct script_library scripts;
  _Atomic unsigned references;
};

/* Fills kind, addresses, master_name, database, user, password. *tls: the URL asks for TLS. *error as redis_target_new's. */
enum status target_parse_url(struct redis_target *target, const char *url, bool *tls, char **error) MUST_CHECK;
/* Frees what target_parse_url filled, whether it succeeded or not. */
void target_clear_url(struct redis_target *target);

/* redis_target_free gives a reference back. */
struct redis_target *target_retain(const struct redis_target *target);

#endif
