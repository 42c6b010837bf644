/* GET /v1/tenants/{t}/devices/{d} */
#include "lookup.h"

struct device_status {
  struct lookup lookup;
  struct lookup_device device;
};

static void looked_up(struct lookup *lookup, enum status status) {
  struct request *request = lookup->request;
  bool found = lookup->devices[0].found;
  struct buf body = {0};
  if (status == STATUS_OK && found) status = device_encode(&body, &lookup->devices[0].view, STR_NONE);
  lookup_free(lookup); /* before the reply ends the life of the request's memory */
  if (status == STATUS_OK && found) {
    reply_json(request, 200, &body);
    return;
  }
  buf_free(&body);
  if (status == STATUS_OK)
    reply_error(request, 404, "not_found", "no heartbeat of this device was ever recorded");
  else
    lookup_reply_failure(lookup, status);
}

void handle_device(struct request *request) {
  struct device_status *status = request_alloc(request, sizeof *status);
  if (status == NULL) {
    reply_status(request, STATUS_NO_MEMORY);
    return;
  }
  status->device.device = request->device;
  status->lookup = (struct lookup){.request = request, .devices = &status->device, .count = 1, .done = looked_up};
  lookup_start(&status->lookup);
}
