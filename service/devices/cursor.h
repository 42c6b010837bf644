/* cursor.h: where a walk over a tenant's devices goes on. For clients it is opaque; in truth it is the id of the last device
 * looked at, in hexadecimal, with a check in front, so that what is no cursor of this tenant is told from one. It holds nothing
 * that its reader may not know. Pure functions, any thread. */
#ifndef PRESENCE_DEVICES_CURSOR_H
#define PRESENCE_DEVICES_CURSOR_H

#include "session.h"

enum { CURSOR_CHECK_BYTES = 4, CURSOR_TEXT_MAX = 2 * (CURSOR_CHECK_BYTES + DEVICE_ID_MAX) };

/* device is valid. Returns the length; no NUL. */
size_t cursor_format(struct str tenant, struct str device, char out[CURSOR_TEXT_MAX]);
/* STATUS_INVALID: not a cursor of this tenant. *len bytes of device. */
enum status cursor_parse(struct str text, struct str tenant, char device[DEVICE_ID_MAX], size_t *len) MUST_CHECK;

#endif
