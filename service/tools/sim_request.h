/* sim_request.h: the bytes of presence-sim's requests, prepared so that each needs little more than the device's digits. */
#ifndef PRESENCE_SIM_REQUEST_H
#define PRESENCE_SIM_REQUEST_H

#include <stdint.h>

#include "sim_http.h"
#include "sim_options.h"

enum { SIM_PLACES_MAX = 8 };

/* Shared by all requests of a run; owns its bytes. */
struct sim_request_form {
  struct buf single_head; /* "POST …/devices/sim-" */
  struct buf single_tail; /* "/heartbeat HTTP/1.1 … {"ttl_ms":…}" */
  struct buf batch_head;  /* up to "Content-Length: " */
  struct buf item_head;   /* {"device":"sim- */
  struct buf item_tail;   /* ","ttl_ms":…} */
  struct buf given;       /* the request of --request, whole, and where in it devices' numbers stand */
  size_t places[SIM_PLACES_MAX], place_count;
  int digits; /* of a device's number, filled up with zeros */
};
/* STATUS_TOO_LARGE: --request names the device more than SIM_PLACES_MAX times. */
enum status sim_request_form_new(struct sim_request_form *form, const struct sim_options *options,
                                 const struct sim_url *url) MUST_CHECK;
void sim_request_form_free(struct sim_request_form *form);

/* Each replaces what is in *out. */
enum status sim_request_single(const struct sim_request_form *form, uint32_t device, struct buf *out) MUST_CHECK;
enum status sim_request_given(const struct sim_request_form *form, uint32_t device, struct buf *out) MUST_CHECK;
enum status sim_request_named(const struct sim_request_form *form, struct str device,
                              struct buf *out) MUST_CHECK; /* the id after the prefix */
enum status sim_request_batch(const struct sim_request_form *form, const uint32_t *devices, size_t count,
                              struct buf *out) MUST_CHECK;

#endif
