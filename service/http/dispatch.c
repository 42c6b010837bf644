/* dispatch.c: a request's way in. The library calls dispatch_begin at its request line, dispatch_handle when the headers are in,
 * for each piece of the body, when it is whole, and once more when its answer is there; dispatch_completed at its end. */
#include <stdlib.h>
#include <sys/socket.h>

#include "auth.h"
#include "server_state.h"
#include "stream.h"

enum {
  HEADER_COST_BYTES = 64,               /* what the library needs beside a header's bytes */
  REPLY_ROOM_BYTES = 768,               /* status line and headers of any of our answers */
  DISCARD_MAX_BYTES = BODY_SMALL_BYTES, /* of a refused request's body, so that its connection can stay */
  DISCARD_CHUNKED_MAX_BYTES = 4194304,  /* of a chunked body that is too large, so that its client sees the 413 */
};

static struct connection *connection_of(struct MHD_Connection *mhd) {
  return MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
}

void *dispatch_begin(void *context, const char *uri, struct MHD_Connection *mhd) {
  struct http_server *server = context;
  struct connection *connection = connection_of(mhd);
  struct http_request *request = connection != NULL ? request_take(&server->requests) : NULL;
  if (request == NULL) return NULL; /* dispatch_handle closes the connection */
  const char *mark = strchr(uri, '?');
  if (mark != NULL && mark[1] != '\0' && (request->query_raw = strdup(mark + 1)) == NULL) {
    request_give(&server->requests, request);
    return NULL;
  }
  if (connection->state == CONNECTION_IDLE) connections_move(&server->connections, connection, CONNECTION_RECEIVING);
  request->server = server;
  request->connection = connection;
  request->mhd = mhd;
  request->public.api = server->options.api;
  request->public.route = ROUTE_COUNT;
  server->requests_alive++;
  return request;
}

void dispatch_release(struct http_request *request) {
  struct http_server *server = request->server;
  if (request->response != NULL && !request->response_shared) MHD_destroy_response(request->response);
  body_close(&server->bodies, &request->body);
  server->requests_alive--;
  request_give(&server->requests, request);
}

/* The answer goes out. Before the request is whole the library then closes the connection after it. */
enum MHD_Result dispatch_send(struct http_request *request) {
  struct MHD_Response *response = request->response;
  bool shared = request->response_shared;
  request->phase = PHASE_REPLIED;
  request->response = NULL;
  struct connection *connection = request->connection;
  connection->stream = request->stream;
  connections_move(&request->server->connections, connection,
                   request->stream != NULL ? CONNECTION_STREAM_SENDING : CONNECTION_SENDING);
  enum MHD_Result queued = MHD_queue_response(request->mhd, request->http_status, response);
  if (!shared) MHD_destroy_response(response);
  return queued;
}

/* After a reply that came before the body. A short body is read to its end, so that the connection can stay; with a long one, or
 * where the client waits for a word before it sends, the answer goes out now and the connection is closed. */
static enum MHD_Result refuse(struct http_request *request) {
  bool short_body = request->body_known && request->body_declared <= DISCARD_MAX_BYTES && !request->wants_continue;
  if (!request->body_expected || short_body) {
    request->phase = PHASE_DISCARD;
    return MHD_YES;
  }
  request->connection->rejected_early = true;
  return dispatch_send(request);
}

static enum MHD_Result refuse_with(struct http_request *request, enum prepared_reply reply) {
  reply_prepared(request, reply);
  return refuse(request);
}

static struct str header(const struct http_request *request, const char *name) {
  struct str value = STR_NONE;
  (void)request_header(&request->public, name, &value);
  return value;
}

/* What the headers say of the body; the library has checked their form. */
static void read_framing(struct http_request *request) {
  struct str length = header(request, MHD_HTTP_HEADER_CONTENT_LENGTH);
  int64_t declared = 0;
  if (length.len > 0) {
    request->body_known = true;
    request->body_declared = str_to_int64(length, &declared) == STATUS_OK ? (uint64_t)declared : UINT64_MAX;
    request->body_expected = request->body_declared > 0;
  } else {
    request->body_expected = header(request, MHD_HTTP_HEADER_TRANSFER_ENCODING).len > 0;
  }
  request->wants_continue = request->body_expected && header(request, MHD_HTTP_HEADER_EXPECT).len > 0;
}

