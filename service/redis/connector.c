#include "connector.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* Who may touch the connector: RUNNING the thread; POSTED the loop, by its task; ABANDONED the thread, to free it. */
enum state { RUNNING, POSTED, ABANDONED };

struct connector {
  struct redis_target *target;
  struct loop *loop;
  int64_t timeout_ms;
  connector_done_fn *done; /* NULL: abandoned after it was posted */
  void *context;
  pthread_t thread;
  bool joined;
  _Atomic int state;
  struct loop_task task;
  enum status status;
  struct wire wire;
  struct buf error;
};

static void destroy(struct connector *connector) {
  wire_close(&connector->wire);
  buf_free(&connector->error);
  redis_target_free(connector->target);
  free(connector);
}

/* On the loop. */
static void finish(struct loop_task *task) {
  struct connector *connector = task->context;
  if (!connector->joined) pthread_join(connector->thread, NULL); /* it has only to return */
  if (connector->done) {
    struct wire wire = connector->wire;
    connector->wire = (struct wire){0};
    const char *error = buf_append(&connector->error, "", 1) ? "" : connector->error.data;
    connector->done(connector->context, connector->status, &wire, error);
  }
  destroy(connector);
}

static void *run(void *argument) {
  struct connector *connector = argument;
  connector->status = wire_open(&connector->wire, connector->target, connector->timeout_ms, &connector->error);
  if (!connector->status) connector->status = wire_set_nonblocking(&connector->wire);
  if (connector->status) wire_close(&connector->wire);
  int expected = RUNNING;
  if (atomic_compare_exchange_strong(&connector->state, &expected, POSTED)) {
    loop_post(connector->loop, &connector->task);
  } else {
    destroy(connector);
  }
  return NULL;
}

enum status connector_start(const struct redis_target *target, struct loop *loop, int64_t timeout_ms, connector_done_fn *done,
                            void *context, struct connector **connector) {
  struct connector *made = calloc(1, sizeof *made);
  if (!made) return STATUS_NO_MEMORY;
  *made = (struct connector){.target = target_retain(target),
                             .loop = loop,
                             .timeout_ms = timeout_ms,
                             .done = done,
                             .context = context,
                             .task = {.run = finish, .context = made}};
  atomic_init(&made->state, RUNNING);
  *connector = made;
  if (pthread_create(&made->thread, NULL, run, made) != 0) {
    *connector = NULL;
    destroy(made);
    return STATUS_IO;
  }
  return STATUS_OK;
}

void connector_abandon(struct connector *connector) {
  pthread_t thread = connector->thread;
  connector->done = NULL;
  int expected = RUNNING;
  if (atomic_compare_exchange_strong(&connector->state, &expected, ABANDONED)) {
    pthread_detach(thread); /* it may hang in name resolution; it frees the connector */
    return;
  }
  /* Its task is in the mailbox, or will be before the thread returns: joined here, since the loop may go next. */
  pthread_join(thread, NULL);
  connector->joined = true;
}
