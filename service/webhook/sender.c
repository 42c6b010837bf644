#include "webhook/sender.h"

#include <curl/curl.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "version.h"
#include "webhook/address.h"
#include "webhook/signature.h"

#define CONNECT_TIMEOUT_MS 5000
#define HEADERS_MAX 65536 /* bytes of an answer's headers */
#define BODY_MAX 65536    /* bytes of an answer's body, which are thrown away */
#define ID_MAX 64

struct transfer {
  CURL *easy; /* NULL: was never used */
  bool used;
  struct curl_slist *headers;
  struct sender *sender;
  void *owner, *item;
  size_t header_bytes, body_bytes;
  char forbidden[ADDRESS_TEXT_MAX]; /* the address that was refused; "": none */
  char error[CURL_ERROR_SIZE];
};

struct sender {
  struct sender_options options;
  CURLM *multi;
  struct buf scratch;
  size_t under_way;
  bool global; /* curl_global_init has been called */
  struct transfer transfers[SENDER_TRANSFERS_MAX];
};

const char *sender_outcome_name(enum sender_outcome outcome) {
  static const char *const names[SENDER_OUTCOME_COUNT] = {"delivered", "refused", "gone", "timeout", "unreachable", "forbidden"};
  return names[outcome];
}

enum status sender_new(const struct sender_options *options, struct sender **sender) {
  struct sender *new = calloc(1, sizeof *new);
  if (new == NULL) return STATUS_NO_MEMORY;
  new->options = *options;
  for (size_t i = 0; i < SENDER_TRANSFERS_MAX; i++) new->transfers[i].sender = new;
  new->global = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
  new->multi = new->global ? curl_multi_init() : NULL;
  if (new->multi == NULL || curl_multi_setopt(new->multi, CURLMOPT_MAXCONNECTS, (long)SENDER_TRANSFERS_MAX) != CURLM_OK) {
    sender_free(new);
    return STATUS_NO_MEMORY;
  }
  *sender = new;
  return STATUS_OK;
}

static void end_transfer(struct sender *sender, struct transfer *transfer) {
  (void)curl_multi_remove_handle(sender->multi, transfer->easy);
  curl_slist_free_all(transfer->headers);
  transfer->headers = NULL;
  transfer->used = false;
  sender->under_way--;
}

void sender_free(struct sender *sender) {
  if (sender == NULL) return;
  for (size_t i = 0; i < SENDER_TRANSFERS_MAX; i++) {
    struct transfer *transfer = &sender->transfers[i];
    if (transfer->used) end_transfer(sender, transfer);
    curl_easy_cleanup(transfer->easy);
  }
  curl_multi_cleanup(sender->multi);
  if (sender->global) curl_global_cleanup();
  buf_free(&sender->scratch);
  free(sender);
}

/* ---- callbacks of libcurl */

