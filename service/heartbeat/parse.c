#include "parse.h"

enum field { FIELD_DEVICE, FIELD_TTL_MS, FIELD_META, FIELD_UNKNOWN };
enum { ESCAPED_DEVICE_MAX = 6 * DEVICE_ID_MAX }; /* \u00xx takes six bytes for one */

/* The first fault of an item counts; scanning goes on, since only a whole text tells whether it is JSON. */
static void note(struct parse_verdict *verdict, enum parse_error error) {
  if (verdict->error == PARSE_OK) verdict->error = error;
}

static enum status note_malformed(struct parse_verdict *verdict, const struct json_scan *scan) {
  *verdict = (struct parse_verdict){.error = PARSE_MALFORMED, .detail = scan->error, .offset = json_scan_offset(scan)};
  return STATUS_INVALID;
}

static enum field field_of(const struct json_scan_value *name) {
  if (json_scan_string_is(name, STR_LIT("device"))) return FIELD_DEVICE;
  if (json_scan_string_is(name, STR_LIT("ttl_ms"))) return FIELD_TTL_MS;
  if (json_scan_string_is(name, STR_LIT("meta"))) return FIELD_META;
  return FIELD_UNKNOWN;
}

static void take_device(const struct json_scan_value *value, struct parse_fields *fields, struct parse_verdict *verdict) {
  struct str device = value->text;
  if (value->type != JSON_SCAN_STRING || device.len > ESCAPED_DEVICE_MAX) {
    note(verdict, PARSE_DEVICE);
    return;
  }
  if (value->escaped) {
    char meaning[ESCAPED_DEVICE_MAX];
    device = (struct str){fields->unescaped, json_scan_unescape(value->text, meaning)};
    memcpy(fields->unescaped, meaning, device.len < DEVICE_ID_MAX ? device.len : DEVICE_ID_MAX);
  }
  if (device.len > DEVICE_ID_MAX || !device_id_valid(device))
    note(verdict, PARSE_DEVICE);
  else
    fields->device = device;
}

static void take_ttl(const struct json_scan_value *value, const struct parse_limits *limits, struct parse_fields *fields,
                     struct parse_verdict *verdict) {
  int64_t least_ms = limits->min_ttl_ms > TTL_MIN_MS ? limits->min_ttl_ms : TTL_MIN_MS;
  if (value->type != JSON_SCAN_INTEGER)
    note(verdict, PARSE_TTL_TYPE);
  else if (value->faults != 0 || value->integer < least_ms || value->integer > limits->max_ttl_ms)
    note(verdict, PARSE_TTL_RANGE);
  else
    fields->ttl_ms = value->integer;
}

static void take_meta(const struct json_scan_value *value, struct parse_fields *fields, struct parse_verdict *verdict) {
  if (value->type == JSON_SCAN_NULL) {
    fields->meta_action = META_REMOVE;
    return;
  }
  if (value->type != JSON_SCAN_OBJECT)
    note(verdict, PARSE_META_TYPE);
  else if (value->text.len > META_MAX_BYTES)
    note(verdict, PARSE_META_SIZE);
  else if (value->depth > META_MAX_DEPTH)
    note(verdict, PARSE_META_DEPTH);
  else if ((value->faults & JSON_SCAN_FAULT_NUL) != 0)
    note(verdict, PARSE_META_NUL);
  else if ((value->faults & JSON_SCAN_FAULT_INTEGER) != 0)
    note(verdict, PARSE_META_INTEGER);
  else if ((value->faults & JSON_SCAN_FAULT_REAL) != 0)
    note(verdict, PARSE_META_REAL);
  fields->meta_action = META_SET;
  fields->meta = value->text;
}

