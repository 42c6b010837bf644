/* sim_http.h: the HTTP/1.1 (RFC 9112) that presence-sim speaks: where to connect, what a request begins with, how an answer is
 * taken apart. No sockets here. */
#ifndef PRESENCE_SIM_HTTP_H
#define PRESENCE_SIM_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "status.h"
#include "str.h"

/* Parts of http://HOST[:PORT][/PATH], inside url. */
struct sim_url {
  struct str authority; /* for the Host header: "[::1]:8080" */
  struct str host;      /* without brackets */
  uint16_t port;        /* 80 where none is given */
  struct str path;      /* without a closing slash; may be empty */
};
enum status sim_url_parse(struct str url, struct sim_url *parts) MUST_CHECK;

/* text as one path segment: all but the unreserved characters of RFC 3986 percent-encoded. */
enum status sim_append_segment(struct buf *out, struct str text) MUST_CHECK;

/* The largest answer taken: a batch of 1000 with every item rejected is well below. */
enum { SIM_HEAD_MAX = 16 * 1024, SIM_BODY_MAX = 1024 * 1024 };

struct sim_answer {
  int status;
  struct str body; /* inside the bytes parsed; empty where it came in chunks, which are not put together */
  bool close;      /* the server closes after this answer */
  size_t size;     /* how many bytes the whole answer takes */
};

enum sim_parse { SIM_PARSE_MORE, SIM_PARSE_DONE, SIM_PARSE_BAD };

/* The answer at the start of bytes. MORE: it is not there whole yet. BAD: no HTTP/1.x answer, or one whose body has neither a
 * Content-Length (the service always sends one) nor chunks, or a limit is passed. Interim answers (1xx) are skipped. */
enum sim_parse sim_answer_parse(struct str bytes, struct sim_answer *answer);

#endif
