/* request_id.h: what ties an error's answer, the log's line about it and the caller's own records together: X-Request-Id. An
 * answer that is no error has none, so that good requests cost nothing. The loop's thread only. */
#ifndef PRESENCE_HTTP_REQUEST_ID_H
#define PRESENCE_HTTP_REQUEST_ID_H

#include "request.h"

#define REQUEST_ID_HEADER "X-Request-Id"
enum { REQUEST_ID_MAX = 128 }; /* of a caller's */

/* The id to answer with: the caller's where it sent one of visible ASCII, within the limit. Where the failure is ours (5xx) and
 * the log's limit lets it pass, a line is logged, with an id of our own if there is none of the caller's. "": none. why: a word
 * for the log. */
void request_id_for_error(struct http_request *request, unsigned http_status, const char *why, char id[REQUEST_ID_MAX + 1]);

#endif