/* STATUS_INVALID: malformed, as verdict says. */
static enum status take_fields(struct json_scan *scan, bool in_batch, const struct parse_limits *limits,
                               struct parse_fields *fields, struct parse_verdict *verdict) {
  if (json_scan_enter(scan, JSON_SCAN_OBJECT) != STATUS_OK) return note_malformed(verdict, scan);
  bool more = false;
  bool has_device = false;
  for (;;) {
    struct json_scan_value name;
    struct json_scan_value value;
    if (json_scan_more(scan, &more) != STATUS_OK) return note_malformed(verdict, scan);
    if (!more) break;
    if (json_scan_name(scan, &name) != STATUS_OK || json_scan_value(scan, &value) != STATUS_OK)
      return note_malformed(verdict, scan);
    enum field field = field_of(&name);
    if (field == FIELD_DEVICE && in_batch) {
      has_device = true;
      take_device(&value, fields, verdict);
    } else if (field == FIELD_TTL_MS) {
      take_ttl(&value, limits, fields, verdict);
    } else if (field == FIELD_META) {
      take_meta(&value, fields, verdict);
    } else if (verdict->error == PARSE_OK) {
      verdict->name = name.text;
      verdict->error = PARSE_UNKNOWN_FIELD;
    }
  }
  if (in_batch && !has_device) note(verdict, PARSE_NO_DEVICE);
  return STATUS_OK;
}

static void clear(struct parse_fields *fields, struct parse_verdict *verdict, const struct parse_limits *limits) {
  fields->device = fields->meta = STR_NONE;
  fields->ttl_ms = limits->default_ttl_ms;
  fields->meta_action = META_KEEP;
  *verdict = (struct parse_verdict){.error = PARSE_OK};
}

/* Any JSON value of another kind than wanted, so that malformed text is told as such. */
static enum status take_other(struct json_scan *scan, enum parse_error error, struct parse_verdict *verdict) {
  struct json_scan_value value;
  if (json_scan_value(scan, &value) != STATUS_OK) return note_malformed(verdict, scan);
  verdict->error = error;
  return STATUS_OK;
}

enum parse_error parse_heartbeat(struct str body, const struct parse_limits *limits, struct parse_fields *fields,
                                 struct parse_verdict *verdict) {
  clear(fields, verdict, limits);
  if (body.len == 0) return PARSE_OK;
  struct json_scan scan;
  json_scan_begin(&scan, body);
  enum json_scan_type type = JSON_SCAN_NULL;
  bool is_object = json_scan_peek(&scan, &type) && type == JSON_SCAN_OBJECT;
  enum status status =
      is_object ? take_fields(&scan, false, limits, fields, verdict) : take_other(&scan, PARSE_NOT_OBJECT, verdict);
  if (status == STATUS_OK && json_scan_end(&scan) != STATUS_OK) (void)note_malformed(verdict, &scan);
  return verdict->error;
}

enum status parse_disconnect(struct str body, bool *has_session, struct session_id *session, const char **message) {
  *has_session = false;
  if (body.len == 0) return STATUS_OK;
  struct json_scan scan;
  struct json_scan_value name;
  struct json_scan_value value;
  bool more = false;
  *message = "the body must be empty or {\"session\":\"…\"} with a session id as answers give it";
  json_scan_begin(&scan, body);
  if (json_scan_enter(&scan, JSON_SCAN_OBJECT) != STATUS_OK || json_scan_more(&scan, &more) != STATUS_OK) return STATUS_INVALID;
  if (more) {
    if (json_scan_name(&scan, &name) != STATUS_OK || !json_scan_string_is(&name, STR_LIT("session")) ||
        json_scan_value(&scan, &value) != STATUS_OK || value.type != JSON_SCAN_STRING || value.escaped ||
        session_id_parse(value.text, session) != STATUS_OK || json_scan_more(&scan, &more) != STATUS_OK || more)
      return STATUS_INVALID;
    *has_session = true;
  }
  return json_scan_end(&scan);
}

/* ---- Batches */

static enum status take_item(struct parse_batch *batch, struct parse_fields *fields, struct parse_verdict *verdict) {
  enum json_scan_type type = JSON_SCAN_NULL;
  bool known = json_scan_peek(&batch->scan, &type);
  if (known && type == JSON_SCAN_OBJECT) return take_fields(&batch->scan, true, batch->limits, fields, verdict);
  if (!known || type != JSON_SCAN_STRING) return take_other(&batch->scan, PARSE_NOT_ITEM, verdict);
  struct json_scan_value value;
  if (json_scan_value(&batch->scan, &value) != STATUS_OK) return note_malformed(verdict, &batch->scan);
  take_device(&value, fields, verdict);
  return STATUS_OK;
}