/* Token, route and length are fine: the body may come. What else is wrong is told when it has, in the contract's order. */
static enum MHD_Result accept_body(struct http_request *request) {
  if (request->body_known && request->body_declared > route_body_max(request->public.route))
    return refuse_with(request, PREPARED_TOO_LARGE);
  size_t expected = request->body_known ? (size_t)request->body_declared : 0;
  enum status status = body_open(&request->server->bodies, &request->body, expected);
  if (status != STATUS_OK) return refuse_with(request, status == STATUS_FULL ? PREPARED_BODIES_FULL : PREPARED_NO_MEMORY);
  request->phase = PHASE_BODY;
  return MHD_YES;
}

static enum MHD_Result suspend(struct http_request *request) {
  request->suspended = true;
  MHD_suspend_connection(request->mhd);
  return MHD_YES;
}

static void on_directory(struct directory_waiter *waiter, bool refreshed) {
  struct http_request *request = (struct http_request *)(void *)((char *)waiter - offsetof(struct http_request, waiter));
  request->directory_refreshed = refreshed;
  if (request->mhd == NULL) {
    dispatch_release(request);
    return;
  }
  request->suspended = false;
  request->server->run_due = true;
  MHD_resume_connection(request->mhd);
}

/* A token or tenant that this process does not know may have been made a moment ago. */
static enum MHD_Result ask_directory(struct http_request *request) {
  request->waiter = (struct directory_waiter){.done = on_directory, .loop = request->server->loop};
  if (directory_refresh(request->server->options.directory, &request->waiter) != STATUS_OK)
    return refuse_with(request, PREPARED_TOKEN_UNCHECKED);
  request->phase = PHASE_DIRECTORY;
  request->asked_directory = true;
  return suspend(request);
}

static const struct directory_snapshot *newest_snapshot(struct http_server *server) {
  if (server->snapshot == NULL || !directory_is_newest(server->options.directory, server->snapshot)) {
    directory_release(server->snapshot);
    server->snapshot = directory_hold(server->options.directory);
    server->snapshot_serial++;
  }
  return server->snapshot;
}

static enum MHD_Result refuse_unauthorised(struct http_request *request, enum auth_verdict verdict) {
  switch (verdict) {
  case AUTH_UNKNOWN_TOKEN:
  case AUTH_UNKNOWN_TENANT:
    if (!request->asked_directory) return ask_directory(request);
    if (!request->directory_refreshed) return refuse_with(request, PREPARED_TOKEN_UNCHECKED);
    return refuse_with(request, verdict == AUTH_UNKNOWN_TOKEN ? PREPARED_NO_TOKEN : PREPARED_NO_TENANT);
  case AUTH_FORBIDDEN: return refuse_with(request, PREPARED_FORBIDDEN);
  case AUTH_NO_SCOPE: return refuse_with(request, PREPARED_NO_SCOPE);
  default: return refuse_with(request, PREPARED_NO_TOKEN);
  }
}

static enum MHD_Result authorise(struct http_request *request) {
  struct request *public = &request->public;
  unsigned scopes = route_scopes(public->route);
  if (scopes == SCOPE_ADMIN_UNLESS_LOCAL) scopes = request->connection->peer_is_local ? 0 : SCOPE_ADMIN;
  if (scopes == 0) return accept_body(request);

  struct http_server *server = request->server;
  const struct directory_snapshot *snapshot = newest_snapshot(server);
  const struct token *token = NULL;
  const struct tenant *tenant = NULL;
  bool has_tenant = public->tenant_id.data != NULL;
  enum auth_verdict verdict = auth_token(snapshot, server->snapshot_serial, header(request, MHD_HTTP_HEADER_AUTHORIZATION),
                                         &request->connection->auth, clock_monotonic_us(loop_clock(server->loop)), &token);
  if (verdict == AUTH_ALLOWED) verdict = auth_decide(snapshot, token, scopes, has_tenant ? &public->tenant_id : NULL, &tenant);
  if (verdict != AUTH_ALLOWED) return refuse_unauthorised(request, verdict);
  public->scopes = token->scopes;
  if (tenant != NULL) {
    public->tenant = *tenant;
    public->tenant.id = public->tenant_id; /* ours lives as long as the request, the snapshot may not */
  }
  return accept_body(request);
}

