#include "device.h"

static void show_redis(struct device_view *view, struct str device, const struct store_device *redis) {
  *view = (struct device_view){.device = device,
                               .state = DEVICE_OFFLINE,
                               .session = redis->session,
                               .online_since_ms = redis->online_since_ms,
                               .last_seen_ms = redis->last_seen_ms,
                               .ttl_ms = redis->ttl_ms,
                               .offline_at_ms = redis->offline_at_ms,
                               .reason = redis->reason,
                               .meta = redis->meta};
  if (redis->state == STORE_ONLINE) view->state = DEVICE_ONLINE;
  if (redis->state == STORE_UNKNOWN) view->state = DEVICE_UNKNOWN;
}

static void show_row(struct device_view *view, struct str device, const struct device_row *row) {
  *view = (struct device_view){.device = device,
                               .state = row->online ? DEVICE_UNKNOWN : DEVICE_OFFLINE,
                               .session = row->session,
                               .online_since_ms = row->online_since_ms,
                               .last_seen_ms = row->last_seen_ms,
                               .ttl_ms = row->ttl_ms,
                               .offline_at_ms = row->offline_at_ms,
                               .reason = row->reason,
                               .meta = buf_str(&row->meta)};
}

bool device_needs_row(const struct store_device *redis) { return redis->state == STORE_NONE || redis->state == STORE_CLOSED; }

enum device_verdict device_judge(struct str device, const struct store_device *redis, const struct device_row *row, bool second,
                                 struct device_view *view) {
  bool close_is_newer = redis->state == STORE_CLOSED && !(row->found && session_id_compare(row->session, redis->session) > 0);
  if (!device_needs_row(redis) || close_is_newer) {
    show_redis(view, device, redis);
    return DEVICE_KNOWN;
  }
  if (!row->found) return DEVICE_NEVER_SEEN;
  if (row->online && !second) return DEVICE_READ_AGAIN;
  show_row(view, device, row);
  return DEVICE_KNOWN;
}
