/* node.h: a link's connection to one server, with the calls that wait for its answers. Private to service/redis.
 *
 *   idle --node_connect--> connecting --> open --lost--> waiting to try again --> connecting ...
 *
 * A pending call keeps its bytes until it is answered, so that it can be sent again after NOSCRIPT. Where the connection breaks,
 * or the oldest call waits longer than the time-out, the connection is closed and all that is pending is answered STATUS_CLOSED.
 */
#ifndef PRESENCE_REDIS_NODE_H
#define PRESENCE_REDIS_NODE_H

#include "backoff.h"
#include "connector.h"
#include "log.h"
#include "metrics.h"

struct pending {
  struct pending *next;
  redis_reply_fn *fn; /* NULL: a SCRIPT LOAD of the link's own */
  void *context;
  uint32_t partition;
  enum script script;
  unsigned sends;
  int64_t sent_us;
  struct buf command; /* keeps its memory while the pending is spare */
};

struct queue {
  struct pending *head, *tail;
};

/* One server of the map. */
struct node {
  struct redis_link *link;
  struct redis_map *map;       /* the link's, or while it goes the one before */
  size_t server;               /* in the map */
  struct wire wire;            /* open: ready for calls */
  struct connector *connector; /* an attempt under way, or NULL */
  struct loop_watch watch;
  struct loop_timer retry;   /* armed: neither open nor connecting */
  struct loop_timer overdue; /* armed: something is pending */
  struct backoff backoff;
  struct queue pending;
  size_t pending_count;
  bool unsent;
};

struct redis_link {
  struct redis_target *target;
  struct loop *loop;
  int64_t call_timeout_us;
  struct redis_map *map; /* NULL: not known yet, there are no nodes */
  struct node **nodes;   /* by server of the map */
  struct node **node_of; /* by partition; NULL: nobody has it */
  struct pending *spare;
  size_t *outstanding; /* per partition */
  void (*changed)(void *context);
  void *changed_context;
  struct log_limit connect_log, error_log, look_log;
  struct metric_series *up;

  struct connector *look;       /* for a new map, under way; NULL: none */
  struct loop_timer look_again; /* armed: a look is wanted; never for a target that is one server */
  struct backoff look_backoff;
  int64_t looked_us; /* when the last look ended; 0: never */
  int look_first;    /* of the map: who knows better */
  unsigned looks;
};

struct node *node_new(struct redis_link *link, const struct redis_map *map, size_t server); /* NULL: no memory */
void node_free(struct node *node); /* answers what is pending; NULL is fine */
/* The same server, in another map. */
void node_move(struct node *node, const struct redis_map *map, size_t server);
void node_connect(struct node *node);
/* Neither connected, nor on the way to be. */
bool node_is_idle(const struct node *node);
const char *node_address(const struct node *node); /* for people */
/* As redis_link_send; on an open node. */
enum status node_send(struct node *node, uint32_t partition, const struct redis_call *call, redis_reply_fn *fn,
                      void *context) MUST_CHECK;
void node_write(struct node *node); /* all that is unsent */

/* ---- What a node tells its link */
/* The map may be old. first: a server of it that knows better; MAP_NOBODY: any may. */
void link_want_look(struct redis_link *link, int first);
/* A node came up or went down. */
void link_changed(struct redis_link *link);

#endif