bool request_is_allowed(struct request *public) {
  struct http_request *request = request_private(public);
  struct http_server *server = request->server;
  if (request->mhd == NULL) return false;
  const struct directory_snapshot *snapshot = newest_snapshot(server);
  const struct token *token = NULL;
  const struct tenant *tenant = NULL;
  enum auth_verdict verdict = auth_token(snapshot, server->snapshot_serial, header(request, MHD_HTTP_HEADER_AUTHORIZATION),
                                         &request->connection->auth, clock_monotonic_us(loop_clock(server->loop)), &token);
  if (verdict == AUTH_ALLOWED)
    verdict = auth_decide(snapshot, token, route_scopes(public->route),
                          public->tenant_id.data != NULL ? &public->tenant_id : NULL, &tenant);
  return verdict == AUTH_ALLOWED;
}

/* Decodes the ids of the path; a tenant that is none stays one that nobody knows. */
static void read_ids(struct http_request *request, const struct route_match *match) {
  size_t len = 0;
  if (match->has_tenant) {
    if (path_decode(match->tenant, request->tenant_bytes, sizeof request->tenant_bytes, &len) != STATUS_OK) len = 0;
    request->public.tenant_id = (struct str){request->tenant_bytes, len};
  }
  if (match->has_device) {
    if (path_decode(match->device, request->device_bytes, sizeof request->device_bytes, &len) != STATUS_OK) len = 0;
    request->public.device = (struct str){request->device_bytes, len};
  }
  if (match->asset.len > 0 && match->asset.len <= sizeof request->asset_bytes) {
    memcpy(request->asset_bytes, match->asset.data, match->asset.len);
    request->public.asset = (struct str){request->asset_bytes, match->asset.len};
  }
}

/* The library keeps request and answer in one piece of memory. It refuses what does not fit, but where a request just fits there
 * is no room for an answer, and it would close without a word. */
static bool headers_fit(struct MHD_Connection *mhd) {
  size_t used = MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE)->header_size;
  int headers = MHD_get_connection_values(mhd, MHD_HEADER_KIND | MHD_GET_ARGUMENT_KIND, NULL, NULL);
  return used <= HEADERS_MAX_BYTES && used + (size_t)headers * HEADER_COST_BYTES + REPLY_ROOM_BYTES <= CONNECTION_MEMORY_BYTES;
}

