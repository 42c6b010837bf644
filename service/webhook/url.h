/* url.h: which URLs may be a webhook's. Any thread. */
#ifndef PRESENCE_WEBHOOK_URL_H
#define PRESENCE_WEBHOOK_URL_H

#include "str.h"

#define WEBHOOK_URL_MAX 2048

/* http or https, a host, no user and password, no fragment, no blanks and control characters, at most WEBHOOK_URL_MAX bytes; the
 * host is no address that allow_private would refuse (a name is judged when it is connected to: address.h). STATUS_INVALID: *why
 * says what is wrong (static storage). */
enum status webhook_url_check(const char *url, bool allow_private, const char **why) MUST_CHECK;

#endif
