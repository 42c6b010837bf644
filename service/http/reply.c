#include "reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "request_id.h"
#include "server_state.h"
#include "stream.h"

enum { MESSAGE_MAX = 512, RETRY_AFTER_S = 1, STREAM_BLOCK_BYTES = 1024 /* of the library's, for HTTP/1.0 clients */ };

static const struct {
  unsigned http_status, retry_after_s;
  struct str word, message;
} prepared[PREPARED_COUNT] = {
#define PREPARED(id, status, word, message, retry_after_s)                                                                       \
  [PREPARED_##id] = {(status), (retry_after_s), {(word), sizeof(word) - 1}, {(message), sizeof(message) - 1}},
    PREPARED_REPLIES
#undef PREPARED
};

static enum status error_body(struct buf *body, struct str word, struct str message) {
  enum status status = buf_append_str(body, STR_LIT("{\"error\":"));
  if (status == STATUS_OK) status = buf_append_json_string(body, word);
  if (status == STATUS_OK) status = buf_append_str(body, STR_LIT(",\"message\":"));
  if (status == STATUS_OK) status = buf_append_json_string(body, message);
  if (status == STATUS_OK) status = buf_append_str(body, STR_LIT("}\n"));
  return status;
}

static bool add_header(struct MHD_Response *response, const char *name, const char *value) {
  return MHD_add_response_header(response, name, value) == MHD_YES;
}

/* The headers of every answer. NULL, and the response is gone: no memory. */
static struct MHD_Response *dress(const struct replies *replies, const char *content_type, struct MHD_Response *response) {
  if (response == NULL) return NULL;
  bool made = add_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
  if (content_type != NULL)
    made = made && add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, content_type) &&
           add_header(response, "X-Content-Type-Options", "nosniff");
  if (replies->cors_origin[0] != '\0')
    made = made && add_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_ORIGIN, replies->cors_origin);
  if (replies->closing) made = made && add_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
  if (made) return response;
  MHD_destroy_response(response);
  return NULL;
}

/* Takes the buffer's memory in any case. NULL: no memory. content_type NULL: no body. */
static struct MHD_Response *make(const struct replies *replies, const char *content_type, struct buf *body) {
  struct MHD_Response *response = body->len > 0 ? MHD_create_response_from_buffer(body->len, body->data, MHD_RESPMEM_MUST_FREE)
                                                : MHD_create_response_empty(MHD_RF_NONE);
  if (response != NULL && body->len > 0) *body = (struct buf){0};
  buf_free(body);
  return dress(replies, content_type, response);
}

static bool add_retry_after(struct MHD_Response *response, unsigned seconds) {
  char text[16];
  snprintf(text, sizeof text, "%u", seconds);
  return add_header(response, MHD_HTTP_HEADER_RETRY_AFTER, text);
}

static struct MHD_Response *make_prepared(const struct replies *replies, enum prepared_reply reply) {
  struct buf body = {0};
  bool empty = prepared[reply].word.len == 0;
  if (!empty && error_body(&body, prepared[reply].word, prepared[reply].message) != STATUS_OK) {
    buf_free(&body);
    return NULL;
  }
  struct MHD_Response *response = make(replies, empty ? NULL : "application/json", &body);
  if (response == NULL) return NULL;
  bool made = true;
  if (prepared[reply].retry_after_s > 0) made = add_retry_after(response, prepared[reply].retry_after_s);
  if (prepared[reply].http_status == MHD_HTTP_UNAUTHORIZED)
    made = made && add_header(response, MHD_HTTP_HEADER_WWW_AUTHENTICATE, "Bearer");
  if (made) return response;
  MHD_destroy_response(response);
  return NULL;
}

enum status replies_init(struct replies *replies, const char *cors_origin) {
  *replies = (struct replies){.cors_origin = cors_origin};
  for (unsigned i = 0; i < PREPARED_COUNT; i++) {
    replies->prepared[i] = make_prepared(replies, (enum prepared_reply)i);
    if (replies->prepared[i] == NULL) {
      replies_free(replies);
      return STATUS_NO_MEMORY;
    }
  }
  return STATUS_OK;
}

void replies_close_connections(struct replies *replies) {
  replies->closing = true;
  for (unsigned i = 0; i < PREPARED_COUNT; i++) /* without memory for it a connection is closed all the same, only unannounced */
    (void)add_header(replies->prepared[i], MHD_HTTP_HEADER_CONNECTION, "close");
}

void replies_free(struct replies *replies) {
  for (unsigned i = 0; i < PREPARED_COUNT; i++)
    if (replies->prepared[i] != NULL) MHD_destroy_response(replies->prepared[i]);
  *replies = (struct replies){0};
}

/* The one way out. The library picks the answer up when it runs the connection again. response NULL: there was no memory for it.
 */
