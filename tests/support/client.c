#include "support/test.h"

#include "support/client.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static int connect_unix(const char *path) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  assert_true(strlen(path) < sizeof address.sun_path);
  strcpy(address.sun_path, path);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
  close(fd);
  return -1;
}

static int connect_tcp(const char *text) {
  char host[64];
  const char *colon = strrchr(text, ':');
  assert_non_null(colon);
  bool brackets = text[0] == '[';
  snprintf(host, sizeof host, "%.*s", (int)(colon - text - 2 * brackets), text + brackets);
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV}, *found = NULL;
  if (getaddrinfo(host, colon + 1, &hints, &found) != 0) fail_msg("bad address %s", text);
  int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int failed = connect(fd, found->ai_addr, found->ai_addrlen);
  int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  freeaddrinfo(found);
  if (failed == 0) return fd;
  close(fd);
  return -1;
}

static int connect_to(const char *address) {
  if (address == NULL) fail_msg("the process does not listen");
  return address[0] == '/' ? connect_unix(address) : connect_tcp(address);
}

bool client_try(const char *address) {
  int fd = connect_to(address);
  if (fd >= 0) close(fd);
  return fd >= 0;
}

struct client *client_open(const char *address) {
  struct client *client = calloc(1, sizeof *client);
  assert_non_null(client);
  client->address = address;
  client->response = calloc(1, sizeof *client->response);
  assert_non_null(client->response);
  client->fd = connect_to(address);
  if (client->fd < 0) fail_msg("cannot connect to %s: %s", address, strerror(errno));
  return client;
}

struct client *client_open_as(const char *address, const char *token) {
  struct client *client = client_open(address);
  client->token = token;
  return client;
}

static void clear_response(struct response *response) {
  free(response->headers);
  free(response->body);
  *response = (struct response){0};
}

/* As a client must when the server has said that it closes the connection. */
static void reconnect(struct client *client) {
  close(client->fd);
  client->length = 0;
  clear_response(client->response);
  client->fd = connect_to(client->address);
  if (client->fd < 0) fail_msg("cannot connect again to %s: %s", client->address, strerror(errno));
}

