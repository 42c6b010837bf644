/* replies.h: verdicts as answers, the same words for a single heartbeat and for an item of a batch. */
#ifndef PRESENCE_HEARTBEAT_REPLIES_H
#define PRESENCE_HEARTBEAT_REPLIES_H

#include "intake.h"

struct parse_limits parse_limits_of(const struct tenant *tenant);

/* 400 with what the parser found. */
void reply_parse_error(struct request *request, const struct parse_verdict *verdict);

/* True and answered with 429 where count heartbeats are over the tenant's rate. */
bool reply_rate_limited(struct request *request, size_t count);

/* {"error":…,"message":…} of an item that was not accepted, without the braces. */
enum status append_item_error(struct buf *out, const struct intake_item *item, const struct parse_limits *limits) MUST_CHECK;

/* The answer to a single heartbeat that was not accepted. */
void reply_item_error(struct request *request, const struct intake_item *item);

/* Counts an item that was not accepted. */
void count_item(struct batcher *batcher, const struct intake_item *item);

#endif