static enum MHD_Result refuse_headers(struct http_request *request, const char *url) {
  size_t uri_len = strlen(url) + (request->query_raw != NULL ? strlen(request->query_raw) : 0);
  bool uri_alone = uri_len >= HEADERS_MAX_BYTES;
  const char *text = uri_alone ? "HTTP/1.1 414 URI Too Long\r\nConnection: close\r\nContent-Length: 0\r\n\r\n"
                               : "HTTP/1.1 431 Request Header Fields Too Large\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
  /* No answer is under way on this connection. Under TLS the client sees it closed and no more. */
  if (!request->server->options.tls) (void)send(request->connection->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
  server_count(request->server, ROUTE_COUNT, uri_alone ? MHD_HTTP_URI_TOO_LONG : MHD_HTTP_REQUEST_HEADER_FIELDS_TOO_LARGE);
  return MHD_NO;
}

static enum MHD_Result on_headers(struct http_request *request, const char *url, const char *method_text) {
  struct http_server *server = request->server;
  struct route_match match;
  if (!headers_fit(request->mhd)) return refuse_headers(request, url);
  request->public.started_us = clock_monotonic_us(loop_clock(server->loop));
  read_framing(request);
  enum http_method method = http_method_parse(method_text);
  switch (router_match(method, str_from(url), server->options.only_operational, &match)) {
  case ROUTE_NO_PATH: return refuse_with(request, PREPARED_NO_PATH);
  case ROUTE_NO_METHOD:
    if (method == METHOD_OPTIONS && server->options.cors_origin[0] != '\0')
      reply_preflight(request, match.methods);
    else
      reply_method_not_allowed(request, match.methods);
    return refuse(request);
  case ROUTE_FOUND: break;
  }
  request->public.route = match.route;
  read_ids(request, &match);
  return authorise(request);
}

/* False: the connection is to be closed, there is no end in sight. */
static bool on_body(struct http_request *request, const char *data, size_t size) {
  if (request->phase != PHASE_BODY || request->body_too_large) {
    request->body_discarded += size;
    return request->body_discarded <= DISCARD_CHUNKED_MAX_BYTES;
  }
  if (size > route_body_max(request->public.route) - request->body.len) {
    request->body_too_large = true;
    body_close(&request->server->bodies, &request->body);
    return true;
  }
  enum status status = body_append(&request->server->bodies, &request->body, data, size);
  if (status == STATUS_OK) return true;
  /* A chunked body that outgrew what is free: the rest is dropped and the answer is there when it ends. */
  reply_prepared(request, status == STATUS_FULL ? PREPARED_BODIES_FULL : PREPARED_NO_MEMORY);
  request->phase = PHASE_DISCARD;
  return true;
}

static bool parse_query(struct http_request *request) {
  if (request->query_raw == NULL) return true;
  struct str raw = str_from(request->query_raw);
  struct query *query = request_alloc(&request->public, sizeof *query);
  char *scratch = request_alloc(&request->public, raw.len);
  if (query == NULL || scratch == NULL) {
    reply_prepared(request, PREPARED_NO_MEMORY);
    return false;
  }
  if (query_parse(raw, scratch, query) != STATUS_OK) {
    reply_prepared(request, PREPARED_BAD_QUERY);
    return false;
  }
  request->query = query;
  return true;
}

static void note_whole(struct http_request *request) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(request->mhd, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
  bool countable = info != NULL && !request->server->options.tls && (request->body_known || !request->body_expected);
  connections_request_whole(&request->server->connections, request->connection,
                            countable ? info->header_size + request->body_declared : 0);
}

/* The request is whole: the handler's turn, if nothing is wrong with it. */
static enum MHD_Result on_whole(struct http_request *request) {
  struct request *public = &request->public;
  note_whole(request);
  bool discarded = request->phase == PHASE_DISCARD; /* it has its answer */
  request->phase = PHASE_HANDLING;
  if (!discarded) {
    if (request->body_too_large)
      reply_prepared(request, PREPARED_TOO_LARGE);
    else if (public->device.data != NULL && !device_id_valid(public->device))
      reply_prepared(request, PREPARED_BAD_ID);
    else if (parse_query(request)) {
      public->body = (struct str){request->body.data, request->body.len};
      request->server->options.handlers[public->route](public);
    }
  }
  if (request->http_status != 0) return dispatch_send(request);
  if (request->server->options.tls) return suspend(request); /* what TLS has decrypted must not wait for a run */
  request->polled = true;
  request->server->polled_count++;
  return MHD_YES;
}

/* The library asks for the answer: it is there (the connection was resumed), or the request was polled in vain. */
static enum MHD_Result on_asked(struct http_request *request) {
  if (request->http_status != 0) return dispatch_send(request);
  if (++request->polled_runs < POLLED_RUNS_MAX) return MHD_YES;
  request->polled = false;
  request->server->polled_count--;
  return suspend(request);
}

enum MHD_Result dispatch_handle(void *context, struct MHD_Connection *mhd, const char *url, const char *method,
                                const char *version, const char *upload, size_t *upload_size, void **request_context) {
  (void)context, (void)mhd, (void)version;
  struct http_request *request = *request_context;
  if (request == NULL) return MHD_NO;
  if (*upload_size > 0) {
    bool go_on = on_body(request, upload, *upload_size);
    *upload_size = 0;
    request->server->run_due = true; /* more may have arrived already */
    return go_on ? MHD_YES : MHD_NO;
  }
  switch (request->phase) {
  case PHASE_HEADERS: return on_headers(request, url, method);
  case PHASE_DIRECTORY: return authorise(request);
  case PHASE_BODY:
  case PHASE_DISCARD: return on_whole(request);
  case PHASE_HANDLING: return on_asked(request);
  case PHASE_REPLIED: break;
  }
  return MHD_YES;
}

void dispatch_completed(void *context, struct MHD_Connection *mhd, void **request_context, enum MHD_RequestTerminationCode code) {
  struct http_server *server = context;
  struct http_request *request = *request_context;
  struct connection *connection = connection_of(mhd);
  *request_context = NULL;
  if (request == NULL) return;
  bool awaited = request->http_status == 0 && (request->phase == PHASE_DIRECTORY || request->phase == PHASE_HANDLING);
  server->run_due = true; /* the next request may have arrived already */
  if (request->polled) server->polled_count--;
  if (request->stream != NULL) {
    stream_close(request->stream);
    connection->stream = NULL;
    dispatch_release(request);
  } else if (awaited) {
    request->polled = false;
    request->mhd = NULL;
    request->connection = NULL;
  } else {
    dispatch_release(request);
  }
  if (code == MHD_REQUEST_TERMINATED_COMPLETED_OK && !connection->rejected_early)
    connections_move(&server->connections, connection, CONNECTION_IDLE);
}
