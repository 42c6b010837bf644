/* openapi.c: GET /openapi.json, the API's description (https://spec.openapis.org/oas/v3.1.0). The document is openapi.json beside
 * this file; a test compares it with routes.def and with what the running service answers. */
#include "embedded.h"
#include "http.h"

void handle_openapi(struct request *request) {
  struct buf body = {0};
  const struct embedded_file *document = &embedded_documents[0]; /* the only one */
  if (buf_append(&body, document->bytes, document->length) == STATUS_OK) {
    reply_json(request, 200, &body);
    return;
  }
  buf_free(&body);
  reply_status(request, STATUS_NO_MEMORY);
}
