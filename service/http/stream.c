#include "stream.h"

#include <stdlib.h>
#include <sys/socket.h>

#include "server_state.h"

struct stream_piece {
  struct stream_piece *next;
  struct shared_bytes *bytes;
  size_t offset, len;
};

static struct http_request *request_of(const struct stream *stream) { return request_private(stream->request); }

static void set_state(const struct stream *stream, enum connection_state state) {
  struct http_request *request = request_of(stream);
  connections_move(&request->server->connections, request->connection, state);
}

static void drop_first(struct stream *stream) {
  struct stream_piece *piece = stream->first;
  stream->first = piece->next;
  if (stream->first == NULL) stream->last = NULL;
  stream->waiting -= piece->len - stream->taken;
  stream->taken = 0;
  shared_bytes_release(piece->bytes);
  free(piece);
}

void stream_wake(struct stream *stream) {
  struct http_request *request = request_of(stream);
  if (!stream->suspended) return;
  stream->suspended = false;
  request->server->run_due = true;
  MHD_resume_connection(request->mhd);
}

size_t stream_waiting(const struct stream *stream) { return stream->waiting; }

enum status stream_send(struct stream *stream, struct shared_bytes *bytes, size_t offset, size_t len) {
  struct http_request *request = request_of(stream);
  if (len == 0 || stream->ending) return STATUS_OK;
  struct stream_piece *piece = malloc(sizeof *piece);
  if (piece == NULL) {
    connections_cut(&request->server->connections, request->connection);
    return STATUS_NO_MEMORY;
  }
  *piece = (struct stream_piece){.bytes = shared_bytes_hold(bytes), .offset = offset, .len = len};
  if (stream->last != NULL)
    stream->last->next = piece;
  else
    stream->first = piece;
  stream->last = piece;
  stream->waiting += len;
  if (request->connection->state == CONNECTION_STREAMING) set_state(stream, CONNECTION_STREAM_SENDING);
  stream_wake(stream);
  return STATUS_OK;
}

void stream_end(struct stream *stream) {
  stream->ending = true;
  stream_wake(stream);
}

/* Copies what fits. A piece that is through gives the client time for the next. */
static size_t take(struct stream *stream, char *out, size_t most) {
  size_t used = 0;
  while (stream->first != NULL && used < most) {
    const struct stream_piece *piece = stream->first;
    size_t len = piece->len - stream->taken;
    if (len > most - used) len = most - used;
    memcpy(out + used, piece->bytes->data + piece->offset + stream->taken, len);
    used += len;
    stream->taken += len;
    stream->waiting -= len;
    if (stream->taken < piece->len) break;
    drop_first(stream);
    set_state(stream, CONNECTION_STREAM_SENDING);
  }
  return used;
}

ssize_t stream_read(void *context, uint64_t position, char *out, size_t most) {
  (void)position;
  struct stream *stream = context;
  struct http_request *request = request_of(stream);
  if (request->connection->cut) return MHD_CONTENT_READER_END_WITH_ERROR;
  if (stream->first == NULL && !stream->ending) stream->ready(stream);
  if (stream->first != NULL) return (ssize_t)take(stream, out, most);
  if (stream->ending) return MHD_CONTENT_READER_END_OF_STREAM;
  if (request->connection->cut) return MHD_CONTENT_READER_END_WITH_ERROR;
  set_state(stream, CONNECTION_STREAMING);
  stream->suspended = true;
  MHD_suspend_connection(request->mhd);
  return 0;
}

void stream_close(struct stream *stream) {
  const struct connection *connection = request_of(stream)->connection;
  if (connection->cut && connection->state == CONNECTION_STREAM_SENDING) metric_add(metrics_series(METRIC_STREAMS_DROPPED), 1);
  while (stream->first != NULL) drop_first(stream);
  stream->closed(stream);
}