/* The one place where a connection is made: after DNS, for every address that is tried. */
static curl_socket_t open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address) {
  struct transfer *transfer = context;
  (void)purpose;
  if (!transfer->sender->options.allow_private && !address_is_public(&address->addr)) {
    address_text(&address->addr, transfer->forbidden);
    return CURL_SOCKET_BAD;
  }
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static size_t count_header(const char *data, size_t size, size_t count, void *context) {
  struct transfer *transfer = context;
  (void)data;
  transfer->header_bytes += size * count;
  return transfer->header_bytes <= HEADERS_MAX ? size * count : 0;
}

static size_t discard_body(const char *data, size_t size, size_t count, void *context) {
  struct transfer *transfer = context;
  (void)data;
  transfer->body_bytes += size * count;
  return transfer->body_bytes <= BODY_MAX ? size * count : 0;
}

/* ---- sending */

static enum status add_header(struct transfer *transfer, const char *name, struct str value) {
  char line[128];
  int len = snprintf(line, sizeof line, "%s%.*s", name, STR_ARG(value));
  if (len < 0 || (size_t)len >= sizeof line) return STATUS_TOO_LARGE;
  struct curl_slist *longer = curl_slist_append(transfer->headers, line);
  if (longer == NULL) return STATUS_NO_MEMORY;
  transfer->headers = longer;
  return STATUS_OK;
}

static enum status make_headers(struct sender *sender, struct transfer *transfer, const struct sender_request *request) {
  char signature[WEBHOOK_SIGNATURE_TEXT_MAX], timestamp[24];
  int64_t now_s = clock_realtime_ms(sender->options.clock) / 1000;
  (void)snprintf(timestamp, sizeof timestamp, "%lld", (long long)now_s);
  enum status status = webhook_sign(request->key, request->id, now_s, request->body, &sender->scratch, signature);
  if (status == STATUS_OK) status = add_header(transfer, "Content-Type: application/cloudevents+json", STR_LIT(""));
  if (status == STATUS_OK) status = add_header(transfer, "webhook-id: ", request->id);
  if (status == STATUS_OK) status = add_header(transfer, "webhook-timestamp: ", str_from(timestamp));
  if (status == STATUS_OK) status = add_header(transfer, "webhook-signature: ", str_from(signature));
  return status == STATUS_OK ? add_header(transfer, "Expect:", STR_LIT("")) : status; /* none of it: one round trip */
}

/* What a request of any endpoint has: set once for each handle. */
static bool set_up_handle(const struct sender *sender, struct transfer *transfer) {
  CURL *easy = transfer->easy;
  const struct sender_options *options = &sender->options;
  long connect_ms = options->timeout_ms < CONNECT_TIMEOUT_MS ? (long)options->timeout_ms : CONNECT_TIMEOUT_MS;
  bool ok = curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https") == CURLE_OK;
  ok = ok && curl_easy_setopt(easy, CURLOPT_FOLLOWLOCATION, 0L) == CURLE_OK;
  ok = ok && curl_easy_setopt(easy, CURLOPT_PROXY, "") == CURLE_OK;
  ok = ok && curl_easy_setopt(easy, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED) == CURLE_OK;
  ok = ok && curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) == CURLE_OK;
  ok = ok && curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L) == CURLE_OK;
  ok = ok && curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L) == CURLE_OK;
  if (options->ca_file[0] != '\0') {
    ok = ok && curl_easy_setopt(easy, CURLOPT_CAINFO, options->ca_file) == CURLE_OK;
    ok = ok && curl_easy_setopt(easy, CURLOPT_CAPATH, NULL) == CURLE_OK;
  }
  ok = ok && curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L) == CURLE_OK;
  ok = ok && curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L) == CURLE_OK; /* no waiting for a resolver that hangs */
  ok = ok && curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, connect_ms) == CURLE_OK;
  ok = ok && curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)options->timeout_ms) == CURLE_OK;
  ok = ok && curl_easy_setopt(easy, CURLOPT_USERAGENT, "presence/" PRESENCE_VERSION) == CURLE_OK;
  ok = ok && curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket) == CURLE_OK;
  ok = ok && curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, transfer) == CURLE_OK;
  ok = ok && curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, count_header) == CURLE_OK;
  ok = ok && curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer) == CURLE_OK;
  ok = ok && curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, discard_body) == CURLE_OK;
  ok = ok && curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer) == CURLE_OK;
  ok = ok && curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->error) == CURLE_OK;
  ok = ok && curl_easy_setopt(easy, CURLOPT_PRIVATE, transfer) == CURLE_OK;
  return ok && curl_easy_setopt(easy, CURLOPT_POST, 1L) == CURLE_OK;
}

static bool set_up_request(struct transfer *transfer, const struct sender_request *request) {
  CURL *easy = transfer->easy;
  bool ok = curl_easy_setopt(easy, CURLOPT_URL, request->url) == CURLE_OK;
  ok = ok && curl_easy_setopt(easy, CURLOPT_HTTPHEADER, transfer->headers) == CURLE_OK;
  ok = ok && curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)request->body.len) == CURLE_OK;
  return ok && curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request->body.data) == CURLE_OK;
}

static struct transfer *find_free(struct sender *sender) {
  for (size_t i = 0; i < SENDER_TRANSFERS_MAX; i++)
    if (!sender->transfers[i].used) return &sender->transfers[i];
  return NULL;
}

static bool make_handle(const struct sender *sender, struct transfer *transfer) {
  if (transfer->easy != NULL) return true;
  transfer->easy = curl_easy_init();
  if (transfer->easy != NULL && set_up_handle(sender, transfer)) return true;
  curl_easy_cleanup(transfer->easy);
  transfer->easy = NULL;
  return false;
}

enum status sender_send(struct sender *sender, const struct sender_request *request) {
  struct transfer *transfer = find_free(sender);
  if (transfer == NULL) return STATUS_FULL;
  if (!make_handle(sender, transfer)) return STATUS_REFUSED;
  transfer->owner = request->owner;
  transfer->item = request->item;
  transfer->header_bytes = transfer->body_bytes = 0;
  transfer->forbidden[0] = transfer->error[0] = '\0';
  enum status status = make_headers(sender, transfer, request);
  if (status == STATUS_OK &&
      (!set_up_request(transfer, request) || curl_multi_add_handle(sender->multi, transfer->easy) != CURLM_OK))
    status = STATUS_REFUSED;
  if (status != STATUS_OK) {
    curl_slist_free_all(transfer->headers);
    transfer->headers = NULL;
    return status;
  }
  transfer->used = true;
  sender->under_way++;
  return STATUS_OK;
}

