#include "sim_request.h"

enum { DIGITS_MAX = 10 };

static enum status append_common(struct buf *out, const struct sim_options *options, const struct sim_url *url) {
  enum status status = buf_printf(out, " HTTP/1.1\r\nHost: %.*s\r\n", STR_ARG(url->authority));
  if (status != STATUS_OK || options->token[0] == '\0') return status;
  return buf_printf(out, "Authorization: Bearer %s\r\n", options->token);
}

static enum status append_path(struct buf *out, const struct sim_options *options, const struct sim_url *url, const char *rest) {
  enum status status = buf_printf(out, "POST %.*s/v1/tenants/", STR_ARG(url->path));
  if (status == STATUS_OK) status = sim_append_segment(out, str_from(options->tenant));
  return status == STATUS_OK ? buf_append_str(out, str_from(rest)) : status;
}

static enum status make_single(struct sim_request_form *form, const struct sim_options *options, const struct sim_url *url) {
  struct buf body = {0};
  enum status status = STATUS_OK;
  if (options->ttl_ms > 0) status = buf_printf(&body, "{\"ttl_ms\":%lld}", (long long)options->ttl_ms);
  if (status == STATUS_OK) status = append_path(&form->single_head, options, url, "/devices/");
  if (status == STATUS_OK) status = sim_append_segment(&form->single_head, str_from(options->prefix));
  if (status == STATUS_OK) status = buf_append_str(&form->single_tail, STR_LIT("/heartbeat"));
  if (status == STATUS_OK) status = append_common(&form->single_tail, options, url);
  if (status == STATUS_OK)
    status = buf_printf(&form->single_tail, "Content-Length: %zu\r\n\r\n%.*s", body.len,
                        STR_ARG(body.len > 0 ? buf_str(&body) : STR_LIT("")));
  buf_free(&body);
  return status;
}

static enum status make_batch(struct sim_request_form *form, const struct sim_options *options, const struct sim_url *url) {
  enum status status = append_path(&form->batch_head, options, url, "/heartbeats");
  if (status == STATUS_OK) status = append_common(&form->batch_head, options, url);
  if (status == STATUS_OK)
    status = buf_append_str(&form->batch_head, STR_LIT("Content-Type: application/json\r\nContent-Length: "));
  if (status == STATUS_OK) status = buf_append_str(&form->item_head, STR_LIT("{\"device\":"));
  if (status == STATUS_OK) status = buf_append_json_string(&form->item_head, str_from(options->prefix));
  if (status != STATUS_OK) return status;
  form->item_head.len--; /* the number comes before the closing quote */
  if (options->ttl_ms > 0) return buf_printf(&form->item_tail, "\",\"ttl_ms\":%lld}", (long long)options->ttl_ms);
  return buf_append_str(&form->item_tail, STR_LIT("\"}"));
}

/* text with each {device} filled in by the prefix, as it is or as a path segment, and digits that are still to come. */
static enum status append_given(struct sim_request_form *form, const struct sim_options *options, const char *text,
                                bool in_path) {
  static const char place[] = "{device}";
  enum status status = STATUS_OK;
  const char *at = text;
  for (const char *next; status == STATUS_OK && (next = strstr(at, place)) != NULL; at = next + sizeof place - 1) {
    if (form->place_count == SIM_PLACES_MAX) return STATUS_TOO_LARGE;
    status = buf_append(&form->given, at, (size_t)(next - at));
    struct str prefix = str_from(options->prefix);
    if (status == STATUS_OK) status = in_path ? sim_append_segment(&form->given, prefix) : buf_append_str(&form->given, prefix);
    form->places[form->place_count++] = form->given.len;
    if (status == STATUS_OK) status = buf_append(&form->given, "0000000000", (size_t)form->digits);
  }
  return status == STATUS_OK ? buf_append_str(&form->given, str_from(at)) : status;
}

