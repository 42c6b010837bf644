#include "device_ids.h"

#include "json_scan.h"

#define NO_INDEX SIZE_MAX

struct parser {
  struct json_scan scan;
  struct device_ids *out;
  char *scratch; /* where the next id without its escapes goes */
  bool wrong_type;
};

static enum status take_id(struct parser *parser) {
  struct device_ids *out = parser->out;
  struct json_scan_value value;
  if (json_scan_value(&parser->scan, &value) != STATUS_OK) return STATUS_INVALID;
  if (out->count == DEVICE_IDS_MAX) return STATUS_TOO_LARGE;
  struct str id = value.text;
  if (value.escaped) {
    id = (struct str){parser->scratch, json_scan_unescape(value.text, parser->scratch)};
    parser->scratch += id.len;
  }
  bool valid = value.type == JSON_SCAN_STRING && device_id_valid(id);
  if (!valid && out->bad_index == NO_INDEX) out->bad_index = out->count;
  out->ids[out->count++] = id;
  return STATUS_OK;
}

/* A value of another type than wanted: malformed text goes before that. */
static enum status take_other(struct parser *parser) {
  struct json_scan_value value;
  parser->wrong_type = true;
  return json_scan_value(&parser->scan, &value);
}

static bool begins(struct parser *parser, enum json_scan_type wanted) {
  enum json_scan_type type = JSON_SCAN_NULL;
  return json_scan_peek(&parser->scan, &type) && type == wanted;
}

static enum status take_array(struct parser *parser) {
  if (!begins(parser, JSON_SCAN_ARRAY)) return take_other(parser);
  bool more = false;
  enum status status = json_scan_enter(&parser->scan, JSON_SCAN_ARRAY);
  if (status == STATUS_OK) status = json_scan_more(&parser->scan, &more);
  while (status == STATUS_OK && more) {
    status = take_id(parser);
    if (status == STATUS_OK) status = json_scan_more(&parser->scan, &more);
  }
  return status;
}

static enum status take_object(struct parser *parser) {
  if (!begins(parser, JSON_SCAN_OBJECT)) return take_other(parser);
  bool more = false;
  bool has_devices = false;
  enum status status = json_scan_enter(&parser->scan, JSON_SCAN_OBJECT);
  if (status == STATUS_OK) status = json_scan_more(&parser->scan, &more);
  while (status == STATUS_OK && more) {
    struct json_scan_value name;
    if (json_scan_name(&parser->scan, &name) != STATUS_OK) return STATUS_INVALID;
    bool is_devices = json_scan_string_is(&name, STR_LIT("devices"));
    has_devices = has_devices || is_devices;
    status = is_devices ? take_array(parser) : take_other(parser);
    if (status == STATUS_OK) status = json_scan_more(&parser->scan, &more);
  }
  parser->wrong_type = parser->wrong_type || !has_devices;
  return status;
}

enum device_ids_verdict device_ids_parse(struct str body, char *scratch, struct device_ids *out) {
  struct parser parser = {.out = out};
  parser.scratch = scratch;
  out->count = 0;
  out->bad_index = NO_INDEX;
  json_scan_begin(&parser.scan, body);
  enum status status = take_object(&parser);
  if (status == STATUS_OK) status = json_scan_end(&parser.scan);
  if (status == STATUS_TOO_LARGE) return DEVICE_IDS_TOO_MANY;
  if (status != STATUS_OK) {
    out->detail = parser.scan.error;
    out->offset = json_scan_offset(&parser.scan);
    return DEVICE_IDS_MALFORMED;
  }
  if (parser.wrong_type) return DEVICE_IDS_WRONG_TYPE;
  return out->bad_index == NO_INDEX ? DEVICE_IDS_OK : DEVICE_IDS_BAD_ID;
}
