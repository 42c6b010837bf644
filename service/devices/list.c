/* GET /v1/tenants/{t}/devices: a page of a walk over the tenant's devices by the bytes of their ids.
 *
 *   the page, from presence.device --> what is known of each (lookup.h: Redis, and rows again where the two disagree) --> those
 * in the wanted state
 *
 * Each id is looked at once in a walk, so that a device which is in the wanted state all the time appears exactly once. A state
 * is known only by looking: with a filter a page looks at LIST_FILTERED_LOOK devices (or `limit`, if that is more) and no more,
 * however few of them match; it may then be short, and the walk goes on behind the last one looked at. */
#include "api.h"
#include "cursor.h"
#include "lookup.h"

enum { LIMIT_DEFAULT = 100, LIMIT_MAX = LOOKUP_DEVICES_MAX, LIST_FILTERED_LOOK = 400 };

struct list {
  struct pg_job job;
  struct lookup lookup;
  struct request *request;
  bool filtered;
  enum device_state state; /* filtered: only these */
  struct str prefix, after;
  size_t limit;                    /* devices in the answer */
  size_t look;                     /* devices to look at */
  char after_bytes[DEVICE_ID_MAX]; /* after points here */
  enum status status;              /* the job's */
  struct device_page page;
};

/* ---- The answer */

static enum status encode_devices(struct buf *out, const struct list *list, size_t *looked) {
  size_t shown = 0;
  size_t i = 0;
  enum status status = buf_append_str(out, STR_LIT("{\"devices\":["));
  for (; i < list->lookup.count && shown < list->limit && status == STATUS_OK; i++) {
    const struct lookup_device *device = &list->lookup.devices[i];
    if (!device->found || (list->filtered && device->view.state != list->state)) continue; /* not found: forgotten just now */
    if (shown++ > 0) status = buf_append(out, ",", 1);
    if (status == STATUS_OK) status = device_encode(out, &device->view, STR_NONE);
  }
  *looked = i;
  return status;
}

static enum status encode(struct buf *out, const struct list *list) {
  size_t looked = 0;
  char cursor[CURSOR_TEXT_MAX];
  enum status status = encode_devices(out, list, &looked);
  if (status != STATUS_OK) return status;
  if (looked == 0 || (looked == list->lookup.count && !list->page.more))
    return buf_append_str(out, STR_LIT("],\"next\":null}\n"));
  size_t len = cursor_format(list->request->tenant_id, list->lookup.devices[looked - 1].device, cursor);
  return buf_printf(out, "],\"next\":\"%.*s\"}\n", (int)len, cursor);
}

static void looked_up(struct lookup *lookup, enum status status) {
  struct list *list = (struct list *)(void *)((char *)lookup - offsetof(struct list, lookup));
  struct buf body = {0};
  if (status == STATUS_OK) status = encode(&body, list);
  lookup_free(lookup); /* before the reply ends the life of the request's memory */
  device_page_free(&list->page);
  if (status == STATUS_OK) {
    reply_json(list->request, 200, &body);
    return;
  }
  buf_free(&body);
  lookup_reply_failure(lookup, status);
}

/* ---- The page's ids */

static void read_page(struct pg_job *job, struct pg_client *client) {
  struct list *list = (struct list *)job; /* its first member */
  list->status = outbox_device_page(client, list->request->tenant_id, list->after, list->prefix, list->look, &list->page);
}

static void got_page(struct pg_job *job) {
  struct list *list = (struct list *)job;
  struct request *request = list->request;
  enum status status = list->status;
  struct lookup_device *devices = NULL;
  if (status == STATUS_OK) {
    devices = request_alloc(request, (list->page.count + 1) * sizeof *devices);
    if (devices == NULL) status = STATUS_NO_MEMORY;
  }
  if (status != STATUS_OK) {
    device_page_free(&list->page);
    reply_postgres_status(request, status);
    return;
  }
  for (size_t i = 0; i < list->page.count; i++) {
    devices[i] =
        (struct lookup_device){.device = device_page_id(&list->page, i), .row = list->page.rows[i], .row_is_older = true};
    list->page.rows[i] = (struct device_row){0}; /* the lookup's now */
  }
  list->lookup = (struct lookup){.request = request, .devices = devices, .count = list->page.count, .done = looked_up};
  lookup_start(&list->lookup);
}

/* ---- The question */

/* False: answered. */
static bool read_state(struct list *list) {
  static const struct {
    struct str word;
    enum device_state state;
  } states[] = {{{"online", 6}, DEVICE_ONLINE}, {{"offline", 7}, DEVICE_OFFLINE}, {{"unknown", 7}, DEVICE_UNKNOWN}};
  struct str word;
  list->filtered = request_query(list->request, "state", &word);
  if (!list->filtered) return true;
  for (size_t i = 0; i < sizeof states / sizeof states[0]; i++) {
    list->state = states[i].state;
    if (str_equal(word, states[i].word)) return true;
  }
  reply_error(list->request, 400, "bad_parameter", "state must be online, offline or unknown");
  return false;
}

static bool read_prefix(struct list *list) {
  if (!request_query(list->request, "prefix", &list->prefix) || list->prefix.len == 0) return true;
  if (device_id_valid(list->prefix)) return true;
  reply_error(list->request, 400, "bad_parameter",
              "prefix must be the beginning of a device id: at most %d bytes of UTF-8 without control characters", DEVICE_ID_MAX);
  return false;
}

static bool read_cursor(struct list *list) {
  struct str text;
  size_t len = 0;
  if (!request_query(list->request, "cursor", &text)) return true;
  if (cursor_parse(text, list->request->tenant_id, list->after_bytes, &len) != STATUS_OK) {
    reply_error(list->request, 400, "bad_cursor", "cursor must be what the answer before gave as next, for this tenant");
    return false;
  }
  list->after = (struct str){list->after_bytes, len};
  return true;
}

static bool read_question(struct list *list) {
  static const char *const names[] = {"state", "prefix", "limit", "cursor"};
  int64_t limit = 0;
  list->after = list->prefix = STR_LIT("");
  if (!request_query_only(list->request, names, sizeof names / sizeof names[0]) || !read_state(list) || !read_prefix(list) ||
      !request_query_number(list->request, "limit", 1, LIMIT_MAX, LIMIT_DEFAULT, &limit) || !read_cursor(list))
    return false;
  list->limit = (size_t)limit;
  list->look = list->filtered && list->limit < LIST_FILTERED_LOOK ? LIST_FILTERED_LOOK : list->limit;
  return true;
}

void handle_list(struct request *request) {
  _Static_assert(offsetof(struct list, job) == 0, "read_page() casts");
  struct list *list = request_alloc(request, sizeof *list);
  if (list == NULL) {
    reply_status(request, STATUS_NO_MEMORY);
    return;
  }
  list->request = request;
  if (!read_question(list)) return;
  list->job = (struct pg_job){.work = read_page, .done = got_page, .loop = request->api->loop};
  list->status = STATUS_UNAVAILABLE; /* where the pool stops before it comes to this */
  enum status status = pg_pool_submit(request->api->shared->pool, &list->job);
  if (status != STATUS_OK) reply_postgres_status(request, status);
}