enum status parse_batch_begin(struct parse_batch *batch, struct str body, bool lines, const struct parse_limits *limits,
                              struct parse_verdict *verdict) {
  batch->limits = limits;
  batch->lines = lines;
  batch->rest = body;
  if (lines) return STATUS_OK;
  json_scan_begin(&batch->scan, body);
  return json_scan_enter(&batch->scan, JSON_SCAN_ARRAY) == STATUS_OK ? STATUS_OK : note_malformed(verdict, &batch->scan);
}

static enum status next_element(struct parse_batch *batch, bool *more, struct parse_fields *fields,
                                struct parse_verdict *verdict) {
  if (json_scan_more(&batch->scan, more) != STATUS_OK) return note_malformed(verdict, &batch->scan);
  if (*more) return take_item(batch, fields, verdict);
  return json_scan_end(&batch->scan) == STATUS_OK ? STATUS_OK : note_malformed(verdict, &batch->scan);
}

static bool is_blank(struct str line) {
  for (size_t i = 0; i < line.len; i++)
    if (line.data[i] != ' ' && line.data[i] != '\t' && line.data[i] != '\r') return false;
  return true;
}

static struct str next_line(struct str *rest) {
  const char *end = rest->len == 0 ? NULL : memchr(rest->data, '\n', rest->len);
  struct str line = *rest;
  if (end != NULL) line.len = (size_t)(end - rest->data);
  size_t used = end == NULL ? line.len : line.len + 1;
  rest->data += used;
  rest->len -= used;
  return line;
}

enum status parse_batch_next(struct parse_batch *batch, bool *more, struct parse_fields *fields, struct parse_verdict *verdict) {
  clear(fields, verdict, batch->limits);
  if (!batch->lines) return next_element(batch, more, fields, verdict);
  *more = false;
  while (batch->rest.len > 0 && !*more) {
    struct str line = next_line(&batch->rest);
    if (is_blank(line)) continue;
    *more = true;
    json_scan_begin(&batch->scan, line);
    enum status status = take_item(batch, fields, verdict);
    if (status == STATUS_OK && json_scan_end(&batch->scan) != STATUS_OK) status = note_malformed(verdict, &batch->scan);
    if (status != STATUS_OK) fields->device = STR_NONE; /* what a broken line seems to say is nothing to rely on */
  }
  return STATUS_OK;
}

/* ---- Words and messages */

static const struct {
  const char *word, *message;
} errors[] = {
    [PARSE_OK] = {"", ""},
#define PARSE_ERROR(id, word, message) [PARSE_##id] = {word, message},
#include "parse_errors.def"
#undef PARSE_ERROR
};

const char *parse_error_word(enum parse_error error) { return errors[error].word; }

/* A name in a message: not more of it than helps, cut between characters. */
static struct str shortened(struct str name) {
  enum { NAME_MAX_BYTES = 64 };
  size_t len = 0;
  while (len < name.len && len < NAME_MAX_BYTES) {
    size_t size = str_utf8_sequence((struct str){name.data + len, name.len - len});
    if (size == 0) break;
    len += size;
  }
  return (struct str){name.data, len};
}

static enum status append_argument(struct buf *out, char which, const struct parse_verdict *verdict,
                                   const struct parse_limits *limits) {
  switch (which) {
  case '1': return buf_append_str(out, shortened(verdict->name));
  case '2': return buf_append_int64(out, limits->min_ttl_ms > TTL_MIN_MS ? limits->min_ttl_ms : TTL_MIN_MS);
  case '3': return buf_append_int64(out, limits->max_ttl_ms);
  case '4': return buf_append_str(out, str_from(verdict->detail));
  default: return buf_append_int64(out, (int64_t)verdict->offset);
  }
}

enum status parse_error_message(struct buf *out, const struct parse_verdict *verdict, const struct parse_limits *limits) {
  const char *at = errors[verdict->error].message;
  enum status status = STATUS_OK;
  while (status == STATUS_OK && *at != '\0') {
    if (*at == '%') {
      status = append_argument(out, at[1], verdict, limits);
      at += 2;
    } else {
      size_t run = strcspn(at, "%");
      status = buf_append(out, at, run);
      at += run;
    }
  }
  return status;
}
