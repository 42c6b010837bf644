/* http_stream.h: an answer that goes on until one of both sides ends it.
 *
 *   reply_stream -> stream_send, stream_send … -> stream_end, or the client goes, or it is cut -> closed()
 *
 * The request lives until closed() has returned. A client that does not take what is sent to it is cut: when a piece has waited
 * for STREAM_STALL_MS. How much waits is the owner's business: stream_waiting, ready(). The loop's thread only. */
#ifndef PRESENCE_HTTP_STREAM_H
#define PRESENCE_HTTP_STREAM_H

#include "http.h"
#include "shared_bytes.h"

enum { STREAM_STALL_MS = 10000, STREAM_SOCKET_BYTES = 65536 /* that the kernel keeps for a client, at most twice as much */ };

struct stream_piece;

/* Embedded in its owner, who zeroes it and sets the callbacks. */
struct stream {
  void (*ready)(struct stream *stream);  /* all that was sent is on its way: time for more */
  void (*closed)(struct stream *stream); /* once, at the end, whatever ended it; nothing may be called after it */
  /* private */
  struct request *request;
  struct stream_piece *first, *last;
  size_t waiting; /* bytes in the pieces, what was taken of the first left out */
  size_t taken;   /* of the first piece */
  bool suspended; /* the connection waits for a piece */
  bool ending;
};

/* Answers 200 and begins the stream. False: the client has gone meanwhile, and nothing has been done: another reply ends the
 * request. */
bool reply_stream(struct request *request, const char *content_type, struct stream *stream) MUST_CHECK;
/* Holds the bytes until they are on their way. STATUS_NO_MEMORY: the client would miss them, so it is cut. */
enum status stream_send(struct stream *stream, struct shared_bytes *bytes, size_t offset, size_t len) MUST_CHECK;
size_t stream_waiting(const struct stream *stream);
/* The end in good order, after what waits. */
void stream_end(struct stream *stream);

#endif