static void deliver(struct http_request *request, unsigned http_status, struct MHD_Response *response, bool shared) {
  struct http_server *server = request->server;
  if (response == NULL) {
    http_status = prepared[PREPARED_NO_MEMORY].http_status;
    response = server->replies.prepared[PREPARED_NO_MEMORY];
    shared = true;
  }
  request->http_status = http_status;
  request->response = response;
  request->response_shared = shared;
  server_count(server, request->public.route, http_status);
  int64_t taken_us = clock_monotonic_us(loop_clock(server->loop)) - request->public.started_us;
  metric_observe(server->seconds, (double)taken_us / 1e6);
  if (request->mhd == NULL) {
    dispatch_release(request);
  } else if (request->suspended) {
    request->suspended = false;
    server->run_due = true;
    MHD_resume_connection(request->mhd);
  } else if (request->polled) {
    request->polled = false;
    server->polled_count--;
    server->run_due = true;
    struct connection *connection = request->connection;
    if (dispatch_send(request) != MHD_YES) connections_cut(&server->connections, connection);
  }
}

/* Says in an error's answer which request it answers. Without memory for it the answer goes out as it is. */
static void identify(struct MHD_Response *response, const char *id) {
  if (response != NULL && id[0] != '\0') (void)add_header(response, REQUEST_ID_HEADER, id);
}

/* why: for the log, NULL: the reply's own word. */
static void reply_prepared_because(struct http_request *request, enum prepared_reply reply, const char *why) {
  struct replies *replies = &request->server->replies;
  unsigned http_status = prepared[reply].http_status;
  struct MHD_Response *own = NULL;
  char id[REQUEST_ID_MAX + 1] = "";
  if (http_status >= MHD_HTTP_BAD_REQUEST)
    request_id_for_error(request, http_status, why != NULL ? why : prepared[reply].word.data, id);
  if (id[0] != '\0') own = make_prepared(replies, reply);
  identify(own, id);
  deliver(request, http_status, own != NULL ? own : replies->prepared[reply], own == NULL);
}

void reply_prepared(struct http_request *request, enum prepared_reply reply) { reply_prepared_because(request, reply, NULL); }

void reply_empty(struct request *public, unsigned http_status) {
  struct http_request *request = request_private(public);
  if (http_status == MHD_HTTP_NO_CONTENT) {
    reply_prepared(request, PREPARED_NO_CONTENT);
    return;
  }
  struct buf body = {0};
  deliver(request, http_status, make(&request->server->replies, NULL, &body), false);
}

void reply_text(struct request *public, unsigned http_status, const char *content_type, struct buf *body) {
  struct http_request *request = request_private(public);
  struct MHD_Response *response = make(&request->server->replies, content_type, body);
  if (response != NULL && http_status == MHD_HTTP_SERVICE_UNAVAILABLE && !add_retry_after(response, RETRY_AFTER_S)) {
    MHD_destroy_response(response);
    response = NULL;
  }
  deliver(request, http_status, response, false);
}

bool reply_stream(struct request *public, const char *content_type, struct stream *stream) {
  struct http_request *request = request_private(public);
  int bytes = STREAM_SOCKET_BYTES;
  if (request->mhd == NULL) return false;
  stream->request = public;
  request->stream = stream;
  /* The kernel's own limit is megabytes; without this one the client is only dropped later. */
  (void)setsockopt(request->connection->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
  struct MHD_Response *response =
      MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK_BYTES, stream_read, stream, NULL);
  deliver(request, MHD_HTTP_OK, dress(&request->server->replies, content_type, response), false);
  return true;
}

void reply_json(struct request *public, unsigned http_status, struct buf *body) {
  reply_text(public, http_status, "application/json", body);
}

/* What every answer with a file says, whether or not the bytes go along. */
static bool add_file_headers(const struct replies *replies, struct MHD_Response *response, const struct reply_file *file,
                             const char *etag) {
  bool made = add_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, "no-cache") &&
              add_header(response, MHD_HTTP_HEADER_ETAG, etag) && add_header(response, "X-Content-Type-Options", "nosniff") &&
              add_header(response, "Referrer-Policy", "no-referrer") &&
              add_header(response, "Cross-Origin-Resource-Policy", "same-origin");
  if (file->policy != NULL) made = made && add_header(response, "Content-Security-Policy", file->policy);
  if (replies->closing) made = made && add_header(response, MHD_HTTP_HEADER_CONNECTION, "close");
  return made;
}

void reply_file(struct request *public, const struct reply_file *file) {
  struct http_request *request = request_private(public);
  char etag[24];
  struct str known = STR_NONE;
  snprintf(etag, sizeof etag, "\"%016llx\"", (unsigned long long)file->fingerprint);
  bool unchanged = request_header(public, MHD_HTTP_HEADER_IF_NONE_MATCH, &known) && str_equal(known, str_from(etag));
  struct MHD_Response *response = unchanged ? MHD_create_response_empty(MHD_RF_NONE)
                                            : MHD_create_response_from_buffer_static(file->bytes.len, file->bytes.data);
  bool made = response != NULL && add_file_headers(&request->server->replies, response, file, etag) &&
              (unchanged || add_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, file->content_type));
  if (!made && response != NULL) {
    MHD_destroy_response(response);
    response = NULL;
  }
  deliver(request, unchanged ? MHD_HTTP_NOT_MODIFIED : MHD_HTTP_OK, response, false);
}

