/* status.h: the one result type. Every fallible function returns enum status and is MUST_CHECK. */
#ifndef PRESENCE_STATUS_H
#define PRESENCE_STATUS_H

#define MUST_CHECK __attribute__((warn_unused_result))

enum status {
  STATUS_OK = 0,
  STATUS_NO_MEMORY,    /* an allocation failed; nothing was changed */
  STATUS_INVALID,      /* the input breaks a rule of the contract */
  STATUS_TOO_LARGE,    /* over a limit of the contract */
  STATUS_FULL,         /* a bounded queue or table has no room: try again later */
  STATUS_IO,           /* a system call failed; errno says why */
  STATUS_TIMEOUT,      /* the wait's limit passed */
  STATUS_CLOSED,       /* the peer or the object is closed; the effect is unknown */
  STATUS_UNAVAILABLE,  /* not connected: nothing was sent */
  STATUS_INITIALISING, /* this Redis server is not adopted yet */
  STATUS_STALE,        /* settings of an older generation: reload and try again */
  STATUS_NOT_FOUND,    /* no such thing */
  STATUS_REFUSED,      /* a rule of the service or of a server forbids it */
  STATUS_PROTOCOL,     /* a server answered something that should not be */
};

/* A short word for logs ("no_memory"); never NULL. Any thread. */
const char *status_name(enum status status);

#endif
