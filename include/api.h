/* api.h: one API loop: a thread with its event loop, HTTP server, Redis connections and batcher. No lock between loops. */
#ifndef PRESENCE_API_H
#define PRESENCE_API_H

#include "batcher.h"
#include "directory.h"
#include "events.h"
#include "pg_pool.h"

struct http_server;
struct rate_limiter;
struct worker;

/* What all loops share; owned by app.c, outlives them. */
struct api_shared {
  const struct config *config;
  const struct clock *clock;
  const struct redis_target *target;
  struct directory *directory;
  struct pg_pool *pool;
  struct event_tailer *tailer; /* NULL in a process without the role api */
  struct rate_limiter *rate_limiter;
  struct worker *worker;   /* NULL without the role: for readyz */
  const char *redis_loses; /* what Redis as it was at the start does not keep, in static words; NULL: nothing. For readyz */
  bool serve_api;          /* false: healthz, readyz and metrics only */
};

/* Handlers reach everything from here. */
struct api_loop {
  const struct api_shared *shared;
  struct loop *loop;
  struct redis_link *link; /* NULL in a process without the role api, as batcher and feed */
  struct batcher *batcher;
  struct event_feed *feed;
  struct http_server *server;
  unsigned index;
  bool draining; /* asked to stop: readyz says no */
};

struct api;
/* Opens the listening socket(s), makes config.threads loops. *error: one clear line (port in use, bad address), malloc'd. */
enum status api_new(const struct api_shared *shared, struct api **api, char **error) MUST_CHECK;
/* Logs the `listening` line with the real port. After a failure some threads may run: api_stop ends them. */
enum status api_start(struct api *api) MUST_CHECK;
/* readyz says no for drain_ms, then within limit_ms: stop accepting, answer what is in flight, unlisten, join; after half of it
 * connections are cut. STATUS_TIMEOUT: a handler still waits for a server; nothing that loops use may be freed. */
enum status api_stop(struct api *api, int64_t drain_ms, int64_t limit_ms) MUST_CHECK;
void api_free(struct api *api);

#endif
