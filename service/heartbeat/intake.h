/* intake.h: the valid heartbeats of one request on their way through the batcher, until each has its verdict.
 *
 *   intake_start --> batcher --+-- settings are old (stale) --> tenant_reload ----> batcher, once more
 *                              +-- new device at the limit ----> its row, if any --> batcher, once more with may_open
 *                              +-- else --> verdict; when all have one: finish()
 */
#ifndef PRESENCE_HEARTBEAT_INTAKE_H
#define PRESENCE_HEARTBEAT_INTAKE_H

#include "batcher.h"
#include "outbox.h"
#include "parse.h"
#include "pg_pool.h"
#include "tenant_reload.h"

enum intake_verdict {
  INTAKE_WAITING, /* no verdict yet */
  INTAKE_ACCEPTED,
  INTAKE_INVALID,      /* parse says why */
  INTAKE_REPLACED,     /* a later item of the batch is for the same device: neither accepted nor rejected */
  INTAKE_DEVICE_LIMIT, /* a new device over the tenant's limit */
  INTAKE_BACKLOG,      /* no new sessions at present */
  INTAKE_UNAVAILABLE,  /* status says why; the heartbeat may be in force */
  INTAKE_GONE,         /* the tenant was deleted meanwhile */
  /* between two rounds: */
  INTAKE_STALE,
  INTAKE_NOT_OPENED,
};

/* A heartbeat of a request. The owner sets entry.item's device, ttl and metadata, or verdict and parse where it is invalid. */
struct intake_item {
  struct batcher_entry entry;
  struct intake *intake;
  struct intake_item *next;
  enum intake_verdict verdict;
  enum status status;         /* UNAVAILABLE */
  bool known;                 /* has a row: may open a session whatever the limit */
  struct parse_verdict parse; /* INVALID */
};

/* What Redis said of a single heartbeat with entry.item.want_detail. */
struct intake_detail {
  struct record_outcome outcome; /* its metadata copied */
  int64_t now_ms;
};

struct intake {
  struct request *request;
  struct intake_item *items; /* in the order sent */
  void (*finish)(struct intake *intake);
  struct intake_detail *detail; /* wanted: one item only; else NULL */
  /* The rest is the intake's. */
  size_t waiting;
  size_t stale, not_opened;
  bool reloaded, looked_up;
  struct tenant_reload reload;
};

/* Embedded in a request's memory. finish() runs once, perhaps before this returns. */
void intake_start(struct intake *intake);

#endif
