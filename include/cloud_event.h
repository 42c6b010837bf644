/* cloud_event.h: an outbox row as a CloudEvent: the one encoder behind every feed.
 *
 * CloudEvents 1.0 (https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/spec.md) in the JSON event format, with the
 * `sequence` extension; times as RFC 3339 has them. */
#ifndef PRESENCE_CLOUD_EVENT_H
#define PRESENCE_CLOUD_EVENT_H

#include "str.h"

struct cloud_event {
  int64_t seq;
  struct str id;   /* the UUID as text */
  struct str type; /* "presence.device.offline" */
  struct str tenant;
  struct str device;
  int64_t occurred_ms; /* since 1970 */
  struct str data;     /* the payload: JSON text */
};

/* Appends {"specversion":"1.0",…}, without a line break. STATUS_INVALID where the time is outside the years 0 to 9999. */
enum status cloud_event_encode(struct buf *out, const struct cloud_event *event) MUST_CHECK;
/* Appends "2026-09-21T14:13:20.000Z". */
enum status rfc3339_append(struct buf *out, int64_t time_ms) MUST_CHECK;

#endif
