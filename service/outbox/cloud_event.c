#include "cloud_event.h"

#include <inttypes.h>
#include <time.h>

enum status rfc3339_append(struct buf *out, int64_t time_ms) {
  int64_t part_ms = (time_ms % 1000 + 1000) % 1000;
  time_t seconds = (time_t)(time_ms / 1000 - (time_ms % 1000 < 0)); /* rounded down, also before 1970 */
  struct tm utc;
  if (gmtime_r(&seconds, &utc) == NULL || utc.tm_year < -1900 || utc.tm_year > 8099) return STATUS_INVALID;
  return buf_printf(out, "%04d-%02d-%02dT%02d:%02d:%02d.%03" PRId64 "Z", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                    utc.tm_hour, utc.tm_min, utc.tm_sec, part_ms);
}

static enum status member(struct buf *out, const char *before, struct str value) {
  enum status status = buf_append_str(out, str_from(before));
  return status == STATUS_OK ? buf_append_json_string(out, value) : status;
}

enum status cloud_event_encode(struct buf *out, const struct cloud_event *event) {
  enum status status = member(out, "{\"specversion\":\"1.0\",\"id\":", event->id);
  /* "/tenants/t": a tenant's id needs no escaping, neither in a URI nor in JSON. */
  if (status == STATUS_OK) status = buf_printf(out, ",\"source\":\"/tenants/%.*s\"", STR_ARG(event->tenant));
  if (status == STATUS_OK) status = member(out, ",\"type\":", event->type);
  if (status == STATUS_OK) status = member(out, ",\"subject\":", event->device);
  if (status == STATUS_OK) status = buf_append_str(out, STR_LIT(",\"time\":\""));
  if (status == STATUS_OK) status = rfc3339_append(out, event->occurred_ms);
  if (status == STATUS_OK) status = buf_printf(out, "\",\"sequence\":\"%" PRId64 "\"", event->seq);
  if (status == STATUS_OK) status = buf_append_str(out, STR_LIT(",\"datacontenttype\":\"application/json\",\"data\":"));
  if (status == STATUS_OK) status = buf_append_str(out, event->data);
  return status == STATUS_OK ? buf_append_str(out, STR_LIT("}")) : status;
}
