/* redis.h: roads to Redis. redis_call is what travels; redis_link carries it for an event loop (never blocks), redis_conn for a
 * worker or a tool (blocks, with limits). Both look connections up by partition: one server, the primary that Sentinels name, or
 * the nodes of a cluster. They know which server (run_id) and dialect they speak to, load the scripts, and find the partition's
 * server anew when it is lost or has moved. The process ignores SIGPIPE. */
#ifndef PRESENCE_REDIS_H
#define PRESENCE_REDIS_H

#include <hiredis/hiredis.h>

#include "config.h"
#include "loop.h"

/* The server's dialect, found by asking it (COMMAND INFO, then a trial), never by its version text. */
enum redis_dialect { REDIS_NATIVE, REDIS_HPEXPIRE, REDIS_COMPAT };
const char *redis_dialect_name(enum redis_dialect dialect);

#define REDIS_RUN_ID_LEN 40

/* One script call or one plain command, encoded as it goes on the wire. Reusable: redis_call_reset keeps the memory.
 * Its script's ARGV[1] is always the server's run_id, put in by the road that sends it, unless the call fixes one itself. */
struct redis_call;
enum status redis_call_new(struct redis_call **call) MUST_CHECK;
void redis_call_free(struct redis_call *call);

/* Where and how; shared by all connections; copied from config at start; immutable. */
struct redis_target;
enum status redis_target_new(const struct config *config, struct redis_target **target, char **error) MUST_CHECK;
void redis_target_free(struct redis_target *target);
struct str redis_target_env(const struct redis_target *target);
uint32_t redis_target_partitions(const struct redis_target *target);

/* ---- For event loops */
struct redis_link; /* all of one loop's connections; one per loop; the loop's thread only */
/* reply is NULL unless status is STATUS_OK; it is freed after the callback. Called exactly once per call that was taken:
 *   STATUS_CLOSED       the connection broke (or the call timed out) after sending: the effect is unknown
 *   STATUS_INITIALISING the server is not adopted (the script said so)
 *   STATUS_UNAVAILABLE  the server refuses at present (out of memory, cannot persist, a slot that moves); nothing was done;
 * logged STATUS_PROTOCOL     an error reply that should not be; logged */
typedef void redis_reply_fn(void *context, enum status status, const redisReply *reply);
enum status redis_link_new(const struct redis_target *target, struct loop *loop, int64_t call_timeout_ms,
                           struct redis_link **link) MUST_CHECK; /* connects in the background, again and again with back-off */
void redis_link_free(struct redis_link *link);                   /* answers what is outstanding with STATUS_CLOSED first */
/* Takes the encoded bytes (the call may be reused at once). Any other status than STATUS_OK (STATUS_UNAVAILABLE, STATUS_FULL):
 * nothing was sent, fn is not called. A call that meets NOSCRIPT is sent again after the script is loaded, without the caller
 * noticing. */
enum status redis_link_send(struct redis_link *link, uint32_t partition, const struct redis_call *call, redis_reply_fn *fn,
                            void *context) MUST_CHECK;
void redis_link_flush(struct redis_link *link); /* one write per connection for all sent since; call after each pass */
bool redis_link_ready(const struct redis_link *link, uint32_t partition);
const char *redis_link_server(const struct redis_link *link, uint32_t partition); /* its address; NULL: not known (now) */
/* The same as a number below partitions, for as long as the map stays; 0: not known (now). */
uint32_t redis_link_server_number(const struct redis_link *link, uint32_t partition);
size_t redis_link_outstanding(const struct redis_link *link, uint32_t partition);
/* Tells when a partition's connection came up or went down (for marks, readiness). One listener. */
void redis_link_on_change(struct redis_link *link, void (*changed)(void *context), void *context);

/* ---- For workers and tools: one thread */
struct redis_conn; /* connections of one thread, one per node */
enum status redis_conn_new(const struct redis_target *target, const struct clock *clock, int64_t call_timeout_ms,
                           struct redis_conn **conn) MUST_CHECK;
void redis_conn_free(struct redis_conn *conn);
/* Connects if needed (back-off makes repeated tries cheap: STATUS_UNAVAILABLE at once until the next is due). Statuses as for
 * redis_reply_fn.
 * *reply is the caller's to free (freeReplyObject) when STATUS_OK. */
enum status redis_conn_call(struct redis_conn *conn, uint32_t partition, const struct redis_call *call,
                            redisReply **reply) MUST_CHECK;
/* Several calls in one go: statuses[i], replies[i] answer calls[i]. */
void redis_conn_pipeline(struct redis_conn *conn, const uint32_t *partitions, struct redis_call *const *calls, size_t count,
                         enum status *statuses, redisReply **replies);
/* The address of the server that has a partition; NULL: not known (now). Valid until the next call on the conn. May block to find
 * out, as redis_conn_call does. */
const char *redis_conn_server(struct redis_conn *conn, uint32_t partition);
/* Is it the first partition of its server? What is done once per server is done by these. */
bool redis_conn_leads(struct redis_conn *conn, uint32_t partition);
bool redis_conn_same_server(struct redis_conn *conn, uint32_t a, uint32_t b);
/* Is the connection to its server open, as of the last call? Else a call that failed did so because the server is away. */
bool redis_conn_is_open(const struct redis_conn *conn, uint32_t partition);
/* The run_id of the server behind a partition, NUL-terminated, asked anew after each connect. */
enum status redis_conn_run_id(struct redis_conn *conn, uint32_t partition, char run_id[REDIS_RUN_ID_LEN + 1]) MUST_CHECK;
enum redis_dialect redis_conn_dialect(const struct redis_conn *conn);
const char *redis_conn_error(const struct redis_conn *conn); /* last error, one line, no secrets */
/* Connects to all servers; how many partitions can't be reached. */
size_t redis_conn_reach_all(struct redis_conn *conn);
/* The checks of a start, on each server that can be reached: primary, maxmemory-policy, persistence, listpack limits, versions
 * with known faults. Warnings are logged; STATUS_REFUSED with one clear line in *message (malloc'd) where the service must not
 * run; else the last failure. *loses: NULL, or what a server without an append-only file means, in static words. */
enum status redis_conn_check_servers(struct redis_conn *conn, const char **loses, char **message) MUST_CHECK;

#endif
