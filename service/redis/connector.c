#include "connector.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Who may touch the connector: RUNNING the thread; POSTED the loop, by its task; ABANDONED the thread, to free it. */
enum state { RUNNING, POSTED, ABANDONED };

struct connector {
  struct redis_target *target;
  struct redis_map *map; /* to connect by, or the one known so far; NULL: none yet */
  size_t server;
  bool looks; /* for a map; else it connects */
  struct map_look look;
  struct loop *loop;
  int64_t timeout_ms;
  connector_done_fn *done;   /* connects; both NULL: abandoned after it was posted */
  connector_found_fn *found; /* looks */
  void *context;
  pthread_t thread;
  bool joined;
  _Atomic int state;
  struct loop_task task;
  enum status status;
  struct wire wire;
  struct redis_map *answer;
  struct buf error;
};

static void destroy(struct connector *connector) {
  wire_close(&connector->wire);
  map_free(connector->answer);
  map_free(connector->map);
  buf_free(&connector->error);
  redis_target_free(connector->target);
  free(connector);
}

/* On the loop. */
static void finish(struct loop_task *task) {
  struct connector *connector = task->context;
  if (!connector->joined) pthread_join(connector->thread, NULL); /* it has only to return */
  const char *error = buf_append(&connector->error, "", 1) ? "" : connector->error.data;
  if (connector->done) {
    struct wire wire = connector->wire;
    connector->wire = (struct wire){0};
    connector->done(connector->context, connector->status, &wire, error);
  } else if (connector->found) {
    struct redis_map *map = connector->answer;
    connector->answer = NULL;
    connector->found(connector->context, connector->status, map, error);
  }
  destroy(connector);
}

static void connect_now(struct connector *connector) {
  connector->status =
      wire_open(&connector->wire, connector->target, connector->map, connector->server, connector->timeout_ms, &connector->error);
  if (!connector->status) connector->status = wire_set_nonblocking(&connector->wire);
  if (connector->status) wire_close(&connector->wire);
}

static void look_now(struct connector *connector) {
  connector->look.known = connector->map;
  connector->status = map_find(connector->target, &connector->look, connector->timeout_ms, &connector->answer, &connector->error);
}

static void *run(void *argument) {
  struct connector *connector = argument;
  if (connector->looks) {
    look_now(connector);
  } else {
    connect_now(connector);
  }
  int expected = RUNNING;
  if (atomic_compare_exchange_strong(&connector->state, &expected, POSTED)) {
    loop_post(connector->loop, &connector->task);
  } else {
    destroy(connector);
  }
  return NULL;
}

/* Takes a copy of what it is made with. */
static enum status start(const struct connector *like, struct connector **connector) {
  struct connector *made = calloc(1, sizeof *made);
  *connector = NULL;
  if (!made) return STATUS_NO_MEMORY;
  *made = *like;
  made->target = target_retain(like->target);
  made->map = map_retain(like->map);
  made->task = (struct loop_task){.run = finish, .context = made};
  atomic_init(&made->state, RUNNING);
  *connector = made;
  if (pthread_create(&made->thread, NULL, run, made) != 0) {
    *connector = NULL;
    destroy(made);
    return STATUS_IO;
  }
  return STATUS_OK;
}

enum status connector_start(const struct redis_target *target, const struct redis_map *map, size_t server, struct loop *loop,
                            int64_t timeout_ms, connector_done_fn *done, void *context, struct connector **connector) {
  return start(&(struct connector){.target = (struct redis_target *)target,
                                   .map = (struct redis_map *)map,
                                   .server = server,
                                   .loop = loop,
                                   .timeout_ms = timeout_ms,
                                   .done = done,
                                   .context = context},
               connector);
}

enum status connector_look(const struct redis_target *target, const struct map_look *look, struct loop *loop, int64_t timeout_ms,
                           connector_found_fn *found, void *context, struct connector **connector) {
  return start(&(struct connector){.target = (struct redis_target *)target,
                                   .map = (struct redis_map *)look->known,
                                   .looks = true,
                                   .look = *look,
                                   .loop = loop,
                                   .timeout_ms = timeout_ms,
                                   .found = found,
                                   .context = context},
               connector);
}

void connector_abandon(struct connector *connector) {
  if (!connector) return;
  pthread_t thread = connector->thread;
  connector->done = NULL;
  connector->found = NULL;
  int expected = RUNNING;
  if (atomic_compare_exchange_strong(&connector->state, &expected, ABANDONED)) {
    pthread_detach(thread); /* it may hang in name resolution; it frees the connector */
    return;
  }
  /* Its task is in the mailbox, or will be before the thread returns: joined here, since the loop may go next. */
  pthread_join(thread, NULL);
  connector->joined = true;
}
