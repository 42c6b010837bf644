/* redis_side.h: presencectl's way to Redis. The partitions are those recorded in PostgreSQL, not the option's, where they are
 * known: a tool started without the service's environment must not look in the wrong places. */
#ifndef PRESENCE_CLI_REDIS_SIDE_H
#define PRESENCE_CLI_REDIS_SIDE_H

#include "cli.h"
#include "redis_round.h"
#include "store.h"

struct redis_side {
  struct redis_target *target;
  struct redis_conn *conn;
  struct redis_round round; /* room for a call to each partition */
  uint32_t partitions;
};

/* Does not connect yet. Says what is wrong. redis_side_close in any case. */
enum cli_exit redis_side_open(struct cli *cli, struct redis_side *side) MUST_CHECK;
void redis_side_close(struct redis_side *side);

/* One line about a call that did not work. */
enum cli_exit redis_side_fail(const struct redis_side *side, enum status status);

/* Sends an encoder's call to every partition; replies are in side->round, by partition. */
typedef enum status redis_side_encode(struct redis_call *call, const struct redis_target *target, uint32_t partition);
enum status redis_side_ask_all(struct redis_side *side, redis_side_encode *encode) MUST_CHECK;

#endif
