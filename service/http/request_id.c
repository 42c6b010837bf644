#include "request_id.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/random.h>

#include "log.h"
#include "server_state.h"

enum { FAILED_LOG_US = 1000000 };

static bool is_visible(struct str text) {
  for (size_t i = 0; i < text.len; i++)
    if (text.data[i] <= ' ' || text.data[i] > '~') return false;
  return true;
}

static void copy_sent(struct http_request *request, char id[REQUEST_ID_MAX + 1]) {
  struct str sent = STR_NONE;
  id[0] = '\0';
  if (request->mhd == NULL || !request_header(&request->public, REQUEST_ID_HEADER, &sent)) return;
  if (sent.len > REQUEST_ID_MAX || !is_visible(sent)) return;
  memcpy(id, sent.data, sent.len);
  id[sent.len] = '\0';
}

static void make_id(char id[REQUEST_ID_MAX + 1]) {
  uint64_t number = 0;
  if (getrandom(&number, sizeof number, GRND_NONBLOCK) == (ssize_t)sizeof number)
    (void)snprintf(id, REQUEST_ID_MAX + 1, "%016" PRIx64, number);
}

void request_id_for_error(struct http_request *request, unsigned http_status, const char *why, char id[REQUEST_ID_MAX + 1]) {
  struct http_server *server = request->server;
  int64_t suppressed = 0;
  copy_sent(request, id);
  if (http_status < MHD_HTTP_INTERNAL_SERVER_ERROR) return;
  bool is_ours =
      http_status == MHD_HTTP_INTERNAL_SERVER_ERROR; /* never left out; what a missing server does, is seen by one line */
  if (!log_limit_pass(&server->failed_log, clock_monotonic_us(loop_clock(server->loop)), FAILED_LOG_US, &suppressed) && !is_ours)
    return;
  char route[ROUTE_LABEL_MAX];
  route_label(request->public.route, route);
  if (id[0] == '\0') make_id(id);
  log_at(is_ours ? LOG_LEVEL_ERROR : LOG_LEVEL_WARN, "request_failed", LOG_STR("route", route),
         LOG_INT("http_status", http_status), LOG_STR("reason", why), LOG_TEXT("tenant", request->public.tenant_id),
         LOG_TEXT("device", request->public.device), LOG_STR("request_id", id), LOG_INT("suppressed", suppressed));
}