void sender_abandon(struct sender *sender, const void *owner) {
  for (size_t i = 0; i < SENDER_TRANSFERS_MAX && sender->under_way > 0; i++)
    if (sender->transfers[i].used && sender->transfers[i].owner == owner) end_transfer(sender, &sender->transfers[i]);
}

bool sender_has_room(const struct sender *sender) { return sender->under_way < SENDER_TRANSFERS_MAX; }
size_t sender_under_way(const struct sender *sender) { return sender->under_way; }

/* ---- results */

static enum sender_outcome judge(const struct transfer *transfer, CURLcode code, long http_status) {
  /* An answer that was cut because of its length has said all that matters. */
  bool answered = code == CURLE_OK || (code == CURLE_WRITE_ERROR && transfer->body_bytes > BODY_MAX);
  if (!answered && transfer->forbidden[0] != '\0') return SENDER_FORBIDDEN;
  if (!answered) return code == CURLE_OPERATION_TIMEDOUT ? SENDER_TIMEOUT : SENDER_UNREACHABLE;
  if (http_status >= 200 && http_status < 300) return SENDER_DELIVERED;
  return http_status == 410 ? SENDER_GONE : SENDER_REFUSED;
}

static void explain(const struct transfer *transfer, CURLcode code, long http_status, struct sender_result *result) {
  const char *text = transfer->error[0] != '\0' ? transfer->error : curl_easy_strerror(code);
  switch (result->outcome) {
  case SENDER_DELIVERED: result->error[0] = '\0'; break;
  case SENDER_REFUSED:
  case SENDER_GONE: (void)snprintf(result->error, sizeof result->error, "status %ld", http_status); break;
  case SENDER_FORBIDDEN:
    (void)snprintf(result->error, sizeof result->error, "%s is no public address", transfer->forbidden);
    break;
  default:
    if (transfer->header_bytes > HEADERS_MAX) text = "the answer's headers are too large";
    (void)snprintf(result->error, sizeof result->error, "%s", text);
  }
  for (char *at = result->error; *at != '\0'; at++)
    if ((unsigned char)*at < ' ' || (unsigned char)*at >= 0x7f) *at = ' ';
}

bool sender_next_result(struct sender *sender, struct sender_result *result) {
  int left;
  CURLMsg *message;
  while ((message = curl_multi_info_read(sender->multi, &left)) != NULL) {
    char *context = NULL;
    long http_status = 0;
    curl_off_t retry_after_s = 0;
    if (message->msg != CURLMSG_DONE) continue;
    CURLcode code = message->data.result; /* the message goes with the handle */
    CURL *easy = message->easy_handle;
    (void)curl_easy_getinfo(easy, CURLINFO_PRIVATE, &context);
    (void)curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &http_status);
    (void)curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &retry_after_s);
    struct transfer *transfer = (struct transfer *)(void *)context;
    *result = (struct sender_result){.owner = transfer->owner, .item = transfer->item};
    result->outcome = judge(transfer, code, http_status);
    if (retry_after_s > 0 && (result->outcome == SENDER_REFUSED || result->outcome == SENDER_GONE))
      result->retry_after_ms = (retry_after_s < INT_MAX ? retry_after_s : INT_MAX) * (int64_t)1000;
    explain(transfer, code, http_status, result);
    end_transfer(sender, transfer);
    return true;
  }
  return false;
}

enum status sender_perform(struct sender *sender) {
  int running;
  return curl_multi_perform(sender->multi, &running) == CURLM_OK ? STATUS_OK : STATUS_NO_MEMORY;
}

bool sender_wait(struct sender *sender, int extra_fd, int64_t timeout_ms) {
  struct curl_waitfd extra = {.fd = extra_fd, .events = CURL_WAIT_POLLIN};
  int limit_ms = timeout_ms > INT_MAX ? INT_MAX : timeout_ms > 0 ? (int)timeout_ms : 0;
  (void)curl_multi_poll(sender->multi, &extra, extra_fd >= 0 ? 1 : 0, limit_ms, NULL);
  return extra.revents != 0;
}

void sender_wake(struct sender *sender) { (void)curl_multi_wakeup(sender->multi); }
