/* sender.h: HTTP POSTs to many receivers at once, on one thread: libcurl's multi interface
 * (https://curl.se/libcurl/c/libcurl-multi.html), with everything limited and nothing taken from the environment.
 *
 * Refused: every scheme but http and https, every address that is not public (unless allowed; judged when the socket is made, so
 * after DNS), redirects (a 3xx is an answer like any other), proxies, .netrc. TLS certificates are verified. Of an answer only
 * the status and Retry-After are looked at. */
#ifndef PRESENCE_WEBHOOK_SENDER_H
#define PRESENCE_WEBHOOK_SENDER_H

#include "clock.h"
#include "str.h"

enum { SENDER_TRANSFERS_MAX = 256, SENDER_ERROR_MAX = 256 };

struct sender;

struct sender_options {
  const struct clock *clock;
  int64_t timeout_ms; /* of a whole request */
  bool allow_private;
  const char *ca_file; /* PEM, trusted instead of the system's; "": the system's */
};

enum status sender_new(const struct sender_options *options, struct sender **sender) MUST_CHECK;
void sender_free(struct sender *sender); /* ends what is under way */

/* Everything is borrowed until the result has come or the request was abandoned. */
struct sender_request {
  const char *url;
  struct str key; /* to sign with */
  struct str id;  /* goes into the header webhook-id */
  struct str body;
  void *owner, *item; /* the caller's */
};
/* STATUS_FULL: SENDER_TRANSFERS_MAX are under way. STATUS_REFUSED: libcurl does not take it. */
enum status sender_send(struct sender *sender, const struct sender_request *request) MUST_CHECK;
/* Ends an owner's requests; there are no results. Whether they were received is unknown. */
void sender_abandon(struct sender *sender, const void *owner);
bool sender_has_room(const struct sender *sender);
size_t sender_under_way(const struct sender *sender);

enum sender_outcome {
  SENDER_DELIVERED,   /* 2xx */
  SENDER_REFUSED,     /* another status */
  SENDER_GONE,        /* 410 */
  SENDER_TIMEOUT,     /* no answer in time */
  SENDER_UNREACHABLE, /* no connection, or it broke, or TLS failed */
  SENDER_FORBIDDEN,   /* an address that is not public */
  SENDER_OUTCOME_COUNT
};
const char *sender_outcome_name(enum sender_outcome outcome); /* for metrics and logs: "delivered" */

struct sender_result {
  void *owner, *item;
  enum sender_outcome outcome;
  int64_t retry_after_ms;       /* what the answer asked for; 0: nothing */
  char error[SENDER_ERROR_MAX]; /* one line, without the URL; "" where delivered */
};
/* Moves all requests on without waiting. */
enum status sender_perform(struct sender *sender) MUST_CHECK;
/* The next result of those that are there; false: no more. */
bool sender_next_result(struct sender *sender, struct sender_result *result);
/* Waits until a request can go on, extra_fd (-1: none) is readable or sender_wake was called; true: extra_fd is. */
bool sender_wait(struct sender *sender, int extra_fd, int64_t timeout_ms);
void sender_wake(struct sender *sender); /* any thread */

#endif
