/* wire.h: one connection to one Redis server, made ready for script calls. What redis_link (non-blocking) and redis_conn
 * (blocking) have in common. Private to service/redis. */
#ifndef PRESENCE_REDIS_WIRE_H
#define PRESENCE_REDIS_WIRE_H

#include "call.h"
#include "map.h"

struct wire {
  redisContext *context; /* NULL: closed */
  enum redis_dialect dialect;
  char run_id[REDIS_RUN_ID_LEN + 1];
  char sha[SCRIPT_COUNT][SCRIPT_SHA_LEN];
};

/* Connects to a server of the map and prepares, blocking, each step at most timeout_ms: TLS, AUTH, SELECT, a primary?, run_id,
 * dialect, scripts loaded.
 * On failure the wire is closed and *error (cleared first) holds one line without secrets.
 *   STATUS_UNAVAILABLE  no server, or it is loading, a replica or without the slots that the map says: try again later
 *   STATUS_REFUSED      trying again will not help until somebody changes something: password, forced dialect, TLS */
enum status wire_open(struct wire *wire, const struct redis_target *target, const struct redis_map *map, size_t server,
                      int64_t timeout_ms, struct buf *error) MUST_CHECK;
void wire_close(struct wire *wire); /* also when closed */
/* From here on reads and writes do not block. STATUS_IO. */
enum status wire_set_nonblocking(struct wire *wire) MUST_CHECK;

/* Appends bytes to what will be written. */
enum status wire_append(struct wire *wire, struct str bytes) MUST_CHECK;
/* Appends `SCRIPT LOAD`: one reply. */
enum status wire_append_load(struct wire *wire, const struct redis_target *target, enum script script) MUST_CHECK;
/* Fills in what only the wire knows; command: a copy of call_bytes(call). */
void wire_patch(const struct wire *wire, const struct redis_call *call, char *command);
/* The next reply that has already arrived, or NULL. STATUS_PROTOCOL: what arrives is not RESP. */
enum status wire_next_reply(struct wire *wire, redisReply **reply) MUST_CHECK;
/* hiredis's last error. */
const char *wire_error(const struct wire *wire);

#endif