/* On a slow machine a test may leave its connection alone for longer than the service keeps it: a client connects anew then. */
static bool was_closed_while_idle(const struct client *client) {
  struct pollfd ready = {.fd = client->fd, .events = POLLIN};
  char byte;
  return client->length == 0 && poll(&ready, 1, 0) == 1 && recv(client->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0 &&
         client_try(client->address);
}

void client_close(struct client *client) {
  if (client == NULL) return;
  close(client->fd);
  clear_response(client->response);
  free(client->response);
  free(client->data);
  free(client->asked);
  free(client);
}

void client_send(struct client *client, const char *data, size_t length) {
  while (length > 0) {
    ssize_t sent = send(client->fd, data, length, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    /* A server may refuse, answer and close before it has read everything: the answer tells. */
    if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) return;
    if (sent < 0) fail_msg("sending to %s: %s", client->address, strerror(errno));
    data += sent;
    length -= (size_t)sent;
  }
}

void client_send_text(struct client *client, const char *text) { client_send(client, text, strlen(text)); }

void client_ask_bytes(struct client *client, const char *method, const char *path, const char *body, size_t length) {
  if (client->response->close || was_closed_while_idle(client)) reconnect(client);
  free(client->asked);
  if (asprintf(&client->asked, "%s %.200s %.300s", method, path, body != NULL ? body : "") < 0) fail();
  char *request = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&request, &size);
  assert_non_null(out);
  fprintf(out, "%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, client->address);
  if (client->token != NULL) fprintf(out, "Authorization: Bearer %s\r\n", client->token);
  if (client->headers != NULL) fputs(client->headers, out);
  if (body != NULL) fprintf(out, "Content-Length: %zu\r\n", length);
  fputs("\r\n", out);
  if (body != NULL) fwrite(body, 1, length, out);
  fclose(out);
  client_send(client, request, size);
  free(request);
}

void client_ask(struct client *client, const char *method, const char *path, const char *body) {
  client_ask_bytes(client, method, path, body, body != NULL ? strlen(body) : 0);
}

static const char *asked(const struct client *client) { return client->asked != NULL ? client->asked : "(raw bytes)"; }

/* Waits for more bytes; false at the end of the connection. */
static bool receive(struct client *client, int64_t deadline_ms) {
  if (client->room - client->length < 65536) {
    client->room = client->length + 131072;
    client->data = realloc(client->data, client->room);
    assert_non_null(client->data);
  }
  for (;;) {
    struct pollfd ready = {.fd = client->fd, .events = POLLIN};
    int64_t left = deadline_ms - wait_now_ms();
    int count = poll(&ready, 1, left > 0 ? (int)left : 0);
    if (count == 0)
      fail_msg("no answer in time to: %s; so far %zu bytes: %.*s", asked(client), client->length, (int)client->length,
               client->data);
    ssize_t got = recv(client->fd, client->data + client->length, client->room - client->length, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    client->length += (size_t)got;
    return true;
  }
}

static void take(struct client *client, char **to, size_t length) {
  *to = malloc(length + 1);
  assert_non_null(*to);
  memcpy(*to, client->data, length);
  (*to)[length] = '\0';
  client->length -= length;
  memmove(client->data, client->data + length, client->length);
}

const char *response_header(const struct response *response, const char *name) {
  size_t length = strlen(name);
  for (const char *line = strstr(response->headers, "\r\n"); line != NULL; line = strstr(line + 2, "\r\n")) {
    if (strncasecmp(line + 2, name, length) != 0 || line[2 + length] != ':') continue;
    const char *value = line + 3 + length;
    while (*value == ' ') value++;
    return text_format("%.*s", (int)strcspn(value, "\r"), value);
  }
  return NULL;
}

/* Chunked bodies (RFC 9112, 7.1), in place of a length. */
static bool read_chunks(struct client *client, int64_t deadline_ms) {
  struct response *response = client->response;
  for (;;) {
    char *line_end;
    while (client->length == 0 || (line_end = memmem(client->data, client->length, "\r\n", 2)) == NULL)
      if (!receive(client, deadline_ms)) return false;
    size_t size = strtoul(client->data, NULL, 16);
    size_t whole = (size_t)(line_end - client->data) + 2 + size + 2;
    size_t data_at = (size_t)(line_end - client->data) + 2;
    while (client->length < whole)
      if (!receive(client, deadline_ms)) return false;
    response->body = realloc(response->body, response->body_length + size + 1);
    assert_non_null(response->body);
    memcpy(response->body + response->body_length, client->data + data_at, size);
    response->body_length += size;
    response->body[response->body_length] = '\0';
    client->length -= whole;
    memmove(client->data, client->data + whole, client->length);
    if (size == 0) return true;
  }
}

static bool read_body(struct client *client, int64_t deadline_ms) {
  struct response *response = client->response;
  const char *encoding = response_header(response, "Transfer-Encoding");
  if (encoding != NULL) return read_chunks(client, deadline_ms);
  const char *length_text = response_header(response, "Content-Length");
  size_t length = length_text != NULL ? strtoul(length_text, NULL, 10) : 0;
  while (client->length < length)
    if (!receive(client, deadline_ms)) return false;
  take(client, &response->body, length);
  response->body_length = length;
  return true;
}

const struct response *client_read_or_end(struct client *client) {
  struct response *response = client->response;
  clear_response(response);
  int64_t deadline_ms = wait_now_ms() + wait_limit_ms(CLIENT_TIMEOUT_MS);
  char *end;
  while (client->length == 0 || (end = memmem(client->data, client->length, "\r\n\r\n", 4)) == NULL)
    if (!receive(client, deadline_ms)) return NULL;
  take(client, &response->headers, (size_t)(end - client->data) + 4);
  if (strncmp(response->headers, "HTTP/1.1 ", 9) != 0) fail_msg("no HTTP answer: %s", response->headers);
  response->status = (int)strtol(response->headers + 9, NULL, 10);
  if (!read_body(client, deadline_ms)) return NULL;
  const char *connection = response_header(response, "Connection");
  response->close = connection != NULL && strcasecmp(connection, "close") == 0;
  return response;
}

const struct response *client_read(struct client *client) {
  const struct response *response = client_read_or_end(client);
  if (response == NULL) fail_msg("the connection ended without an answer to: %s", asked(client));
  return response;
}

bool client_sees_end(struct client *client, int timeout_ms) {
  struct pollfd ready = {.fd = client->fd, .events = POLLIN};
  if (client->length > 0 || poll(&ready, 1, (int)wait_limit_ms(timeout_ms)) != 1) return false;
  char byte;
  return recv(client->fd, &byte, 1, 0) <= 0;
}

const struct response *client_call(struct client *client, const char *method, const char *path, const char *body) {
  client_ask(client, method, path, body);
  return client_read(client);
}

json_t *expect(struct client *client, int status, const char *method, const char *path, const char *body) {
  const struct response *response = client_call(client, method, path, body);
  if (response->status != status) fail_msg("%s: %d wanted, got %d %s", asked(client), status, response->status, response->body);
  if (response->body_length == 0) return NULL;
  json_error_t error;
  json_t *json = json_loadb(response->body, response->body_length, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
  if (json == NULL) fail_msg("%s: the answer is no JSON (%s): %s", asked(client), error.text, response->body);
  return json;
}

void expect_status(struct client *client, int status, const char *method, const char *path, const char *body) {
  json_decref(expect(client, status, method, path, body));
}

void expect_error(struct client *client, int status, const char *word, const char *method, const char *path, const char *body) {
  json_t *json = expect(client, status, method, path, body);
  if (json == NULL) fail_msg("%s: %d without a body", asked(client), status);
  const char *error = json_string_value(json_object_get(json, "error"));
  const char *message = json_string_value(json_object_get(json, "message"));
  if (json_object_size(json) != 2 || error == NULL || message == NULL || strlen(message) < 5 || *error == '\0' ||
      error[strspn(error, "abcdefghijklmnopqrstuvwxyz_0123456789")] != '\0')
    fail_msg("%s: not {\"error\":word,\"message\":text}: %s", asked(client), client->response->body);
  if (word != NULL && strcmp(error, word) != 0) fail_msg("%s: error %s wanted, got %s", asked(client), word, error);
  json_decref(json);
}
