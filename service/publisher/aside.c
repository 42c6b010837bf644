#include "publisher/aside.h"

#include "log.h"
#include "outbox.h"

static enum status append_text(struct buf *out, const redisReply *text) {
  struct str str = {text->str, text->len};
  if (text->str == NULL) return buf_append_json_string(out, STR_LIT(""));
  if (str_is_utf8(str) && memchr(str.data, '\0', str.len) == NULL) return buf_append_json_string(out, str);
  struct buf plain = {0};
  enum status status = buf_append_str(&plain, str);
  for (size_t i = 0; i < plain.len; i++) {
    unsigned char byte = (unsigned char)plain.data[i];
    if (byte < 0x20 || byte > 0x7e) plain.data[i] = '?';
  }
  if (status == STATUS_OK) status = buf_append_json_string(out, buf_str(&plain));
  buf_free(&plain);
  return status;
}

enum status aside_format(const redisReply *fields, struct buf *out) {
  size_t count = fields == NULL ? 0 : fields->elements;
  enum status status = buf_append_str(out, STR_LIT("{"));
  for (size_t i = 0; status == STATUS_OK && i + 1 < count; i += 2) {
    if (i > 0) status = buf_append_str(out, STR_LIT(","));
    if (status == STATUS_OK) status = append_text(out, fields->element[i]);
    if (status == STATUS_OK) status = buf_append_str(out, STR_LIT(":"));
    if (status == STATUS_OK) status = append_text(out, fields->element[i + 1]);
  }
  return status == STATUS_OK ? buf_append_str(out, STR_LIT("}")) : status;
}

enum status aside_put(struct pg_client *client, uint32_t partition, const struct stream_entry *entry) {
  char id[SESSION_ID_TEXT_MAX];
  struct buf fields = {0};
  session_id_format(entry->id, id);
  enum status status = aside_format(entry->fields, &fields);
  if (status == STATUS_OK) {
    status = outbox_reject(client, partition, entry->id, buf_str(&fields), "stream entry does not decode");
  }
  if (status == STATUS_OK) {
    log_error("stream_entry_put_aside", LOG_INT("partition", partition), LOG_STR("entry", id),
              LOG_TEXT("fields", buf_str(&fields)));
  }
  buf_free(&fields);
  return status;
}
