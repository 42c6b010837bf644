/* sim_connection.h: a keep-alive connection to the service on a loop, with one request under way at a time. It connects again by
 * itself, with a growing pause, for as long as it is open. The loop's thread only. */
#ifndef PRESENCE_SIM_CONNECTION_H
#define PRESENCE_SIM_CONNECTION_H

#include <sys/socket.h>

#include "loop.h"
#include "sim_http.h"

struct sim_target {
  struct sockaddr_storage address;
  socklen_t address_len;
};
/* Looks the host up (blocks). *error is one clear line (malloc'd, the caller frees), NULL where memory is short. */
enum status sim_target_resolve(const struct sim_url *url, struct sim_target *target, char **error) MUST_CHECK;

struct sim_connection;

/* The reason where the server has closed a connection that waited for its next request, as servers may. */
#define SIM_IDLE_CLOSED "idle"

/* What the owner is told. */
struct sim_events {
  void (*ready)(struct sim_connection *connection); /* connected: requests can be sent */
  /* The answer is valid until it returns, or sends, or closes. Where answer->close is set, ready follows before the next send. */
  void (*answered)(struct sim_connection *connection, const struct sim_answer *answer);
  /* The connection broke or could not be made. lost: a request was under way, whose effect is unknown. */
  /* reason: one word, static text. */
  void (*failed)(struct sim_connection *connection, const char *reason, bool lost); /* ready follows some time */
};

struct sim_connection {
  /* The owner's, set before sim_connection_open. */
  struct loop *loop;
  const struct sim_target *target;
  const struct sim_events *events;
  void *context;
  /* Its own. */
  enum { SIM_CLOSED, SIM_CONNECTING, SIM_IDLE, SIM_BUSY } state;
  struct loop_watch watch;
  struct loop_timer retry;
  int64_t retry_delay_us;
  int64_t sent_us;    /* when the request under way was handed over, on the loop's clock; when busy */
  struct str request; /* what of it is not yet written; borrowed from the owner until answered or failed */
  struct buf received;
};

void sim_connection_open(struct sim_connection *connection);  /* starts to connect; events follow from the loop */
void sim_connection_close(struct sim_connection *connection); /* no events any more; may be opened again */

/* Only while state is SIM_IDLE. now_us is the loop's clock, read anew. Never calls an event. */
void sim_connection_send(struct sim_connection *connection, struct str request, int64_t now_us);
/* Breaks it where a request or the connecting has taken longer than limit_us. */
void sim_connection_check(struct sim_connection *connection, int64_t now_us, int64_t limit_us);

#endif
