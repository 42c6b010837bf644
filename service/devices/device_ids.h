/* device_ids.h: the body of a query, {"devices":["a","b"]}. No I/O, no allocation. */
#ifndef PRESENCE_DEVICES_DEVICE_IDS_H
#define PRESENCE_DEVICES_DEVICE_IDS_H

#include "session.h"

#define DEVICE_IDS_MAX 1000

enum device_ids_verdict {
  DEVICE_IDS_OK,
  DEVICE_IDS_MALFORMED, /* detail, offset */
  DEVICE_IDS_TOO_MANY,
  DEVICE_IDS_WRONG_TYPE, /* JSON, but no object with just that array */
  DEVICE_IDS_BAD_ID,     /* bad_index */
};

struct device_ids {
  struct str ids[DEVICE_IDS_MAX]; /* point into the body, or into scratch where they were sent with escapes */
  size_t count;
  size_t bad_index;   /* of the first that is no device id */
  const char *detail; /* static */
  size_t offset;      /* bytes before the fault */
};

/* scratch: room for body.len bytes, needed only where the body has a backslash. The content is strict JSON (json_scan.h). */
enum device_ids_verdict device_ids_parse(struct str body, char *scratch, struct device_ids *out) MUST_CHECK;

#endif
