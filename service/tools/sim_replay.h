/* sim_replay.h: sends the messages of a trace in order, each once the one before is answered. */
#ifndef PRESENCE_SIM_REPLAY_H
#define PRESENCE_SIM_REPLAY_H

#include "loop.h"
#include "sim_connection.h"
#include "sim_options.h"

struct sim_replay;

/* Opens the trace and the clock file. *error is one clear line (malloc'd, the caller frees), NULL where memory is short. */
enum status sim_replay_new(struct loop *loop, const struct sim_options *options, const struct sim_url *url,
                           const struct sim_target *target, struct sim_replay **replay, char **error) MUST_CHECK;
void sim_replay_free(struct sim_replay *replay);

/* Begins; stops the loop at the end of the trace or where it cannot go on. */
void sim_replay_start(struct sim_replay *replay);

struct sim_replay_result {
  int64_t messages;          /* answered 2xx */
  int64_t retries;           /* repeated after 5xx, 429 or a broken connection */
  int64_t first_ms, last_ms; /* times of the first and the last message answered 2xx */
  const char *failure;       /* why it stopped before the end; NULL: it did not. Valid until sim_replay_free */
};
struct sim_replay_result sim_replay_result(const struct sim_replay *replay);

#endif
