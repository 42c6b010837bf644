/* headers.h: the two request headers that heartbeats look at. */
#ifndef PRESENCE_HEARTBEAT_HEADERS_H
#define PRESENCE_HEARTBEAT_HEADERS_H

#include "str.h"

/* A Content-Type's value (RFC 9110 section 8.3.1): is it application/x-ndjson, whatever its parameters? */
bool header_is_ndjson(struct str content_type);

/* A Prefer header's value (RFC 7240 section 2): does it ask for return=representation? Of several `return` the first counts. */
bool header_wants_representation(struct str prefer);

#endif