/* len: what vsnprintf said. */
static void reply_message(struct http_request *request, unsigned http_status, unsigned retry_after_s, const char *word,
                          const char message[MESSAGE_MAX], int len) {
  struct str text = {message, len < 0 ? 0 : len < MESSAGE_MAX ? (size_t)len : MESSAGE_MAX - 1};
  while (text.len > 0 && !str_is_utf8(text)) text.len--; /* cut within a character */
  struct buf body = {0};
  struct MHD_Response *response = NULL;
  if (error_body(&body, str_from(word), text) == STATUS_OK)
    response = make(&request->server->replies, "application/json", &body);
  else
    buf_free(&body);
  if (response != NULL && retry_after_s > 0 && !add_retry_after(response, retry_after_s)) {
    MHD_destroy_response(response);
    response = NULL;
  }
  char id[REQUEST_ID_MAX + 1];
  request_id_for_error(request, http_status, word, id);
  identify(response, id);
  deliver(request, http_status, response, false);
}

void reply_error(struct request *public, unsigned http_status, const char *word, const char *format, ...) {
  char message[MESSAGE_MAX];
  va_list arguments;
  va_start(arguments, format);
  int len = vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  bool later = http_status == MHD_HTTP_SERVICE_UNAVAILABLE || http_status == MHD_HTTP_TOO_MANY_REQUESTS;
  reply_message(request_private(public), http_status, later ? RETRY_AFTER_S : 0, word, message, len);
}

void reply_retry(struct request *public, unsigned http_status, unsigned retry_after_s, const char *word, const char *format,
                 ...) {
  char message[MESSAGE_MAX];
  va_list arguments;
  va_start(arguments, format);
  int len = vsnprintf(message, sizeof message, format, arguments);
  va_end(arguments);
  reply_message(request_private(public), http_status, retry_after_s, word, message, len);
}

void reply_status(struct request *public, enum status status) {
  struct http_request *request = request_private(public);
  switch (status) {
  case STATUS_UNAVAILABLE:
  case STATUS_CLOSED:
  case STATUS_TIMEOUT: reply_prepared(request, PREPARED_UNAVAILABLE); return;
  case STATUS_INITIALISING: reply_prepared(request, PREPARED_INITIALISING); return;
  case STATUS_FULL: reply_prepared(request, PREPARED_BUSY); return;
  case STATUS_STALE: reply_prepared(request, PREPARED_STALE); return;
  case STATUS_NO_MEMORY: reply_prepared(request, PREPARED_NO_MEMORY); return;
  default: reply_prepared_because(request, PREPARED_INTERNAL, status_name(status));
  }
}

void reply_postgres_status(struct request *public, enum status status) {
  if (status == STATUS_UNAVAILABLE || status == STATUS_CLOSED || status == STATUS_TIMEOUT)
    reply_prepared(request_private(public), PREPARED_NO_POSTGRES);
  else
    reply_status(public, status);
}

/* An empty answer with an Allow header or its CORS counterpart. */
static void reply_methods(struct http_request *request, unsigned methods, bool preflight) {
  char allow[ALLOW_TEXT_MAX];
  http_methods_format(methods, allow);
  struct buf body = {0};
  struct MHD_Response *response = NULL;
  if (preflight) {
    response = make(&request->server->replies, NULL, &body);
  } else {
    if (error_body(&body, STR_LIT("method_not_allowed"), STR_LIT("this path does not know the method; see the Allow header")) ==
        STATUS_OK)
      response = make(&request->server->replies, "application/json", &body);
    else
      buf_free(&body);
  }
  bool made = response != NULL;
  if (made && preflight)
    made = add_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_METHODS, allow) &&
           add_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_ALLOW_HEADERS,
                      "Authorization, Content-Type, Prefer, Last-Event-ID") &&
           add_header(response, MHD_HTTP_HEADER_ACCESS_CONTROL_MAX_AGE, "600");
  else if (made)
    made = add_header(response, MHD_HTTP_HEADER_ALLOW, allow);
  if (made && !preflight) {
    char id[REQUEST_ID_MAX + 1];
    request_id_for_error(request, MHD_HTTP_METHOD_NOT_ALLOWED, "method_not_allowed", id);
    identify(response, id);
  }
  if (!made && response != NULL) {
    MHD_destroy_response(response);
    response = NULL;
  }
  deliver(request, preflight ? MHD_HTTP_NO_CONTENT : MHD_HTTP_METHOD_NOT_ALLOWED, response, false);
}

void reply_method_not_allowed(struct http_request *request, unsigned methods) { reply_methods(request, methods, false); }
void reply_preflight(struct http_request *request, unsigned methods) { reply_methods(request, methods, true); }
