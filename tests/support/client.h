/* client.h: a small HTTP/1.1 client (RFC 9112) that a test drives like a conversation: send, then expect. One connection, kept
 * alive; requests may be pipelined by sending several before reading. */
#ifndef PRESENCE_TEST_CLIENT_H
#define PRESENCE_TEST_CLIENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct client {
  const char *address;
  const char *token;   /* sent as bearer; NULL: none */
  const char *headers; /* further header lines, each closed by \r\n; may be NULL */
  /* private */
  int fd;
  char *data; /* received, not yet read */
  size_t length, room;
  char *asked; /* the last request line, for failure messages */
  struct response *response;
};

struct response {
  int status;
  char *headers; /* all lines as received, with status line */
  char *body;    /* with a closing NUL */
  size_t body_length;
  bool close; /* the server said it closes the connection */
};

/* address: "127.0.0.1:8080", "[::1]:8080" or the path of a Unix socket. Fails the test when nobody listens. */
struct client *client_open(const char *address);
struct client *client_open_as(const char *address, const char *token);
bool client_try(const char *address); /* does anybody listen there? */
void client_close(struct client *client);

void client_send(struct client *client, const char *data, size_t length); /* raw bytes */
void client_send_text(struct client *client, const char *text);
/* One request. body NULL: none; else text with Content-Length. */
void client_ask(struct client *client, const char *method, const char *path, const char *body);
void client_ask_bytes(struct client *client, const char *method, const char *path, const char *body, size_t length);

#define CLIENT_TIMEOUT_MS 15000
/* The next answer, valid until the next call; fails the test after CLIENT_TIMEOUT_MS or when the connection ends before. */
const struct response *client_read(struct client *client);
/* The same, but NULL when the connection ends without an answer. */
const struct response *client_read_or_end(struct client *client);
/* True when the server closes the connection within timeout_ms, without another byte. */
bool client_sees_end(struct client *client, int timeout_ms);
const char *response_header(const struct response *response, const char *name); /* its value; NULL where absent */

/* Ask and read. */
const struct response *client_call(struct client *client, const char *method, const char *path, const char *body);
/* The same, and the status must be this one; the body (valid JSON where there is one) is returned: json_decref it. */
json_t *expect(struct client *client, int status, const char *method, const char *path, const char *body);
void expect_status(struct client *client, int status, const char *method, const char *path, const char *body);
/* An error of the service: {"error": word, "message": text}; word NULL: any. */
void expect_error(struct client *client, int status, const char *word, const char *method, const char *path, const char *body);

#endif
