/* event_id.h: the id of an outbox row, which follows from what it says: consumers drop repeats by it.
 *
 * UUIDv5 (RFC 9562 section 5.5) in the namespace below; the name is
 *     tenant "/" device "/" session "/" type          t42/sensor-1/1790000000000-0/presence.device.offline
 * Only the device may hold a "/", so two different events never have the same name. */
#ifndef PRESENCE_EVENT_ID_H
#define PRESENCE_EVENT_ID_H

#include "transition.h"

#define EVENT_ID_BYTES 16
#define EVENT_ID_TEXT_MAX 37
#define EVENT_ID_NAMESPACE "06d54c45-fd64-4719-a718-57162bfa2647"

/* STATUS_NO_MEMORY is the only failure. */
enum status event_id(struct str tenant, struct str device, struct session_id session, enum transition_type type,
                     uint8_t id[EVENT_ID_BYTES]) MUST_CHECK;
/* In the usual 8-4-4-4-12 form. */
void event_id_format(const uint8_t id[EVENT_ID_BYTES], char text[EVENT_ID_TEXT_MAX]);

#endif