/* The body is written once before, to know its length. */
static enum status make_given(struct sim_request_form *form, const struct sim_options *options, const struct sim_url *url) {
  enum status status = append_given(form, options, options->body, false);
  size_t body_len = form->given.len;
  buf_clear(&form->given);
  form->place_count = 0;
  if (status == STATUS_OK) status = append_given(form, options, options->request, true);
  if (status == STATUS_OK) status = append_common(&form->given, options, url);
  if (status == STATUS_OK && (body_len > 0 || strncmp(options->request, "POST ", 5) == 0))
    status = buf_printf(&form->given, "Content-Length: %zu\r\n", body_len);
  if (status == STATUS_OK) status = buf_append_str(&form->given, STR_LIT("\r\n"));
  return status == STATUS_OK ? append_given(form, options, options->body, false) : status;
}

enum status sim_request_form_new(struct sim_request_form *form, const struct sim_options *options, const struct sim_url *url) {
  *form = (struct sim_request_form){.digits = 1};
  for (int64_t largest = options->devices - 1; largest >= 10; largest /= 10) form->digits++;
  enum status status = make_single(form, options, url);
  if (status == STATUS_OK) status = make_batch(form, options, url);
  if (status == STATUS_OK && options->request[0] != '\0') status = make_given(form, options, url);
  if (status != STATUS_OK) sim_request_form_free(form);
  return status;
}

void sim_request_form_free(struct sim_request_form *form) {
  buf_free(&form->single_head);
  buf_free(&form->single_tail);
  buf_free(&form->batch_head);
  buf_free(&form->item_head);
  buf_free(&form->item_tail);
  buf_free(&form->given);
}

/* The number with its leading zeros. */
static struct str number_of(const struct sim_request_form *form, uint32_t device, char digits[DIGITS_MAX]) {
  for (int i = form->digits - 1; i >= 0; i--) {
    digits[i] = (char)('0' + device % 10);
    device /= 10;
  }
  return (struct str){digits, (size_t)form->digits};
}

static enum status append_three(struct buf *out, const struct buf *head, struct str middle, const struct buf *tail) {
  enum status status = buf_reserve(out, head->len + middle.len + tail->len); /* so that the appends cannot fail */
  if (status == STATUS_OK) status = buf_append_str(out, buf_str(head));
  if (status == STATUS_OK) status = buf_append_str(out, middle);
  return status == STATUS_OK ? buf_append_str(out, buf_str(tail)) : status;
}

enum status sim_request_single(const struct sim_request_form *form, uint32_t device, struct buf *out) {
  char digits[DIGITS_MAX];
  buf_clear(out);
  return append_three(out, &form->single_head, number_of(form, device, digits), &form->single_tail);
}

enum status sim_request_given(const struct sim_request_form *form, uint32_t device, struct buf *out) {
  char digits[DIGITS_MAX];
  struct str number = number_of(form, device, digits);
  buf_clear(out);
  enum status status = buf_append_str(out, buf_str(&form->given));
  for (size_t i = 0; i < form->place_count && status == STATUS_OK; i++)
    memcpy(out->data + form->places[i], number.data, number.len);
  return status;
}

enum status sim_request_named(const struct sim_request_form *form, struct str device, struct buf *out) {
  struct buf segment = {0};
  enum status status = sim_append_segment(&segment, device);
  buf_clear(out);
  if (status == STATUS_OK) status = append_three(out, &form->single_head, buf_str(&segment), &form->single_tail);
  buf_free(&segment);
  return status;
}

enum status sim_request_batch(const struct sim_request_form *form, const uint32_t *devices, size_t count, struct buf *out) {
  size_t item = form->item_head.len + (size_t)form->digits + form->item_tail.len;
  size_t body = count > 0 ? count * (item + 1) + 1 : 2; /* brackets, and a comma between each two */
  buf_clear(out);
  enum status status = buf_append_str(out, buf_str(&form->batch_head));
  if (status == STATUS_OK) status = buf_printf(out, "%zu\r\n\r\n[", body);
  for (size_t i = 0; i < count && status == STATUS_OK; i++) {
    char digits[DIGITS_MAX];
    if (i > 0) status = buf_append_str(out, STR_LIT(","));
    if (status == STATUS_OK) status = append_three(out, &form->item_head, number_of(form, devices[i], digits), &form->item_tail);
  }
  return status == STATUS_OK ? buf_append_str(out, STR_LIT("]")) : status;
}
