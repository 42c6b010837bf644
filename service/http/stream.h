/* stream.h: what the server does with a stream (http_stream.h). Content goes out chunked: the library asks for more whenever the
 * socket has taken the last chunk; while there is nothing the connection is suspended. The loop's thread only. */
#ifndef PRESENCE_HTTP_STREAM_PRIVATE_H
#define PRESENCE_HTTP_STREAM_PRIVATE_H

#include "http_stream.h"
#include "library.h"

/* Its connection was cut: the library must look at it. */
void stream_wake(struct stream *stream);
/* The request is over: drops what waits and tells the owner. */
void stream_close(struct stream *stream);
/* The library's callback (microhttpd.h; context: the stream). */
ssize_t stream_read(void *context, uint64_t position, char *out, size_t most);

#endif
