#include "device.h"

struct device_place device_place(const struct tenant *tenant, struct str device, uint32_t partitions) {
  uint32_t bucket = placement_bucket(device, tenant->buckets);
  return (struct device_place){.bucket = bucket, .partition = placement_partition(tenant->id, bucket, partitions)};
}

struct store_tenant device_store_tenant(const struct tenant *tenant) {
  return (struct store_tenant){.id = tenant->id, .generation = tenant->generation, .buckets = tenant->buckets};
}

static const char *state_name(enum device_state state) {
  switch (state) {
  case DEVICE_ONLINE: return "online";
  case DEVICE_OFFLINE: return "offline";
  case DEVICE_UNKNOWN: break;
  }
  return "unknown";
}

static enum status append_time(struct buf *out, struct str name, int64_t time_ms) {
  enum status status = buf_append_str(out, name);
  if (status != STATUS_OK) return status;
  return time_ms == TIME_MS_LOST ? buf_append(out, "null", 4) : buf_append_int64(out, time_ms);
}

static enum status append_identity(struct buf *out, const struct device_view *view) {
  char session[SESSION_ID_TEXT_MAX];
  session_id_format(view->session, session);
  enum status status = buf_append(out, "{\"device\":", 10);
  if (status == STATUS_OK) status = buf_append_json_string(out, view->device);
  if (status == STATUS_OK) status = buf_printf(out, ",\"state\":\"%s\",\"session\":\"%s\"", state_name(view->state), session);
  return status;
}

static enum status append_times(struct buf *out, const struct device_view *view) {
  bool lost = view->last_seen_ms == TIME_MS_LOST || view->ttl_ms == TIME_MS_LOST;
  enum status status = append_time(out, STR_LIT(",\"online_since_ms\":"), view->online_since_ms);
  if (status == STATUS_OK) status = append_time(out, STR_LIT(",\"last_seen_ms\":"), view->last_seen_ms);
  if (status == STATUS_OK)
    status = append_time(out, STR_LIT(",\"deadline_ms\":"), lost ? TIME_MS_LOST : view->last_seen_ms + view->ttl_ms);
  if (status == STATUS_OK) status = append_time(out, STR_LIT(",\"ttl_ms\":"), view->ttl_ms);
  return status;
}

static enum status append_end(struct buf *out, const struct device_view *view) {
  enum status status = append_time(out, STR_LIT(",\"offline_at_ms\":"), view->offline_at_ms);
  const char *reason = transition_reason_name(view->reason);
  if (status == STATUS_OK)
    status = reason == NULL ? buf_append_str(out, STR_LIT(",\"reason\":null")) : buf_printf(out, ",\"reason\":\"%s\"", reason);
  return status;
}

enum status device_encode(struct buf *out, const struct device_view *view, struct str more) {
  enum status status = append_identity(out, view);
  if (status == STATUS_OK) status = append_times(out, view);
  if (status == STATUS_OK) status = buf_append_str(out, STR_LIT(",\"meta\":"));
  if (status == STATUS_OK) status = buf_append_str(out, view->meta.len > 0 ? view->meta : STR_LIT("null"));
  if (status == STATUS_OK && view->state == DEVICE_OFFLINE) status = append_end(out, view);
  if (status == STATUS_OK && more.len > 0) status = buf_append(out, ",", 1);
  if (status == STATUS_OK) status = buf_append_str(out, more);
  return status == STATUS_OK ? buf_append(out, "}", 1) : status;
}
